"""The same data with more answers, workers and items."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_crowdclust.data.answer_tables import COLUMNS
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.likeness import Likeness, likeness_of, read_likeness
from pyro_crowdclust.data.pair_answers import are_levels
from pyro_crowdclust.data.placements import pages_of_single_pairs
from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.data.tables import (
    are_among,
    as_frame,
    read_table,
    reject,
    show,
    to_index,
    unknown,
)


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
    """Data and more of the same, which comes after what is there.

    Pairs and placements are turned into what the data have; each pair without a page is a page of
    its own where the data have pages. Workers are numbered anew, by their ids; items keep their
    positions.

    Parameters
    ----------
    data
        What there is.
    items
        New items, with ids and columns like those of the data.
    pairs, placements, labels
        Answers, about old items and new ones, as for ``CrowdData``.
    classes
        Classes that items can have, after those of the data.
    likeness
        Numbers of more pairs, under the names of the data's.

    Raises
    ------
    ValueError
        For what ``CrowdData`` refuses, a page or a pair with a likeness that there is already, and
        new items beside features that are on disk.

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
    pairs, placements, labels = map(_unless_empty, (pairs, placements, labels))
    for name, table in (("pairs", pairs), ("placements", placements), ("labels", labels)):
        _check_items(name, table, ids, with_features=data.features is not None)
    more = {"pairs": [pairs], "placements": [placements], "labels": [labels]}
    if data.answers is not None and placements is not None:
        more |= {"placements": [], "pairs": [pairs, _pairs_of(placements)]}
        if len(data.grade_ids):
            raise ValueError(
                "the answers of the fit are grades, and pages say same or different alone: pass "
                "pairs with grades"
            )
    elif data.placements is not None and pairs is not None:
        pages = data.page_ids if placements is None else data.page_ids.append(_page_ids(placements))
        more |= {"pairs": [], "placements": [placements, _pages_of(pairs, pages)]}
    grades, of_labels = _grades(data), _classes(data, classes)
    read: dict[str, dict[str, Any]]
    read = {"pairs": {"grades": grades}, "placements": {}, "labels": {"classes": of_labels}}
    before = {"pairs": data.pairs, "placements": data.pages, "labels": data.labels}
    after = dict(before)
    for name, given in more.items():
        for table in given:
            after[name] = _together(name, after[name], table, item_ids=ids, **read[name])
    tables, found = _read(after, grades=grades, classes=of_labels, item_ids=ids)
    if found:
        options = {"grades": grades, "classes": _classes(data, None), "item_ids": data.item_ids}
        _, told = _read(before, **options)
        for message in found:
            if message not in told:
                warnings.warn(message, stacklevel=3)
    if items is None:
        features, num_missing, known = data.features, data.num_missing, data.known
    else:
        features = _joined(data.features, items.features)
        num_missing = data.num_missing + items.num_missing
        known = data.known
        if known is not None:
            known = torch.cat([known, torch.full((items.num_items,), -1)])
    return tables.with_parts(
        features=features,
        columns=data.columns,
        num_missing=num_missing,
        known=known,
        known_ids=data.known_ids,
        links=data.links,
        likeness=data.likeness if likeness is None else _more_likeness(data, likeness, ids),
        likeness_names=data.likeness_names,
        num_contradictions=data.num_contradictions,
    )


def _read(tables: dict[str, Any], **options: Any) -> tuple[CrowdData, list[str]]:
    """Data of these answers, and what there is to warn of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        data = CrowdData(None, **tables, **options)
    return data, [str(one.message) for one in found]


def _unless_empty(table: Any | None) -> Any | None:
    """The table; None for one without rows, as there is where nobody answered."""
    return None if isinstance(table, pd.DataFrame) and not len(table) else table


def _pairs_of(placements: Any) -> pd.DataFrame | None:
    """The answers about all pairs of sorted pages."""
    return CrowdData(None, placements=placements).as_pairs().pairs


def _page_ids(placements: Any) -> pd.Index:
    return pd.Index(as_frame(placements, "placements")["page"].unique(), tupleize_cols=False)


def _pages_of(pairs: Any, before: pd.Index) -> pd.DataFrame | None:
    """The pages that people sorted, of answers about all their pairs.

    Pairs that were asked one by one are pages of two items, with ids that no page had before.
    """
    table = read_table(pairs, "pairs", *COLUMNS["pairs"])
    if "page" not in table:
        table = table.assign(page=pages_of_single_pairs(len(table), {*before}))
    answers = CrowdData(None, table)
    try:
        return answers.as_placements().pages
    except ValueError as error:
        raise ValueError(
            f"the fit was of sorted pages, but {error}; ask for pages, or fit anew to all answers "
            "as pairs (data.as_pairs().pairs are those of the fit)"
        ) from error


def _classes(data: CrowdData, more: Iterable[Hashable] | None) -> list[Hashable] | None:
    """Those of the data and others; None where there are none."""
    return [*dict.fromkeys([*data.class_ids, *([] if more is None else more)])] or None


def _grades(data: CrowdData) -> pd.Index | int | None:
    """What says how the labels of the data are read."""
    if not len(data.grade_ids):
        return None
    return len(data.grade_ids) if are_levels(data.grade_ids) else data.grade_ids


def _together(
    name: str, before: pd.DataFrame | None, after: Any | None, **options: Any
) -> pd.DataFrame | None:
    """Both tables, the new one checked as ``CrowdData`` does with these options."""
    if after is None:
        return before
    may_lack = ["label"] if options.get("grades") is not None else []
    after = read_table(after, name, *COLUMNS[name], may_lack)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same is told of all answers together
        CrowdData(None, **options | {name: after})  # errors name the rows of the new table
    if before is None:
        return after
    if "page" in after and "page" not in before:
        after = after.drop(columns="page")  # the model is of answers without pages
    if "page" in before and "page" not in after:  # asked one by one
        after = after.assign(page=pages_of_single_pairs(len(after), {*before["page"]}))
    if "page" in before:
        again = are_among(after["page"], before["page"])
        if again.any():
            raise ValueError(
                f"{name}: page {show(after['page'][again].iloc[0])} was answered before; give new "
                "pages ids of their own"
            )
    return pd.concat([before, after], ignore_index=True)


def _check_items(name: str, table: Any | None, ids: pd.Index, with_features: bool) -> None:
    """Raise a ``ValueError`` for answers about items that are none, and say how to add some."""
    if table is None:
        return
    required, optional = COLUMNS[name]
    table = read_table(table, name, required, optional, may_lack=["label"])
    for column in [one for one in ("left", "right", "item") if one in table]:
        missing = ids.get_indexer(to_index(table[column], f"{name} column '{column}'")) < 0
        if missing.any():
            wanted = table[column].iloc[int(missing.argmax())]
            by = f"{'features= and ' if with_features else ''}item_ids=[{show(wanted)}]"
            remedy = f"add it as a new item by {by}"
            reject(name, table[column], missing, unknown(ids, wanted, remedy))


def _more_likeness(data: CrowdData, table: Any, ids: pd.Index) -> Likeness:
    """Numbers of the pairs of the data, and of others."""
    before, names = data.likeness, data.likeness_names
    if data.features is not None:
        raise ValueError(
            "likeness is for answers alone, but there are features, which say how alike items are: "
            "leave it out"
        )
    if before is None:
        raise ValueError(
            "likeness is new here, as the fit heard of none: fit anew to all answers with "
            "likeness= of all pairs"
        )
    found, given = likeness_of(read_likeness(table), ids)
    if {*given} != {*names}:
        raise ValueError(
            f"likeness has the numbers {[*given]}, but the fit heard {[*names]} of every pair: "
            "pass these"
        )
    both = pd.DataFrame(torch.cat([before.items, found.items]).numpy())
    again = both.duplicated().to_numpy()[before.num_pairs :]
    if again.any():
        reject(
            "likeness",
            as_frame(table, "likeness")["left"],
            again,
            "beside an item of which the fit knows how alike it is; pass new pairs alone",
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
