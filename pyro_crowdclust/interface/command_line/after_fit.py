"""``pyro-crowdclust predict`` and ``report``: what follows ``fit``, from the folder it wrote."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pandas as pd

from pyro_crowdclust.files.csv_files import write_csv
from pyro_crowdclust.interface.command_line.fit_folder import (
    FILES,
    REPORT,
    RESULT,
    SETTINGS,
    read_result,
    refuse_inputs,
)
from pyro_crowdclust.interface.command_line.reading import naming_lines, read_feature_file
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.interface.command_line.summary import has_clusters

# Of files that a browser shows as a page.
_ENDINGS = (".html", ".htm")


def predict(options: Namespace) -> int:
    """Cluster new items by their features, with what 'fit' learned."""
    if options.out is not None:
        own = [options.folder / name for name in (RESULT, SETTINGS)]
        refuse_inputs([options.out], [options.features, *own])
    result, settings = read_result(options.folder)
    if settings["features"] is None and not has_clusters(result):
        raise ValueError(
            f"{options.folder} is a fit of labels without features, which cannot predict classes "
            "of new items: collect labels of the new items, and fit all items together"
        )
    table = read_feature_file(
        options.features,
        id_column=options.id_column,
        usual_ids=settings["id_column"],
        features=settings["columns"] or (),
    )
    try:
        with naming_lines(options.features):
            probabilities = result.predict_proba(table.values)
    except ValueError as error:
        if str(error).startswith(str(options.features)):
            raise
        raise ValueError(f"{options.features}: {error}") from error
    best = probabilities.argmax(1)
    named = {"cluster": best} if has_clusters(result) else {"class": result.data.class_ids[best]}
    columns = named | {"probability": probabilities.max(1)}
    found = pd.DataFrame(columns, index=table.ids.rename("item"))
    write_csv(found, sys.stdout if options.out is None else options.out)
    return 0


def report(options: Namespace) -> int:
    """Write a page with the tables and pictures of what 'fit' learned."""
    path = options.out or options.folder / REPORT
    if path.suffix.lower() not in _ENDINGS:
        raise ValueError(
            f"--out {path}: the report is a web page, which opens only if its name ends in .html: "
            f"--out {path.with_suffix('.html')}"
        )
    result, settings = read_result(options.folder, with_features=True)
    kind = "Clusters" if has_clusters(result) else "Classes"
    files = [settings.get(name) for name in (*FILES, "labels")] + (settings["answers"] or [])
    title = f"{kind} of {Path(next(filter(None, files))).name}"
    path.write_text(report_page(result, title), encoding="utf-8")
    print(path)
    return 0
