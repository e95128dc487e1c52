"""``pyro-crowdclust fit``: files in, tables, settings and the result out, in one folder."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyro_crowdclust import CrowdData, Fitted, __version__
from pyro_crowdclust.errors import did_you_mean
from pyro_crowdclust.files.csv_files import write_csv
from pyro_crowdclust.interface.candidates.columns import components_for
from pyro_crowdclust.interface.class_labels import infer_classes
from pyro_crowdclust.interface.classification import classify
from pyro_crowdclust.interface.command_line.advice import advice
from pyro_crowdclust.interface.command_line.fit_folder import (
    FILES,
    RESULT,
    SETTINGS,
    exported_tables,
    new_folder,
    read_data,
    read_exported,
)
from pyro_crowdclust.interface.command_line.reading import (
    FeatureTable,
    read_answers,
    read_features,
)
from pyro_crowdclust.interface.command_line.summary import has_clusters, tables
from pyro_crowdclust.interface.mixtures import recipe_for
from pyro_crowdclust.interface.networks import DeepBernoulli, DeepNormal
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    GaussianComponents,
    MultinomialComponents,
)
from pyro_crowdclust.results.text import whom_to_believe
from pyro_crowdclust.training import Ending, is_interrupted

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
EXPORTS = ("answers", "answers_format")


def fit(options: Namespace) -> int:
    """Fit a model to items and answers, and write what it found to a folder."""
    _check_answers(options)
    of_labels = _of_labels(options)
    _check_files(options, of_labels)
    with new_folder(options.out, options.force):
        return _fit(options, of_labels)


def _fit(options: Namespace, of_labels: bool) -> int:
    table = None
    files = {name: getattr(options, name) for name in (*FILES, "labels", *EXPORTS)}
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
    return 3 if Ending.NOT_FINITE.is_of(result.stop_reason) else 0


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
    flags = {"real": "real", "binary": "binary", "count": "counts", "category": "categories"}
    kinds: dict[Hashable, str] = {}
    for kind, flag in flags.items():
        for name in getattr(options, flag):
            if table.columns is None:
                raise ValueError(f"'{name}' is no column: {options.features} is an array")
            if name not in table.columns:
                raise ValueError(
                    f"--{flag} names the column '{name}', but {options.features} has the features "
                    f"{table.columns}{did_you_mean(name, table.columns)}"
                )
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


def _summary(result: Fitted, folder: Path) -> str:
    lines = [repr(result)]
    if not has_clusters(result):
        lines.append(whom_to_believe(tables(result)["workers"]["accuracy"]))
    if result.chosen is not None:
        lines.append(f"model: {result.chosen.winner}; {result.chosen.reason}")
    lines += [f"advice: {sentence}" for sentence in advice(result)]
    names = ", ".join(sorted(file.name for file in folder.iterdir() if file.is_file()))
    return "\n".join([*lines, f"{folder}: {names}"])
