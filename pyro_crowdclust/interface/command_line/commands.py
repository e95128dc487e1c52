"""What the commands of the command line do, on options that it has parsed."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pyro_crowdclust import CrowdData, Fitted, __version__
from pyro_crowdclust.files.csv_files import write_csv
from pyro_crowdclust.interface.candidates.columns import components_for
from pyro_crowdclust.interface.class_labels import infer_classes
from pyro_crowdclust.interface.classification import classify
from pyro_crowdclust.interface.command_line.advice import advice
from pyro_crowdclust.interface.command_line.ask import ask
from pyro_crowdclust.interface.command_line.fit_folder import (
    FILES,
    RESULT,
    SETTINGS,
    exported_tables,
    new_folder,
    read_data,
    read_exported,
    read_result,
)
from pyro_crowdclust.interface.command_line.reading import (
    FeatureTable,
    read_answers,
    read_features,
)
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.interface.command_line.summary import has_clusters, tables
from pyro_crowdclust.interface.mixtures import recipe_for
from pyro_crowdclust.interface.networks import DeepBernoulli, DeepNormal
from pyro_crowdclust.metrics import clustering_report
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    GaussianComponents,
    MultinomialComponents,
)
from pyro_crowdclust.restarts import is_interrupted
from pyro_crowdclust.results.text import whom_to_believe
from pyro_crowdclust.simulation import simulate_pages

__all__ = ["MODELS", "ask", "demo", "fit", "predict", "report", "simulate"]

MODELS = {
    "choose": GaussianComponents,
    "gaussian": GaussianComponents,
    "diagonal-gaussian": DiagonalGaussianComponents,
    "binary": None,
    "counts": None,
    "words": MultinomialComponents,
    "deep-normal": DeepNormal,
    "deep-bernoulli": DeepBernoulli,
    "dawid-skene": None,
}
_NETWORKS = ("deep-normal", "deep-bernoulli")
_LABEL_IDS = ("item", "worker", "label")
# What a tool exported, and which format it has.
_EXPORTS = ("answers", "answers_format")


def fit(options: Namespace) -> int:
    """Fit a model to items and answers, and write what it found to a folder."""
    _check_answers(options)
    of_labels = _of_labels(options)
    _check_files(options, of_labels)
    with new_folder(options.out, options.force):
        return _fit(options, of_labels)


def _fit(options: Namespace, of_labels: bool) -> int:
    table = None
    files = {name: getattr(options, name) for name in (*FILES, "labels", *_EXPORTS)}
    settings = {
        "pyro_crowdclust": __version__,
        "model": options.model,
        **{name: _absolute(files[name]) for name in (*FILES, "labels")},
        "answers": files["answers"] and [*map(_absolute, files["answers"])],
        "answers_format": files["answers_format"],
        "ignore": options.ignore,
        "grades": options.grades,
    }
    if options.features is not None:
        table = read_features(options.features, id_column=options.id_column, ignore=options.ignore)
    if of_labels:
        result = _fit_labels(options, table)
    else:
        settings["kinds"] = {} if table is None else _kinds(options, table)
        data = read_data(files, table, settings["kinds"], options.grades)
        result = _fit_clusters(data, options)
    settings |= {
        "id_column": None if table is None else table.ids.name,
        "columns": None if table is None else table.columns,
        "seed": result.seed,
        "stop_reason": result.stop_reason,
        "elbo": result.elbo,
    }
    for name, frame in tables(result).items():
        write_csv(frame, options.out / f"{name}.csv")
    result.save(options.out / RESULT)
    text = json.dumps(settings, indent=2) + "\n"
    (options.out / SETTINGS).write_text(text, encoding="utf-8")
    if not options.quiet:
        print(_summary(result, options.out))
    if is_interrupted(result):
        return 130
    return 3 if result.stop_reason.startswith("not finite") else 0


def _check_answers(options: Namespace) -> None:
    """Refuse answers in a tool's files beside answers in a table."""
    if options.answers is not None:
        for name in ("pairs", "placements", "labels"):
            if getattr(options, name) is not None:
                raise ValueError(f"--answers and --{name} are given: leave one of them out")
    elif options.grades is not None and options.pairs is None:
        raise ValueError(
            "--grades are of answers about pairs: name their file by --pairs or --answers"
        )
    elif options.answers_format is not None:
        raise ValueError("--answers-format says nothing without --answers FILE")


def _of_labels(options: Namespace) -> bool:
    """Whether workers named classes."""
    if options.model != "choose":
        return bool(options.model == "dawid-skene")
    if options.labels is not None or options.answers is None:
        return options.labels is not None
    return {*exported_tables(vars(options), None)} == {"labels"}


@dataclass(frozen=True)
class _Takes:
    """Which files a model takes beside those of ``--answers``, one of ``needs`` at least."""

    files: tuple[str, ...]
    needs: tuple[str, ...]
    remedy: str = "leave out --model"


_OF_CLUSTERS = _Takes(FILES, ("features",))
_CHOICE = _Takes(FILES, ("features", "answers", "pairs", "placements", "labels"))
_CHOICE_OF_LABELS = _Takes(
    ("labels", "features"), ("labels", "answers"), "beside labels there are --features at most"
)
_DAWID_SKENE = _Takes(("labels",), ("labels", "answers"), "choose another --model")


def _check_files(options: Namespace, of_labels: bool) -> None:
    """Refuse files that the model does not take, before they are read."""
    takes = {"choose": _CHOICE, "dawid-skene": _DAWID_SKENE}.get(options.model, _OF_CLUSTERS)
    if of_labels and options.model == "choose":
        takes = _CHOICE_OF_LABELS
    for name in (*FILES, "labels"):
        if getattr(options, name) is not None and name not in takes.files:
            word = name.replace("_", "-")
            raise ValueError(f"--model {options.model} does not use --{word}: {takes.remedy}")
    if all(getattr(options, name) is None for name in takes.needs):
        needs = " or ".join(f"--{name}" for name in takes.needs)
        raise ValueError(f"there is nothing to fit: --model {options.model} needs {needs}")


def _kinds(options: Namespace, table: FeatureTable) -> dict[Hashable, str]:
    """What the options say that columns hold."""
    named = {
        "real": options.real,
        "binary": options.binary,
        "count": options.counts,
        "category": options.categories,
    }
    kinds: dict[Hashable, str] = {}
    for kind, names in named.items():
        for name in names:
            if table.columns is None:
                raise ValueError(f"'{name}' is no column: {options.features} is an array")
            if kinds.setdefault(name, kind) != kind:
                raise ValueError(f"column '{name}' is said to be {kinds[name]} and {kind}: say one")
    # A model of one kind of columns is of all that no option names.
    of_all = {"binary": "binary", "counts": "count"}.get(options.model)
    if of_all is None and options.model not in ("choose", "gaussian", "diagonal-gaussian"):
        of_all = "real"
    if of_all is not None and table.values.ndim == 2:
        every: Iterable[Hashable] = table.columns or range(table.values.shape[1])
        return {**dict.fromkeys(every, of_all), **kinds}
    return kinds


def _fit_clusters(data: CrowdData, options: Namespace) -> Fitted:
    part: Any = MODELS[options.model]
    parts: dict[str, Any]
    if options.model == "choose":
        parts = {}
    elif options.model in _NETWORKS:
        parts = {"networks": part(options.dim, tuple(options.hidden))}
    elif options.model == "words":
        parts = {"components": MultinomialComponents}
    else:
        parts = {"components": components_for(data, part or GaussianComponents)}
    recipe = recipe_for(data, num_clusters=options.clusters, **parts)
    return recipe.fit(num_starts=options.starts, **_training(options))


def _fit_labels(options: Namespace, table: FeatureTable | None) -> Fitted:
    if options.answers is None:
        labels = read_answers(options.labels, _LABEL_IDS)
    else:
        ids = () if table is None else table.ids
        labels = read_exported(vars(options), ids, ("labels",))["labels"]
    if table is None:
        return infer_classes(CrowdData(None, labels=labels), **_training(options))
    kinds = _kinds(options, table)
    return classify(table.values, labels, item_ids=table.ids, kinds=kinds, **_training(options))


def _training(options: Namespace) -> dict:
    changes = {} if options.epochs is None else {"epochs": options.epochs}
    return {"seed": options.seed, "progress": not options.quiet, **changes}


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def predict(options: Namespace) -> int:
    """Cluster new items by their features, with what 'fit' learned."""
    result, settings = read_result(options.folder)
    if settings["features"] is None and not has_clusters(result):
        raise ValueError(
            f"{options.folder} is of labels without features, which say nothing of new items: "
            "collect labels of the new items and fit all of them"
        )
    table = read_features(options.features, id_column=options.id_column or settings["id_column"])
    probabilities = _naming(options.features, result.predict_proba, table.values)
    best = probabilities.argmax(1)
    named = {"cluster": best} if has_clusters(result) else {"class": result.data.class_ids[best]}
    columns = named | {"probability": probabilities.max(1)}
    found = pd.DataFrame(columns, index=table.ids.rename("item"))
    write_csv(found, sys.stdout if options.out is None else options.out)
    return 0


def report(options: Namespace) -> int:
    """Write a page with the tables and pictures of what 'fit' learned."""
    result, settings = read_result(options.folder, with_features=True)
    path = options.out or options.folder / "report.html"
    kind = "Clusters" if has_clusters(result) else "Classes"
    files = [settings[name] for name in (*FILES, "labels")] + (settings["answers"] or [])
    title = f"{kind} of {Path(next(filter(None, files))).name}"
    path.write_text(report_page(result, title), encoding="utf-8")
    print(path)
    return 0


def simulate(options: Namespace) -> int:
    """Write items, answers of a simulated crowd and the truth, as files to try."""
    with new_folder(options.out, options.force):
        features, pairs, truth = _crowd(options)
        write_csv(features, options.out / "features.csv")
        write_csv(pairs, options.out / "answers.csv", index=False)
        write_csv(truth, options.out / "truth.csv")
    if not options.quiet:
        print(f"{options.out}: features.csv, answers.csv, truth.csv ({len(pairs)} answers)")
    return 0


def demo(options: Namespace) -> int:
    """Simulate a crowd, fit it, write the page, and compare with the truth."""
    simulate(options)
    folder = options.out
    code = fit(
        Namespace(
            **vars(options)
            | {
                "features": folder / "features.csv",
                "pairs": folder / "answers.csv",
                "out": folder / "fit",
                "id_column": None,
                "ignore": [],
                "grades": None,
                **dict.fromkeys(("placements", "known", "must_link", "cannot_link", "labels")),
                **dict.fromkeys(_EXPORTS),
                **dict.fromkeys(("real", "binary", "counts", "categories"), []),
                "model": "choose",
            }
        )
    )
    report(Namespace(folder=folder / "fit", out=None))
    truth = pd.read_csv(folder / "truth.csv", index_col="item")["cluster"]
    found = pd.read_csv(folder / "fit" / "items.csv", index_col="item")["cluster"]
    scores = clustering_report(truth.to_numpy(), found.loc[truth.index].to_numpy())
    print(f"accuracy against the truth {scores['accuracy']:.3f}, NMI {scores['nmi']:.3f}")
    return code


def _naming(path: Path, do: Callable[[Any], Any], table: Any) -> Any:
    """What ``do`` makes of a table, with errors that name the file."""
    try:
        return do(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _summary(result: Fitted, folder: Path) -> str:
    lines = [repr(result)]
    if not has_clusters(result):
        lines.append(whom_to_believe(tables(result)["workers"]["accuracy"]))
    if result.chosen is not None:
        lines.append(f"model: {result.chosen.winner}; {result.chosen.reason}")
    lines += [f"advice: {sentence}" for sentence in advice(result)]
    names = ", ".join(sorted(file.name for file in folder.iterdir() if file.is_file()))
    return "\n".join([*lines, f"{folder}: {names}"])


def _crowd(options: Namespace) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Overlapping Gaussians with string ids, answers about a third of them, and the truth."""
    rng = np.random.default_rng(options.seed)
    kinds = rng.integers(options.true_clusters, size=options.items)
    centers = rng.normal(scale=2.5, size=(options.true_clusters, 4))
    names = pd.Index([f"item-{i:04d}" for i in range(options.items)], name="item")
    features = pd.DataFrame(
        centers[kinds] + rng.normal(size=(options.items, 4)), names, list("abcd")
    )
    good = rng.uniform(0.8, 0.98, (2, options.workers - 1))
    sensitivity, specificity = np.column_stack([good, [0.5, 0.5]])
    page_size = min(12, options.items)
    asked = rng.choice(options.items, max(options.items // 3, page_size), replace=False)
    pairs = simulate_pages(
        kinds,
        sensitivity,
        specificity,
        pages_per_worker=options.pages,
        page_size=page_size,
        items=asked,
        seed=options.seed,
    )
    named = pairs.assign(
        left=names[pairs["left"]],
        right=names[pairs["right"]],
        worker="worker-" + pairs["worker"].astype(str),
        page="page-" + pairs["page"].astype(str),
    )
    return features.round(4), named, pd.DataFrame({"cluster": kinds}, index=names)
