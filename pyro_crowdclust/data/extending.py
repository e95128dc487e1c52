"""Extends data by more answers, workers and items."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_crowdclust.data.class_labels import repeated_labels
from pyro_crowdclust.data.copied_pages import message_about_copies
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.likeness import Likeness, likeness_of, read_likeness
from pyro_crowdclust.data.new_answers import NewAnswers, check_items, recorded
from pyro_crowdclust.data.pair_answers import repeated_answers
from pyro_crowdclust.data.pair_tables import are_levels
from pyro_crowdclust.data.repeated_pairs import counted
from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.data.tables import are_among, as_frame, reject, to_index
from pyro_crowdclust.errors import warn


def extended(
    data: CrowdData,
    *,
    items: CrowdData | None = None,
    pairs: Any | None = None,
    placements: Any | None = None,
    labels: Any | None = None,
    classes: Iterable[Hashable] | None = None,
    likeness: Any | None = None,
) -> CrowdData:
    """The data followed by new items and answers.

    New pairs become placements where the data have placements, and the reverse; each pair without a
    page becomes a page of its own where the data have pages. Workers are renumbered by their ids;
    items keep their positions.

    Parameters
    ----------
    data
        The data so far.
    items
        New items, with ids and columns like those of the data.
    pairs, placements, labels
        Answers, about old items and new ones, as for ``CrowdData``.
    classes
        More classes that items can have, after those of the data.
    likeness
        Numbers of more pairs, in columns with the same names as in the data.

    Raises
    ------
    ValueError
        For input that ``CrowdData`` refuses, for a page or the likeness of a pair that the data
        already have, and for new items if the features of the data are on disk.

    Examples
    --------
    >>> before = CrowdData(np.eye(3), {"left": [0], "right": [1], "worker": ["b"], "label": [1]})
    >>> more = {"left": [1], "right": [2], "worker": ["a"], "label": [0]}
    >>> extended(before, pairs=more)
    CrowdData(3 items, features 3 binary, 2 answers by 2 workers on 3 items)
    """
    ids = data.item_ids
    if items is not None:
        ids = pd.Index([*ids, *items.item_ids], tupleize_cols=False)
    grades, all_classes = _grades(data), _classes(data, classes)
    tables = {"pairs": pairs, "placements": placements, "labels": labels}
    new = _new_answers(data, tables, ids, grades, all_classes)
    before = {"pairs": data.pairs, "placements": data.pages, "labels": data.labels}
    after = dict(before)
    for one in new:
        after[one.kind] = one.after(after[one.kind])
    parts, found = recorded(**after, grades=grades, classes=all_classes, item_ids=ids)
    if found:
        of_data = {"classes": _classes(data, None), "item_ids": data.item_ids}
        _, known_messages = recorded(**before, grades=grades, **of_data)
        found = [message for message in found if message not in known_messages]
    for message in [*_about_rows(data, new, parts), *found]:
        warn(message)
    if parts["answers"] is not None:
        parts |= counted(parts["answers"])
    if items is None:
        features, num_missing, known = data.features, data.num_missing, data.known
    else:
        features = _joined(data.features, items.features)
        num_missing = data.num_missing + items.num_missing
        known = data.known
        if known is not None:
            known = torch.cat([known, torch.full((items.num_items,), -1)])
    kept = {
        "features": features,
        "columns": data.columns,
        "num_missing": num_missing,
        "known": known,
        "known_ids": data.known_ids,
        "links": data.links,
        "likeness": data.likeness if likeness is None else _more_likeness(data, likeness, ids),
        "likeness_names": data.likeness_names,
        "num_contradictions": data.num_contradictions,
    }
    return CrowdData.of_parts(**parts | kept)


def _new_answers(
    data: CrowdData,
    tables: dict[str, Any | None],
    ids: pd.Index,
    grades: Any,
    classes: list[Hashable] | None,
) -> list[NewAnswers]:
    """The answers of the given tables, in the form of the data; those passed in this form first."""
    given = {name: table for name, table in tables.items() if not _is_empty(table)}
    for name, table in given.items():
        check_items(name, table, ids, with_features=data.features is not None)
    if "placements" in given and len(data.grade_ids):
        raise ValueError(
            "the answers of the fit are grades, but pages say only same or different: pass "
            "pairs with grades"
        )
    new = {
        name: NewAnswers.read(name, table, ids, grades, classes) for name, table in given.items()
    }
    if data.answers is not None and "placements" in new:
        new["placements"] = new["placements"].as_pairs(ids)
    elif data.placements is not None and "pairs" in new:
        of_new = new["placements"].table["page"] if "placements" in new else ()
        new["pairs"] = new["pairs"].as_placements([*data.page_ids, *of_new])
    return sorted(new.values(), key=lambda one: one.given != one.kind)


def _about_rows(data: CrowdData, new: list[NewAnswers], parts: dict[str, Any]) -> list[str]:
    """The warnings about rows of the new tables, given all answers."""
    found = [message for one in new for message in one.warnings]
    repeated = {"pairs": np.zeros(0, dtype=bool), "labels": np.zeros(0, dtype=bool)}
    in_full = False
    if parts["answers"] is not None:
        before = 0 if data.pairs is None else len(data.pairs)
        repeated["pairs"] = repeated_answers(parts["answers"])[before:]
    if parts["class_labels"] is not None:
        repeated["labels"] = repeated_labels(parts["class_labels"])[data.num_labels :]
        in_full = parts["class_labels"].weight is None
    for one in new:
        if one.kind in repeated:
            of_one, repeated[one.kind] = np.split(repeated[one.kind], [len(one.table)])
            found += one.messages_about_repeats(of_one, in_full)
    if any(one.kind == "placements" for one in new):
        is_new = ~are_among(parts["page_ids"], data.page_ids)
        copies = message_about_copies(parts["placements"], parts["page_ids"], is_new)
        found += [] if copies is None else [copies]
    return found


def _is_empty(table: Any | None) -> bool:
    """Whether there is no table, or one without rows, as when nobody answered."""
    return table is None or (isinstance(table, pd.DataFrame) and not len(table))


def _classes(data: CrowdData, more: Iterable[Hashable] | None) -> list[Hashable] | None:
    """The classes of the data and others; None where there are none."""
    added: Iterable[Hashable] = [] if more is None else to_index(more, "classes")
    return [*dict.fromkeys([*data.class_ids, *added])] or None


def _grades(data: CrowdData) -> pd.Index | int | None:
    """The ``grades`` of ``CrowdData`` with which the labels of the data were read."""
    if not len(data.grade_ids):
        return None
    return len(data.grade_ids) if are_levels(data.grade_ids) else data.grade_ids


def _more_likeness(data: CrowdData, table: Any, ids: pd.Index) -> Likeness:
    """The likeness of the data, and that of more pairs."""
    before, names = data.likeness, data.likeness_names
    if data.features is not None:
        raise ValueError(
            "likeness is for answers without features, but there are features, which show how "
            "similar items are: leave it out"
        )
    if before is None:
        raise ValueError(
            "the fit did not use likeness, so none can be added: fit anew to all answers with "
            "likeness= of all pairs"
        )
    found, given = likeness_of(read_likeness(table), ids)
    if {*given} != {*names}:
        raise ValueError(
            f"likeness has the columns of numbers {[*given]}, but the fit used {[*names]}: pass "
            "the same columns"
        )
    both = pd.DataFrame(torch.cat([before.items, found.items]).numpy())
    again = both.duplicated().to_numpy()[before.num_pairs :]
    if again.any():
        reject(
            "likeness",
            as_frame(table, "likeness")["left"],
            again,
            "in a pair whose likeness the fit already has; pass only new pairs",
        )
    values = found.values[:, torch.from_numpy(given.get_indexer(names))]
    ends = before.left, before.right, before.values
    more = found.left, found.right, values
    return Likeness(*(torch.cat(parts) for parts in zip(ends, more, strict=True)))


def _joined(before: Any, after: Any) -> np.ndarray | Tensor | None:
    if before is None and after is None:
        return None
    if isinstance(before, StoredFeatures) or before is None or after is None:
        raise ValueError(
            "new items need features in memory, like those of the fit: fit anew with all items"
        )
    if isinstance(before, Tensor):
        return torch.cat([before, torch.as_tensor(after).to(before)])
    return np.concatenate([before, np.asarray(after)])
