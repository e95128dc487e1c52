"""The candidates of ``classify``: models of labels and features."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.about_data import feature_shape
from pyro_crowdclust.interface.candidates.coordinates import (
    imputed,
    is_real,
    near_landmarks,
    power_transformed,
    sample_of,
    standardized,
    with_categories,
    without_redundant,
)
from pyro_crowdclust.interface.candidates.deviating import deviation_bounds, without_deviating
from pyro_crowdclust.interface.candidates.directions import (
    all_as_numbers,
    lengths_differ,
    named,
    projected,
)
from pyro_crowdclust.interface.candidates.forms import MAX_FULL, PROCESSES, REGRESSION
from pyro_crowdclust.interface.candidates.weights import WEIGHTS
from pyro_crowdclust.interface.class_labels.trials import ClassCandidate
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.mixture import (
    Components,
    GaussianComponents,
    SoftmaxRegression,
)
from pyro_crowdclust.models import DawidSkene, LogResp, MomResp
from pyro_crowdclust.transforms import Landmarks, Within

# Numbers of principal directions if there are more columns than MAX_FULL.
_DIRECTIONS = (20, 40)
# Features may count less than Gaussians imply, but not almost nothing.
_WEIGHTS = WEIGHTS[:-1]
# With more pseudo-items than there are items, all classes share one covariance, which is learned.
_SHARED = 1000.0
# Largest number of landmarks, and of its square times the number of classes.
_LANDMARKS, _MAX_PRODUCTS = 100, 40_000
# Standard deviation of the scores at the start.
_SCALE = 4.0
# Standard deviations of the scores of regressions. Weak priors are better where classes are clear.
_SHARP = "sharp regression"
_DEVIATIONS = {REGRESSION: 2.0, _SHARP: 8.0}
# The same on directions that keep their widths: with few labels, those of much variance tell more.
_WIDE = {REGRESSION: 4.0, _SHARP: 8.0}


def class_candidates(data: CrowdData) -> list[ClassCandidate]:
    """The labels alone, and every kind of model in all coordinates."""
    has_many = _num_numbers(data) > MAX_FULL
    bounds = None if has_many else deviation_bounds(data)
    data = data if bounds is None else without_deviating(data, *bounds)

    def read(emission: Identity) -> Identity:
        return emission if bounds is None else Within(emission, *bounds)

    many = _ManyColumns.of(data) if has_many else None
    coordinates = _few_columns(data) if many is None else many.whitened(data)
    whole = {
        name: one if one.fills_gaps else imputed(data, one) for name, one in coordinates.items()
    }
    found = [ClassCandidate("none", "labels alone", _alone, uses_features=False)]
    for name, emission in coordinates.items():
        for kind, make in CLASS_MODELS.items():
            # A regression needs complete rows.
            own = whole[name] if kind in _DEVIATIONS else emission
            found.append(ClassCandidate(name, kind, partial(make, read(own)), _weights(kind)))
    if many is not None:
        return found + many.regressions(data)
    number = int(min(_LANDMARKS, (_MAX_PRODUCTS / data.num_classes) ** 0.5))
    one = near_landmarks(data, whole["powers"], number, width=1.0)
    for kind, width in PROCESSES.items():
        near = Landmarks(whole["powers"], one.landmarks, width * one.width)
        found.append(ClassCandidate("powers", kind, partial(_process, read(near))))
    return found


def _few_columns(data: CrowdData) -> dict[str, Identity]:
    places = {"columns": standardized, "powers": power_transformed}
    return {
        name: with_categories(without_redundant(place, data), data)
        for name, place in places.items()
    }


class _ManyColumns(NamedTuple):
    """All columns as numbers, of which principal directions are computed.

    Attributes
    ----------
    numbers
        The columns.
    equal_length
        Whether all rows have the same length.
    """

    numbers: Identity
    equal_length: bool

    @classmethod
    def of(cls, data: CrowdData) -> _ManyColumns:
        """The columns of these data."""
        equal_length = bool(is_real(data).all()) and lengths_differ(data)
        return cls(all_as_numbers(data, equal_length), equal_length)

    def whitened(self, data: CrowdData) -> dict[str, Identity]:
        """Directions that all have the same width."""
        most = min(_num_numbers(data), data.num_items) - 1
        return {
            named(f"{number} directions", self.equal_length): projected(
                data, self.numbers, number, whiten=True
            )
            for number in sorted({min(number, most) for number in _DIRECTIONS})
        }

    def regressions(self, data: CrowdData) -> list[ClassCandidate]:
        """Regressions on directions that are as wide as they are in the features."""
        emission = projected(data, self.numbers, _DIRECTIONS[-1])
        points = emission.latent(sample_of(data))
        width = float(points.var(0, correction=0).sum().sqrt()) or 1.0
        name = named("wide directions", self.equal_length)
        return [
            ClassCandidate(name, kind, partial(_regression, emission, scale=scale / width))
            for kind, scale in _WIDE.items()
        ]


def _weights(kind: str) -> tuple[float, ...]:
    """Weights of features that may be tried; a regression is already calibrated by the labels."""
    return (1.0,) if kind in _DEVIATIONS else _WEIGHTS


def _num_numbers(data: CrowdData) -> int:
    """How many numbers an item has, with one for every category."""
    return with_categories(Identity(), data).latent_size(math.prod(feature_shape(data)))


def _size(emission: Identity, data: CrowdData) -> int:
    return emission.latent(data.rows(torch.zeros(1, dtype=torch.int64))).shape[1]


def _gaussians(
    emission: Identity,
    data: CrowdData,
    options: dict[str, Any],
    workers: Workers,
    *,
    least_degrees: float = 0.0,
) -> Fitted:
    dim = _size(emission, data)
    components = GaussianComponents(data.num_classes, dim, least_degrees=least_degrees)
    return _mixture(components, emission, data, options, workers)


def _mixture(
    components: Components,
    emission: Identity,
    data: CrowdData,
    options: dict[str, Any],
    workers: Workers,
) -> Fitted:
    model = MomResp(components, workers.annotators(data), emission=emission)
    callbacks = [LearnedPrior(), *options.get("callbacks", ())]
    return _fitted(model, data, options | {"callbacks": callbacks})


def _regression(
    emission: Identity, data: CrowdData, options: dict[str, Any], workers: Workers, **scale: Any
) -> Fitted:
    regression = SoftmaxRegression(data.num_classes, _size(emission, data), **scale)
    return _fitted(LogResp(regression, workers.annotators(data), emission), data, options)


def _on_standardized(
    emission: Identity,
    data: CrowdData,
    options: dict[str, Any],
    workers: Workers,
    *,
    deviation: float,
) -> Fitted:
    """A regression whose scores of standardized features have this deviation."""
    scale = deviation * max(_size(emission, data), 1) ** -0.5
    return _regression(emission, data, options, workers, scale=scale)


_process = partial(_regression, scale=_SCALE, learn_scale=True)


def _alone(data: CrowdData, options: dict[str, Any], workers: Workers) -> Fitted:
    return _fitted(DawidSkene(workers.annotators(data)), data, options)


def _fitted(
    model: DawidSkene | LogResp | MomResp, data: CrowdData, options: dict[str, Any]
) -> Fitted:
    return fit(model, ClassLabelGuide(model, moderated=True), data, **options)


# Fits a model in these coordinates to data, with options of fit, and these workers.
_Model = Callable[[Identity, CrowdData, dict[str, Any], Workers], Fitted]
# Models of labels and features, by their names in the table.
CLASS_MODELS: dict[str, _Model] = {
    "Gaussians of one covariance": partial(_gaussians, least_degrees=_SHARED),
    "full Gaussians": _gaussians,
    **{
        kind: partial(_on_standardized, deviation=deviation)
        for kind, deviation in _DEVIATIONS.items()
    },
}
