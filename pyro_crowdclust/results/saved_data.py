"""Saving and reading ``CrowdData`` without its features: ids, answers, labels and links."""

from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_crowdclust.data.class_labels import ClassLabels
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.known_labels import Links
from pyro_crowdclust.data.likeness import Likeness
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.files.checks import (
    check_codes,
    check_count,
    check_ids,
    check_kind,
    check_shape,
)

_PARTS = {
    "answers": Answers,
    "_all_answers": Answers,
    "placements": Placements,
    "links": Links,
    "likeness": Likeness,
    "class_labels": ClassLabels,
}
_IDS = (
    "item_ids",
    "worker_ids",
    "page_ids",
    "known_ids",
    "grade_ids",
    "class_ids",
    "likeness_names",
)


def data_fields(data: CrowdData) -> dict[str, Any]:
    """All of the data except the features, as plain values, tensors and indexes."""
    fields = {
        field.name: getattr(data, field.name)
        for field in dataclasses.fields(data)
        if field.name != "features"
    }
    for name in _PARTS:
        part = fields[name]
        if part is not None:
            fields[name] = {f.name: getattr(part, f.name) for f in dataclasses.fields(part)}
    return fields


def data_of(fields: Any) -> CrowdData:
    """The data, without features, from their ``data_fields``.

    Raises
    ------
    ValueError
        If the fields are inconsistent, such as a code without an id.
    """
    given = dict(check_kind("data", fields, dict))
    # Older files have no sorted pages, grades and likeness, and only answers that count.
    for part, its_ids in (("placements", "grade_ids"), ("likeness", "likeness_names")):
        given.setdefault(part, None)
        given.setdefault(its_ids, pd.Index([], dtype=object))
    for part in ("_all_answers", "_counts"):
        given.setdefault(part, None)
    ids = {name: check_ids(name, given[name]) for name in _IDS}
    check_count("num_contradictions", given["num_contradictions"])
    if given["known"] is not None:
        check_codes("known", given["known"], len(ids["item_ids"]), len(ids["known_ids"]), least=-1)
    for name, check in (
        ("answers", _check_answers),
        ("_all_answers", _check_answers),
        ("placements", _check_placements),
        ("links", _check_links),
        ("likeness", _check_likeness),
        ("class_labels", _check_class_labels),
    ):
        if given[name] is not None:
            check(check_kind(name, given[name], dict), ids)
            given[name] = _PARTS[name](**given[name])
    every = _check_counts(given["answers"], given["_all_answers"], given["_counts"])
    if every is not None:
        check_ids("_pairs_index", given["_pairs_index"], every.num_pairs)
    if given["class_labels"] is not None:
        check_ids("_labels_index", given["_labels_index"], len(given["class_labels"]))
    names = {field.name for field in dataclasses.fields(CrowdData)} - {"features"}
    return CrowdData.of_parts(features=None, **{name: given[name] for name in names})


def _check_answers(answers: dict[str, Any], ids: dict[str, Any]) -> None:
    left = check_codes("answers.left", answers["left"], None, len(ids["item_ids"]))
    check_codes("answers.right", answers["right"], len(left), len(ids["item_ids"]))
    check_codes("answers.worker", answers["worker"], len(left), len(ids["worker_ids"]))
    label = check_shape("answers.label", answers["label"], torch.float64, (len(left),))
    graded = len(ids["grade_ids"]) > 0
    known = ((label >= 0) & (label <= 1)) | label.isnan() if graded else (label == 0) | (label == 1)
    if not bool(known.all()):
        raise ValueError("answers.label holds numbers that are not valid answers")
    if answers["page"] is not None:
        check_codes("answers.page", answers["page"], len(left), len(ids["page_ids"]))


def _check_counts(
    answers: Answers | None, every: Answers | None, counts: Tensor | None
) -> Answers | None:
    """All answers, also those that do not count, if there are any."""
    if answers is None or every is None:
        return answers
    counts = check_shape("_counts", counts, torch.bool, (every.num_pairs,))
    if int(counts.sum()) != answers.num_pairs:
        raise ValueError("_counts selects other answers than those that count")
    return every


def _check_placements(placements: dict[str, Any], ids: dict[str, Any]) -> None:
    num_pages = len(ids["page_ids"])
    item = check_codes("placements.item", placements["item"], None, len(ids["item_ids"]))
    page = check_codes("placements.page", placements["page"], len(item), num_pages)
    check_codes("placements.worker", placements["worker"], num_pages, len(ids["worker_ids"]))
    most = max(len(item), 1) + 1
    num_groups = check_codes("placements.num_groups", placements["num_groups"], num_pages, most, 1)
    group = check_codes("placements.group", placements["group"], len(item), most)
    if not bool((group < num_groups[page]).all()):
        raise ValueError("placements.group holds groups that its page does not have")


def _check_links(links: dict[str, Any], ids: dict[str, Any]) -> None:
    left = check_codes("links.left", links["left"], None, len(ids["item_ids"]))
    check_codes("links.right", links["right"], len(left), len(ids["item_ids"]))
    check_shape("links.must", links["must"], torch.bool, (len(left),))


def _check_likeness(likeness: dict[str, Any], ids: dict[str, Any]) -> None:
    left = check_codes("likeness.left", likeness["left"], None, len(ids["item_ids"]))
    check_codes("likeness.right", likeness["right"], len(left), len(ids["item_ids"]))
    shape = (len(left), len(ids["likeness_names"]))
    values = check_shape("likeness.values", likeness["values"], torch.float64, shape)
    if not bool(values.isfinite().all()):
        raise ValueError("likeness.values holds numbers that are not finite")


def _check_class_labels(labels: dict[str, Any], ids: dict[str, Any]) -> None:
    sizes = {"num_workers": len(ids["worker_ids"]), "num_classes": len(ids["class_ids"])}
    for name, size in sizes.items():
        if check_count(f"class_labels.{name}", labels[name]) != size:
            raise ValueError(f"class_labels.{name} is {labels[name]}, but there are {size} ids")
    item = check_codes("class_labels.item", labels["item"], None, len(ids["item_ids"]))
    check_codes("class_labels.worker", labels["worker"], len(item), sizes["num_workers"])
    check_codes("class_labels.label", labels["label"], len(item), sizes["num_classes"])
    # Older files have no weights.
    if (weight := labels.get("weight")) is not None:
        shape = (len(item),)
        check_shape("class_labels.weight", weight, torch.float64, shape)
        if not bool(((weight > 0) & (weight <= 1)).all()):
            raise ValueError("class_labels.weight holds numbers that are not above 0 and up to 1")
