"""Reads the arguments of ``CrowdData``: checks them, and replaces all ids by codes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import pandas as pd

from pyro_crowdclust.data.answer_tables import (
    answer_table,
    check_given,
    refuse_answers,
    warn_about_skipped,
)
from pyro_crowdclust.data.class_labels import read_class_labels
from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.features import read_features
from pyro_crowdclust.data.ids import ids_in_tables, read_item_ids, read_workers
from pyro_crowdclust.data.known_labels import count_contradictions, read_known, read_links
from pyro_crowdclust.data.likeness import likeness_of, read_likeness
from pyro_crowdclust.data.pair_tables import read_grades, read_pairs
from pyro_crowdclust.data.placements import read_placements
from pyro_crowdclust.data.tables import in_pandas


def read_parts(
    features: Any | None = None,
    pairs: Any | None = None,
    *,
    placements: Any | None = None,
    grades: Iterable[Hashable] | int | None = None,
    known: Any | None = None,
    must_link: Any | None = None,
    cannot_link: Any | None = None,
    labels: Any | None = None,
    classes: Iterable[Hashable] | None = None,
    likeness: Any | None = None,
    item_ids: Iterable[Hashable] | None = None,
    kinds: Mapping[Hashable, str] | Columns | None = None,
) -> dict[str, Any]:
    """The fields of ``CrowdData`` by name, from its arguments.

    Raises
    ------
    ValueError
        As ``CrowdData`` does.

    Warns
    -----
    UserWarning
        As ``CrowdData`` does, but for repeated answers and contradictions.

    Examples
    --------
    >>> answers = {"left": ["ant"], "right": ["bee"], "worker": [7], "label": ["same"]}
    >>> parts = read_parts(pairs=answers)
    >>> parts["item_ids"].tolist(), parts["answers"].label.tolist()
    (['ant', 'bee'], [1.0])
    """
    check_given(
        features,
        pairs,
        placements,
        labels,
        grades=grades,
        classes=classes,
        kinds=kinds,
        likeness=likeness,
    )
    features = in_pandas(features)
    refuse_answers(features)
    given = {"pairs": pairs, "placements": placements, "labels": labels}
    pairs = answer_table("pairs", pairs, may_lack=() if grades is None else ("label",))
    placements, labels = answer_table("placements", placements), answer_table("labels", labels)
    for name, kept in (("pairs", pairs), ("placements", placements), ("labels", labels)):
        warn_about_skipped(name, given[name], kept)
    numbers = None if likeness is None else read_likeness(likeness)
    if item_ids is None and isinstance(features, pd.DataFrame):
        item_ids = features.index
    num_rows = None
    of_features: dict[str, Any] = {"features": None, "columns": None, "num_missing": 0}
    if features is not None:
        of_features = _features(features, kinds)
        num_rows = len(of_features["features"])
        item_ids = pd.RangeIndex(num_rows) if item_ids is None else item_ids
    elif item_ids is None:
        item_ids = ids_in_tables(pairs, labels, placements, numbers)
    ids = read_item_ids(item_ids, num_rows)
    return {
        **of_features,
        "item_ids": ids,
        **_answers(pairs, placements, labels, ids, grades, classes),
        **_supervision(known, must_link, cannot_link, ids),
        **_likeness(numbers, ids),
    }


def _no_ids() -> pd.Index:
    """An empty index."""
    return pd.Index([], dtype=object)


def _features(features: Any, kinds: Mapping[Hashable, str] | Columns | None) -> dict[str, Any]:
    read, given = (kinds, None) if isinstance(kinds, Columns) else (None, kinds)
    values, columns, num_missing = read_features(features, given, read)
    return {"features": values, "columns": columns, "num_missing": num_missing}


def _answers(
    pairs: pd.DataFrame | None,
    placements: pd.DataFrame | None,
    labels: pd.DataFrame | None,
    ids: pd.Index,
    grades: Iterable[Hashable] | int | None,
    classes: Iterable[Hashable] | None,
) -> dict[str, Any]:
    """The answers in positions and codes, and the ids of the codes."""
    codes, worker_ids = read_workers(pairs, labels, placements)
    answers, class_labels, sorted_pages = None, None, None
    page_ids, class_ids, grade_ids = _no_ids(), _no_ids(), _no_ids()
    if grades is not None:
        grade_ids = read_grades(grades)
    if pairs is not None:
        answers, page_ids = read_pairs(pairs, ids, codes[0], grade_ids)
    if placements is not None:
        sorted_pages, page_ids = read_placements(placements, ids, codes[2])
    if labels is not None:
        class_labels, class_ids = read_class_labels(labels, ids, codes[1], len(worker_ids), classes)
    return {
        "answers": answers,
        "_all_answers": None,
        "_counts": None,
        "placements": sorted_pages,
        "class_labels": class_labels,
        "worker_ids": worker_ids,
        "page_ids": page_ids,
        "class_ids": class_ids,
        "grade_ids": grade_ids,
        "_pairs_index": None if pairs is None else pairs.index,
        "_labels_index": None if labels is None else labels.index,
    }


def _supervision(known: Any, must_link: Any, cannot_link: Any, ids: pd.Index) -> dict[str, Any]:
    """Known labels and links, and how often they contradict each other."""
    codes, known_ids = (None, _no_ids()) if known is None else read_known(known, ids)
    links = read_links(must_link, cannot_link, ids)
    return {
        "known": codes if len(known_ids) else None,
        "known_ids": known_ids,
        "links": links,
        "num_contradictions": count_contradictions(links, codes),
    }


def _likeness(numbers: pd.DataFrame | None, ids: pd.Index) -> dict[str, Any]:
    likeness, names = (None, _no_ids()) if numbers is None else likeness_of(numbers, ids)
    return {"likeness": likeness, "likeness_names": names}
