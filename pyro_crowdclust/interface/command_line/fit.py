"""``pyro-crowdclust fit``: reads files, fits, and writes tables, settings and the result."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

from pyro_crowdclust import Fitted, __version__
from pyro_crowdclust.errors import did_you_mean
from pyro_crowdclust.files.csv_files import write_csv
from pyro_crowdclust.interface.advising.advice import advice
from pyro_crowdclust.interface.command_line.fit_folder import (
    FILES,
    REPORT,
    RESULT,
    SETTINGS,
    is_of_fit,
    new_folder,
    refuse_inputs,
)
from pyro_crowdclust.interface.command_line.models import MODELS, CommandModel
from pyro_crowdclust.interface.command_line.reading import (
    FeatureTable,
    naming_lines,
    read_feature_file,
)
from pyro_crowdclust.interface.command_line.summary import TABLES, has_clusters, tables
from pyro_crowdclust.interface.command_line.wording import in_options
from pyro_crowdclust.results.text import most_and_least_reliable
from pyro_crowdclust.training import Ending, is_interrupted
from pyro_crowdclust.training.interrupts import WaitingInterrupt

# All that a fit, and the report of it, may write to its folder.
_OWN = (RESULT, SETTINGS, REPORT, *(f"{name}.csv" for name in TABLES))
# Options that are kept as they were given.
_TYPED = ("trusted", "grades", "clusters", "epochs", "starts", "seed", "dim", "hidden")


def fit(options: Namespace) -> int:
    """Fit a model to items and answers, and write what it found to a folder."""
    _check_answers(options)
    model = MODELS[options.model].of_files(options)
    model.takes.check(options)
    with new_folder(options.out, options.force):
        _check_replaced(options)
        return _fit(options, model)


def _fit(options: Namespace, model: CommandModel) -> int:
    table, kinds = None, {}
    if options.features is not None:
        table = read_feature_file(
            options.features, id_column=options.id_column, ignore=options.ignore
        )
        kinds = _kinds(options, table, model.kind)
    with naming_lines(options.features):
        result = model.fit(options, table, kinds)
    settings = {
        "pyro_crowdclust": __version__,
        "model": options.model,
        **{name: _absolute(getattr(options, name)) for name in (*FILES, "labels")},
        "answers": options.answers and [*map(_absolute, options.answers)],
        "answers_format": options.answers_format,
        "ignore": options.ignore,
        **{name: getattr(options, name) for name in _TYPED},
        "kinds": kinds,
        "id_column": None if table is None else table.ids.name,
        "columns": None if table is None else table.columns,
        "seed_of_start": result.seed,
        "stop_reason": result.stop_reason,
        "elbo": result.elbo,
    }
    with WaitingInterrupt() as interrupt:  # so that Ctrl-C does not lose the fit
        names = _write(result, settings, options.out)
    if not options.quiet:
        print("\n".join([_summary(result), f"{options.out}: {', '.join(sorted(names))}"]))
    if interrupt.received or is_interrupted(result):
        return 130
    return 3 if Ending.NOT_FINITE.is_of(result.stop_reason) else 0


def _check_replaced(options: Namespace) -> None:
    """Refuse to write over files that are read, or that no earlier fit wrote."""
    own = [options.out / name for name in _OWN]
    inputs = [getattr(options, name) for name in (*FILES, "labels")]
    refuse_inputs(own, [*inputs, *(options.answers or [])])
    others = [path.name for path in own if path.exists()]
    if others and not is_of_fit(options.out):
        raise ValueError(
            f"the folder {options.out} has a file {others[0]}, which no fit wrote, as there is no "
            f"{SETTINGS} of one: name another folder, or move the file"
        )


def _write(result: Fitted, settings: dict[str, Any], folder: Path) -> list[str]:
    """Write the result first, as all else follows from it; returns the names of the files.

    Files of an earlier fit are removed.
    """
    try:
        result.save(folder / RESULT)
        text = json.dumps(settings, indent=2) + "\n"
        (folder / SETTINGS).write_text(text, encoding="utf-8")
        found = {f"{name}.csv": frame for name, frame in tables(result).items()}
        names = [RESULT, SETTINGS, *found]
        for name in {*_OWN} - {*names}:
            (folder / name).unlink(missing_ok=True)
        for name, frame in found.items():
            write_csv(frame, folder / name)
    except OSError as error:
        raise ValueError(
            f"cannot write all files of the fit to {folder} ({error.strerror or error}): make "
            "room on the disk, and fit again"
        ) from error
    return names


def _check_answers(options: Namespace) -> None:
    """Refuse options of answers that do not fit together."""
    if options.answers is not None:
        for name in ("pairs", "placements", "labels"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--answers and --{name} are both given: name all files by --answers"
                )
    elif options.pairs is not None and options.placements is not None:
        raise ValueError(
            "--pairs and --placements are both given: name both files by --answers, which uses "
            "pages as answers about their pairs then"
        )
    elif options.grades is not None and options.pairs is None:
        raise ValueError(
            "--grades are labels of pairs, but there are no pairs: name their file by --pairs or "
            "--answers"
        )
    elif options.answers_format is not None:
        raise ValueError(
            "--answers-format is given without --answers: name the files of answers, or leave it "
            "out"
        )


def _kinds(options: Namespace, table: FeatureTable, default: str | None) -> dict[Hashable, str]:
    """What the columns hold, by the options; for columns without an option, by the model."""
    flags = {"real": "real", "binary": "binary", "count": "counts", "category": "categories"}
    kinds: dict[Hashable, str] = {}
    for kind, flag in flags.items():
        for name in getattr(options, flag):
            if table.columns is None:
                raise ValueError(
                    f"--{flag} names the column '{name}', but {options.features} is an array, "
                    "whose columns have no names: leave the option out, or pass a table"
                )
            if name not in table.columns:
                raise ValueError(
                    f"--{flag} names the column '{name}', but {options.features} has the features "
                    f"{table.columns}{did_you_mean(name, table.columns)}"
                )
            if kinds.setdefault(name, kind) != kind:
                raise ValueError(
                    f"column '{name}' is declared as both {kinds[name]} and {kind}: declare one "
                    "kind"
                )
    if default is not None and table.values.ndim == 2:
        every: Iterable[Hashable] = table.columns or range(table.values.shape[1])
        return {**dict.fromkeys(every, default), **kinds}
    return kinds


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _summary(result: Fitted) -> str:
    lines = [repr(result)]
    if not has_clusters(result):
        lines.append(most_and_least_reliable(tables(result)["workers"]["accuracy"]))
    if result.chosen is not None:
        lines.append(f"model: {result.chosen.winner}; {result.chosen.reason}")
    lines += [f"advice: {in_options(sentence)}" for sentence in advice(result)]
    return "\n".join(lines)
