"""The folder that ``fit`` writes: its files, and how data and results are read from them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.data import Columns
from pyro_crowdclust.errors import warn
from pyro_crowdclust.exchange import FORMATS, CrowdAnswers, read_answers
from pyro_crowdclust.exchange.crowd_answers import check_graded
from pyro_crowdclust.files.writing import check_room
from pyro_crowdclust.interface.command_line.reading import (
    FeatureTable,
    labels_by_item,
    read_answer_file,
    read_feature_file,
)

# Options that name files of data for clusters, the features first.
FILES = ("features", "pairs", "placements", "known", "must_link", "cannot_link", "likeness")
RESULT = "result.safetensors"
SETTINGS = "settings.json"
REPORT = "report.html"
_PAIR_IDS = ("left", "right", "worker", "page")
_PLACEMENT_IDS = ("page", "item", "worker", "group")
_KNOWN_IDS = ("item", "label")
_LINK_IDS = ("left", "right")
_LABEL_IDS = ("item", "worker", "label")


@contextmanager
def new_folder(path: Path, force: bool) -> Iterator[None]:
    """A folder to write to; if it is new and stays empty, as after an error, it is removed."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file, but must be a folder: name another")
    if path.is_dir() and any(path.iterdir()) and not force:
        raise ValueError(f"the folder {path} is not empty: name another, or add --force")
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        # Before hours of training, not after.
        check_room(path / RESULT, 1)
        yield
    finally:
        for folder in new:
            if not any(folder.iterdir()):
                folder.rmdir()


def is_of_fit(folder: Path) -> bool:
    """Whether an earlier fit wrote to the folder."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and "pyro_crowdclust" in settings


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[Path | str | None]) -> None:
    """Raise a ``ValueError`` if one of the files to write is one that the command reads."""
    read = {Path(path).resolve() for path in inputs if path is not None}
    for path in outputs:
        if path.resolve() in read:
            raise ValueError(
                f"{path} is read by this command, which would write over it: name another --out"
            )


def read_data(
    files: Mapping[str, Any],
    table: FeatureTable | None,
    kinds: Mapping[Hashable, str] | Columns | None,
    grades: Sequence[str] | None = None,
) -> CrowdData:
    """The data in a table of features and in the files that the options name.

    Without a table there are answers only. Where labels of pairs are grades, they are read as text,
    like ids.
    """
    of_pairs = _PAIR_IDS if grades is None else (*_PAIR_IDS, "label")
    tables: dict[str, Any] = {
        name: read_answer_file(Path(str(files[name])), columns)
        for name, columns in (
            ("pairs", of_pairs),
            ("placements", _PLACEMENT_IDS),
            ("known", _KNOWN_IDS),
            ("must_link", _LINK_IDS),
            ("cannot_link", _LINK_IDS),
            ("likeness", _LINK_IDS),
        )
        if files.get(name) is not None
    }
    if "known" in tables:
        ids = None if table is None else table.ids
        tables["known"] = labels_by_item(tables["known"], Path(str(files["known"])), ids)
    if files["answers"] is not None:
        ids = None if table is None else table.ids
        wanted = ("pairs", "placements") if grades is None else ("pairs",)
        exported = read_exported(files, ids, wanted)
        if grades is not None and len(grades) > 1:
            check_graded(exported["pairs"], pd.Index(grades))
        tables |= exported
    if grades is not None:
        tables["grades"] = _levels(grades)
        if "label" in tables.get("pairs", ()):
            pairs = tables["pairs"]
            tables["pairs"] = pairs.assign(label=_spelled_as(pairs["label"], grades))
    if table is None:
        return CrowdData(None, **tables)
    return CrowdData(table.values, item_ids=table.ids, kinds=kinds or None, **tables)


def read_labels(files: Mapping[str, Any], table: FeatureTable | None) -> pd.DataFrame:
    """The labels of items, from their own file or from those that a tool exported."""
    if files["answers"] is None:
        return read_answer_file(Path(str(files["labels"])), _LABEL_IDS)
    return read_exported(files, () if table is None else table.ids, ("labels",))["labels"]


def _levels(grades: Sequence[str]) -> int | Sequence[str]:
    """The grades, or the number of levels to which probabilities are rounded."""
    if len(grades) > 1:
        return grades
    if not grades[0].isdecimal():
        raise ValueError(
            f"--grades {grades[0]} is a single grade: name all grades, or give the number of levels"
        )
    return int(grades[0])


def _spelled_as(labels: pd.Series, grades: Sequence[str]) -> pd.Series:
    """Labels spelled like the grades: where cells are empty, many programs write "2" as "2.0"."""
    numbers = pd.to_numeric(pd.Series([*grades], [*grades]), errors="coerce").dropna()
    names = {number: name for name, number in numbers.items()}
    found = pd.to_numeric(labels, errors="coerce").map(names)
    return labels.where(labels.isin(grades) | found.isna(), found)


def read_exported(
    files: Mapping[str, Any], item_ids: Iterable[Hashable] | None, wanted: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """The answers about these items (None: all) that a tool exported, as tables by their kinds.

    Raises
    ------
    ValueError
        If there are no answers, or answers of other kinds than the wanted ones.
    """
    tables = exported_tables(files, item_ids)
    if not tables:
        reasons = "; ".join(_why_none(path, files) for path in files["answers"])
        raise ValueError(f"there are no answers to fit: {reasons}")
    if not {*tables} <= {*wanted}:
        raise ValueError(
            f"{', '.join(map(str, files['answers']))}: the model uses {' or '.join(wanted)}, but "
            f"the files have {', '.join(tables)}"
        )
    return tables


def exported_tables(
    files: Mapping[str, Any], item_ids: Iterable[Hashable] | None
) -> dict[str, pd.DataFrame]:
    """The answers about these items (None: all) that a tool exported, as tables by their kinds."""
    answers = _read(files["answers"], files)
    return (answers if item_ids is None else answers.for_items(item_ids)).tables()


def _read(paths: Sequence[Path], files: Mapping[str, Any]) -> CrowdAnswers:
    form = files["answers_format"]
    return read_answers(*paths, form=None if form is None else FORMATS[form])


def _why_none(path: Path, files: Mapping[str, Any]) -> str:
    """Why a file of answers holds none."""
    number = len(_read([path], files).unanswered)
    if not number:
        return f"{path} has no rows and no tasks"
    asked = "the one question in it is" if number == 1 else f"all {number} questions in it are"
    return f"{path}: {asked} unanswered or undecided"


def read_result(folder: Path, *, with_features: bool = False) -> tuple[Fitted, dict]:
    """What 'fit' wrote; if asked for, with the features, unless they were changed or moved."""
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        # Older folders do not have all of these settings.
        files = {name: settings[name] for name in FILES if name != "likeness"}
        later = ("likeness", "labels", "answers", "answers_format")
        files |= {name: settings.get(name) for name in later}
        id_column, ignore = settings["id_column"], settings["ignore"]
        grades = settings.get("grades")
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(
            f"{folder} was not written by 'pyro-crowdclust fit --out': it has no readable "
            f"{SETTINGS}"
        ) from None
    result = load(folder / RESULT)
    if with_features and files["features"] is not None:
        try:
            table = read_feature_file(Path(files["features"]), id_column=id_column, ignore=ignore)
            if result.data.class_labels is None:
                data = read_data(files, table, result.data.columns, grades)
            else:
                data = CrowdData(
                    table.values,
                    labels=read_labels(files, table),
                    item_ids=table.ids,
                    kinds=result.data.columns,
                )
            result = load(folder / RESULT, data=data)
        except ValueError as error:
            warn(f"the features of the fit are not used: {error}")
    return result, settings
