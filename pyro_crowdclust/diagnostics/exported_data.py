"""The data in an export: the selection of rows, observations, and the user's ids."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.annotators.halved_grades import GRADES_OF_HALVES, HALVES, halves_of_grades
from pyro_crowdclust.annotators.page_coupling import PAGE_STATES
from pyro_crowdclust.data.pair_answers import outcome_names
from pyro_crowdclust.diagnostics.alignment import aligned_order
from pyro_crowdclust.diagnostics.arviz_adapter import Groups, Variables
from pyro_crowdclust.emissions import Emission
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.protocols import FittedModel, part_of

# Axes of a component's parameters: a mean has the first, a covariance both.
_AXES = "dim", "dim_other"
# The largest number of replicated feature values in an export (80 MB).
_MAX_REPLICATED = 10_000_000


class ExportedRows(NamedTuple):
    """The exported part of the data: positions of items, and rows of answers of each kind.

    ``replicated`` are the items whose features are replicated, ``labelled`` those with labels, and
    ``known`` those whose label is known.
    """

    items: Int[Tensor, " item"]
    replicated: Int[Tensor, " item"]
    labelled: Int[Tensor, " labelled_item"]
    known: Int[Tensor, " known_item"]
    answers: Int[Tensor, " answer"]
    labels: Int[Tensor, " class_answer"]
    placements: Int[Tensor, " placement"]

    @classmethod
    def of(
        cls, result: FittedModel, num_draws: int, max_items: int, max_answers: int
    ) -> ExportedRows:
        data = result.data
        items = _spaced(data.num_items, max_items)
        numbers = num_draws * math.prod(result.feature_shape or ())
        labelled = known = items[:0]
        if data.class_labels is not None:
            labelled = items[torch.isin(items, data.class_labels.labelled_items)]
        if data.known is not None:
            known = items[data.known[items] >= 0]
        return cls(
            items,
            items[_spaced(len(items), max(_MAX_REPLICATED // numbers, 1))],
            labelled,
            known,
            _spaced(data.num_pairs, max_answers),
            _spaced(data.num_labels, max_answers),
            _spaced(0 if data.placements is None else len(data.placements), max_answers),
        )


def _spaced(count: int, at_most: int) -> Int[Tensor, " row"]:
    if count <= at_most:
        return torch.arange(count)
    return torch.linspace(0, count - 1, at_most, dtype=torch.float64).round().long()


def data_groups(fits: list[FittedModel], rows: ExportedRows) -> Groups:
    """The groups ``observed_data`` and ``constant_data``."""
    data = fits[0].data
    observed: Variables = {}
    constant: Variables = {}
    if data.features is not None:
        features = data.rows(rows.items).numpy(force=True)
        observed["features"] = (feature_axes(features), features)
    counted = data.counted_pairs
    if counted is not None and len(rows.answers):
        pairs = counted.iloc[rows.answers.numpy()]
        outcomes = data.outcomes.places(data.needed_answers.label[rows.answers])
        observed["answers"] = (("answer",), outcomes.numpy(force=True))
        for name, column in (("left", "left"), ("right", "right"), ("worker_of_answer", "worker")):
            constant[name] = (("answer",), _labels(pairs[column]))
    pages = data.pages
    if pages is not None:
        pages = pages.iloc[rows.placements.numpy()]
        observed["groups"] = (("placement",), pages["group"].to_numpy())
        for name in ("page", "item", "worker"):
            constant[f"{name}_of_placement"] = (("placement",), _labels(pages[name]))
    if data.labels is not None and data.class_labels is not None and len(rows.labels):
        labels = data.labels.iloc[rows.labels.numpy()]
        codes = data.class_labels.label[rows.labels]
        observed["labels"] = (("class_answer",), codes.numpy(force=True))
        for name, column in (("item_of_label", "item"), ("worker_of_label", "worker")):
            constant[name] = (("class_answer",), _labels(labels[column]))
    if data.known is not None and len(rows.known):
        observed["known"] = (("known_item",), data.known[rows.known].numpy(force=True))
    if fits[0].has_assignments:
        found = [result.probabilities for result in fits]
        kind = "class"
        if have_clusters(fits):
            found, kind = [q[:, aligned_order(found[0], q)] for q in found], "cluster"
        chosen = np.stack(found)[:, rows.items.numpy()]
        constant["probabilities"] = (("chain", "item", kind), chosen)
    return {"observed_data": observed, "constant_data": constant}


def have_clusters(fits: list[FittedModel]) -> bool:
    """Whether z has clusters, whose order is arbitrary, and not classes, which have ids."""
    return all(result.has_assignments and result.data.class_labels is None for result in fits)


def feature_axes(features: np.ndarray | Tensor) -> tuple[str, ...]:
    """Names of the axes of rows of features."""
    return ("item", *(f"features_dim_{axis}" for axis in range(features.ndim - 1)))


def ids_by_dimension(
    fits: list[FittedModel], rows: ExportedRows, group: str
) -> dict[str, np.ndarray]:
    """The user's ids, by dimension; labels and classes in the order of their codes."""
    data = fits[0].data
    items = rows.replicated if group == "posterior_predictive" else rows.items
    names = data.feature_names
    of_features = np.array([]) if names is None else _labels(names)
    coordinates = {
        **_component_labels(fits),
        "features_dim_0": of_features,
        "item": _labels(data.item_ids[items.numpy()]),
        "labelled_item": _labels(data.item_ids[rows.labelled.numpy()]),
        "known_item": _labels(data.item_ids[rows.known.numpy()]),
        "worker": _labels(data.worker_ids),
        "class": _labels(data.class_ids),
        "label": _labels(data.class_ids),
        "known_class": _labels(data.known_ids),
        "page_state": np.array(PAGE_STATES),
        "half": np.array(HALVES),
        **_grade_labels(data.grade_ids),
    }
    counted = data.counted_pairs
    if counted is not None and len(rows.answers):
        coordinates["answer"] = _labels(counted.index[rows.answers.numpy()])
    if data.labels is not None and len(rows.labels):
        coordinates["class_answer"] = _labels(data.labels.index[rows.labels.numpy()])
    longest = max((result.history for result in fits), key=len)
    coordinates["epoch"] = longest["epoch"].to_numpy()
    return coordinates


def _grade_labels(grades: pd.Index) -> dict[str, np.ndarray]:
    """Names of the possible answers, and of those in each half of the scale, by axis."""
    names, half = np.array(outcome_names(grades)), halves_of_grades(len(grades)).numpy()
    of_halves = {axis: names[half == place] for place, axis in enumerate(GRADES_OF_HALVES)}
    return {"grade": names} | of_halves


def _component_labels(fits: list[FittedModel]) -> dict[str, np.ndarray]:
    """Names of the components' features by axis, if components are on features in all fits."""
    found = []
    for result in fits:
        names = result.data.feature_names
        emission: Any = part_of(result.model, "emission", Emission)
        components = part_of(result.model, "components", Components)
        if names is None or components is None or emission is None:
            return {}
        if not emission.observes_latent or emission.mixes_features:
            return {}
        labels = components.part_labels(_coordinate_labels(emission, list(names)))
        found.append({f"{axis}{part}": own for part, own in labels.items() for axis in _AXES})
    return {axis: _labels(own) for axis, own in found[0].items()} if found[1:] == found[:-1] else {}


def _coordinate_labels(emission: Any, names: list[Hashable]) -> list[Hashable]:
    """Names of coordinates, with "(transformed)" for those not in their features' units."""
    labels = emission.coordinate_names(names)
    if emission.units(len(names)) is not None:
        return labels
    ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, len(labels))
    moved = (emission.in_feature_units(ends, list(range(len(labels)))) != ends).any(0).tolist()
    return [f"{one} (transformed)" if own else one for one, own in zip(labels, moved, strict=True)]


def _labels(ids: Sequence[Hashable] | pd.Index | pd.Series) -> np.ndarray:
    """Ids as an array of numbers, or of strings if they are not numbers."""
    values = np.asarray(ids)
    if values.dtype.kind in "biuf":
        return values
    return np.array([str(value) for value in ids], dtype=str)
