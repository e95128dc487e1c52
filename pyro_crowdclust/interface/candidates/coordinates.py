"""Coordinates of real features for plain mixtures, such as standardized columns, from the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy  # loads its parts when they are used
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.interface.about_data import feature_shape
from pyro_crowdclust.interface.candidates.following import add_information
from pyro_crowdclust.interface.candidates.one_normal import normal_of
from pyro_crowdclust.minibatches.item_order import random_items
from pyro_crowdclust.mixture.tails import central_units
from pyro_crowdclust.transforms import (
    Filled,
    Landmarks,
    OneHot,
    PowerTransformed,
    Selected,
)

# Atoms, powers and directions are measured on at most this many items, scales on all.
_SAMPLE = 5000
# Number of items whose distances are measured.
_TO_MEASURE = 500
# Scales of features are measured on this many rows at a time.
_ROWS = 4096
# NumPy warns about features that are missing everywhere.
_quiet_about_missing = partial(warnings.catch_warnings, action="ignore", category=RuntimeWarning)


def standardized(data: CrowdData) -> Standardized:
    """Every real feature in units of its standard deviation."""
    return Standardized(*location_and_scale(data, is_real(data)))


def in_central_units(data: CrowdData) -> Standardized:
    """Every real feature in units of its central two thirds, which outliers do not affect."""
    location, scale = location_and_scale(data, is_real(data))
    median, unit = central_units(sample_of(data))
    is_wide = is_real(data) & (unit > 0)
    return Standardized(torch.where(is_wide, median, location), torch.where(is_wide, unit, scale))


def without_redundant(
    inner: Callable[[CrowdData], Identity], data: CrowdData, whole: CrowdData | None = None
) -> Identity:
    """Coordinates without redundant real features.

    Redundant are features that are constant, or follow from others: totals, shares that add up to
    one, other units. Features that are gaps here but have numbers in the ``whole`` data are kept
    first: parts with many zeros have a shape of their own, totals have none.
    """
    sample, real = sample_of(data).numpy(), is_real(data).numpy()
    with _quiet_about_missing():
        spread = np.nanmax(sample, axis=0) - np.nanmin(sample, axis=0)
    varies = real & (spread > 0)
    rows = sample if whole is None else sample_of(whole).numpy()
    first = (np.isnan(sample) & ~np.isnan(rows)).any(0)
    kept = ~real
    kept[varies] = add_information(rows[:, varies], first[varies])
    emission = inner(data)
    return emission if kept.all() or not kept.any() else Selected(emission, torch.from_numpy(kept))


def with_categories(emission: Identity, data: CrowdData) -> Identity:
    """The coordinates of the numbers, together with an indicator for every category."""
    columns = data.columns
    if columns is None or not columns.of_kind("category"):
        return emission
    sizes = [0] * len(columns)
    for place in columns.of_kind("category"):
        levels = columns.levels[place]
        sizes[place] = 0 if levels is None else len(levels)
    return OneHot(emission, sizes)


def columns_as_numbers(data: CrowdData) -> Filled:
    """Every column as a number in units of its standard deviation, categories as indicators.

    For regressions, which use columns of all kinds. The indicator of a category with share p has
    the variance ``p (1 - p)``, so that those of a column have less than 1 together. Missing numbers
    are imputed from the other coordinates, also in new items.
    """
    is_number = torch.ones(math.prod(feature_shape(data)), dtype=torch.bool)
    if data.columns is not None:
        is_number[data.columns.of_kind("category")] = False
    numbers = Standardized(*location_and_scale(data, is_number))
    return imputed(data, with_categories(numbers, data))


def filled(inner: Callable[[CrowdData], Identity], data: CrowdData) -> Filled:
    """Coordinates without gaps, for regressions and directions, also of new items.

    Missing coordinates are imputed by one normal distribution of all coordinates.
    """
    return imputed(data, inner(data))


def imputed(data: CrowdData, emission: Identity) -> Filled:
    """The same for given coordinates."""
    return Filled(emission, *normal_of(emission.latent(sample_of(data))))


def power_transformed(data: CrowdData) -> PowerTransformed:
    """Every real feature under the power transform that makes it most like a normal one.

    (Yeo and Johnson 2000.) Other features keep their values; missing values are ignored.
    """
    from sklearn.preprocessing import PowerTransformer  # late: loading it takes a while

    sample, real = sample_of(data), is_real(data)
    # The transform bends at one unit from the origin. Origin and unit are chosen so that it bends
    # most of the numbers, and does not depend on the zero of the feature.
    with _quiet_about_missing():
        origin, median = torch.from_numpy(np.nanquantile(sample.numpy(), [0.05, 0.5], axis=0))
        spread = torch.from_numpy(deviations(sample.numpy()))
    zero, one = torch.zeros_like(spread), torch.ones_like(spread)
    unit = torch.where(median > origin, median - origin, spread) / 5
    bends = real & (spread > 0)
    origin, unit = torch.where(real, origin, zero), torch.where(bends, unit, one)
    powers = one.clone()
    for column in np.flatnonzero(bends.numpy()):
        # A column whose likelihood has no maximum keeps its values.
        with np.errstate(all="ignore"):
            found = PowerTransformer(standardize=False).fit(
                ((sample[:, [column]] - origin[column]) / unit[column]).numpy()
            )
        power = float(found.lambdas_[0])
        if np.isfinite(power) and abs(power) < 10:
            powers[column] = power
    bent = PowerTransformed(powers, zero, one, origin, unit).latent(sample)
    with _quiet_about_missing():
        scale = torch.from_numpy(np.nanstd(bent.numpy(), axis=0))
    scale = torch.where(real & (scale > 1e-12), scale, one)
    return PowerTransformed(powers, torch.where(real, bent.nanmean(0), zero), scale, origin, unit)


def near_landmarks(data: CrowdData, inner: Identity, number: int, width: float) -> Landmarks:
    """How close items are to a number of landmarks, the centres of k-means.

    ``width`` is in units of the median distance between two items.
    """
    from sklearn.cluster import KMeans  # late: loading it takes a while

    points = inner.latent(sample_of(data)).numpy()
    distinct = np.unique(points, axis=0)
    number = min(number, len(distinct))
    found = KMeans(number, n_init=1, max_iter=20, random_state=0).fit(points)
    some = np.random.default_rng(0).permutation(len(distinct))[:_TO_MEASURE]
    distances = scipy.spatial.distance.pdist(distinct[some])
    unit = float(np.median(distances)) if len(distances) else 1.0
    return Landmarks(inner, torch.from_numpy(found.cluster_centers_), width * unit)


def in_units_of_features(emission: Identity, features: Float[Tensor, "item ..."]) -> float:
    """The mean of ``log p(o) - log p(x)``, which turns densities of x into those of features."""
    return float(emission.log_volume(features).mean())


def is_real(data: CrowdData) -> Bool[Tensor, " feature"]:
    """Which features are real numbers."""
    if data.columns is None:
        return torch.ones(math.prod(feature_shape(data)), dtype=torch.bool)
    return torch.tensor([kind == "real" for kind in data.columns.kinds])


def sample_of(data: CrowdData) -> Float[Tensor, "item feature"]:
    """Random rows, few enough to be measured quickly."""
    rows = random_items(data, _SAMPLE, torch.Generator().manual_seed(0))
    return data.rows(rows).flatten(1).double()


def deviations(rows: Float[np.ndarray, "item feature"]) -> Float[np.ndarray, " feature"]:
    """Standard deviations, also of numbers so small that their squares are zero.

    Examples
    --------
    >>> deviations(np.array([[0.0, 1e-200], [2.0, 3e-200]])).tolist()
    [1.0, 1e-200]
    """
    away = rows - np.nanmean(rows, axis=0)
    farthest = np.nanmax(np.abs(away), axis=0)
    farthest[~(farthest > 0)] = 1.0
    return farthest * np.nanstd(away / farthest, axis=0)


def location_and_scale(
    data: CrowdData, is_continuous: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation of every real feature; 1 in place of a deviation of zero.

    Other features keep their values: the location 0 and the scale 1. Missing ones do not count.

    Read in parts, so that a memory map is never loaded whole, and in passes, so that a mean
    far from zero costs no digits.
    """
    parts = [(part.nansum(0), (~part.isnan()).sum(0)) for part in _parts(data)]
    sums, counts = (torch.stack(column).sum(0) for column in zip(*parts, strict=True))
    location = sums / counts.clamp_min(1)  # of a feature that is missing everywhere 0
    farthest = torch.zeros_like(location)
    for part in _parts(data):
        farthest = farthest.maximum((part - location).abs().nan_to_num().amax(0))
    unit = torch.where(farthest > 0, farthest, 1.0)  # squares of tiny numbers would be zero
    away = [((part - location) / unit).square().nansum(0) for part in _parts(data)]
    scale = unit * (torch.stack(away).sum(0) / counts.clamp_min(1)).sqrt()
    # The spread of a constant feature is only rounding error.
    constant = scale <= 1e-12 * location.abs().clamp_min(1e-300)
    return (
        torch.where(is_continuous, location, 0.0),
        torch.where(constant | ~is_continuous, 1.0, scale),
    )


def _parts(data: CrowdData) -> Iterator[torch.Tensor]:
    return (features.flatten(1).double() for _, features in data.row_blocks(_ROWS))
