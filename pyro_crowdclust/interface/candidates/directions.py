"""Principal directions of many columns, which no single number and no loud row leads astray."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from sklearn.decomposition import PCA
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.interface.candidates.coordinates import (
    deviations,
    is_real,
    location_and_scale,
    sample_of,
    with_categories,
    without_gaps,
)
from pyro_crowdclust.interface.recipe import feature_shape
from pyro_crowdclust.transforms import Clipped, EqualLength, Filled, Projected, Selected

# A dimension that is left out has at least this variance, where the first direction has 1.
_MIN_RESIDUAL = 1e-6
# Numbers are clipped at so many deviations of what is left by the round before.
_DEVIATIONS, _ROUNDS = 3.0, 3
# Fourth moments of rows, in units of a normal distribution's, that are no matter of clusters ...
_LOUD = 1.15
# ... if of rows of equal length so much of what is beyond 1 is left. On so many directions.
_LEFT, _DIRECTIONS = 0.5, 40


def in_common_units(data: CrowdData) -> Standardized:
    """All real features in the same units, as pixels and words are: more spread counts more."""
    real = is_real(data)
    location, scale = location_and_scale(data, real)
    # Features that never vary were given a scale of 1.
    varies = (torch.from_numpy(deviations(sample_of(data).numpy())) > 0) & real
    common = scale[varies].square().mean().sqrt() if varies.any() else torch.tensor(1.0)
    return Standardized(location, torch.where(real, common, scale))


def lengths_differ(data: CrowdData) -> bool:
    """Whether rows differ in how loud they are more than clusters make them differ.

    With w_i the row on d whitened principal directions, in common units, the kurtosis (Mardia 1970)

        k = mean_i |w_i|^4 / (d (d + 2))

    is 1 of a normal distribution, hardly more of clusters, and E[s^4] / E[s^2]^2 of rows that are
    scaled by s. Lengths are unlike if k is above 1.15, and less than half as far above 1 where rows
    are of equal length. They are of the real columns alone.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows, loud = rng.normal(size=(200, 60)), rng.lognormal(size=(200, 1))
    >>> lengths_differ(CrowdData(rows)), lengths_differ(CrowdData(loud * rows))
    (False, True)
    """
    emission = in_common_units(data)
    whole = Filled(_of_real(data, emission), emission.location.new_zeros(int(is_real(data).sum())))
    kurtosis = _kurtosis(data, whole)
    if kurtosis <= _LOUD:
        return False
    equal = of_equal_length(data, whole, emission)
    return _kurtosis(data, equal) - 1 < _LEFT * (kurtosis - 1)


def _kurtosis(data: CrowdData, emission: Identity) -> float:
    points = emission.latent(sample_of(data))
    number = min(_DIRECTIONS, *(size - 1 for size in points.shape))
    if number < 1 or bool((points == points[0]).all()):
        return 1.0
    whitened = PCA(number, whiten=True, random_state=0).fit_transform(points.numpy())
    return float(((whitened**2).sum(1) ** 2).mean()) / (number * (number + 2))


def in_many_columns(
    units: Callable[[CrowdData], Standardized], equal_length: bool, data: CrowdData
) -> Identity:
    """What directions are of: real columns, clipped and without gaps, perhaps of equal length."""
    emission = units(data)
    whole = without_gaps(data, clipped(data, _of_real(data, emission)))
    return of_equal_length(data, whole, emission) if equal_length else whole


def _of_real(data: CrowdData, emission: Identity) -> Identity:
    real = is_real(data)
    return emission if bool(real.all()) else Selected(emission, real)


def named(place: str, equal_length: bool) -> str:
    """What such coordinates are called."""
    return f"{place}, rows of equal length" if equal_length else place


def all_as_numbers(data: CrowdData, equal_length: bool) -> Identity:
    """The same in common units of all columns, with a number for every category."""
    emission = in_common_units(data)
    whole = without_gaps(data, with_categories(clipped(data, emission), data))
    return of_equal_length(data, whole, emission) if equal_length else whole


def clipped(data: CrowdData, emission: Identity) -> Clipped:
    """Coordinates without numbers that are far away from all others of their column.

    At three standard deviations, three times over, since what is far away widens the deviation.
    Other kinds than real numbers keep their values.
    """
    points = emission.latent(sample_of(data))
    low = torch.full((points.shape[1],), -torch.inf, dtype=torch.float64)
    high = -low
    real = is_real(data)[emission.own_features(len(is_real(data)))]
    for _ in range(_ROUNDS):
        mean = points.nanmean(0).nan_to_num(0.0)
        reach = _DEVIATIONS * (points - mean).square().nanmean(0).nan_to_num(0.0).sqrt()
        low, high = torch.where(real, mean - reach, low), torch.where(real, mean + reach, high)
        points = points.clamp(low, high)
    return Clipped(emission, low, high)


def of_equal_length(data: CrowdData, inner: Identity, units: Standardized) -> EqualLength:
    """Rows as long as they are on average, from the zero of their features on."""
    zero = (-units.location / units.scale)[inner.own_features(len(units.scale))]
    away = inner.latent(sample_of(data)) - zero
    length = float(torch.linalg.vector_norm(away, dim=1).mean())
    return EqualLength(inner, zero, length or 1.0)


def projected(
    data: CrowdData, inner: Identity, num_directions: int, whiten: bool = False
) -> Projected:
    """The first principal directions of features in other coordinates, as many as vary.

    In units of the deviation along the first, or, to ``whiten``, each in units of its own. Features
    that ``inner`` has no coordinates of stand beside the directions.
    """
    points = inner.latent(sample_of(data))
    mean = points.mean(0)
    _, deviations, directions = torch.linalg.svd(points - mean, full_matrices=False)
    variances = deviations.square() / max(len(points) - 1, 1)
    num_varying = int((variances > _MIN_RESIDUAL * variances[0]).sum())
    num_directions = max(min(num_directions, num_varying), 1)
    left = points.shape[1] - num_directions
    residual = float(variances[num_directions:].sum()) / max(left, 1)
    varies = float(variances[0]) > 0
    first = float(variances[0].sqrt()) if varies else 1.0
    smallest = _MIN_RESIDUAL * first**2
    units = variances[:num_directions].sqrt() if whiten and varies else first
    num_features = math.prod(feature_shape(data))
    beside = sorted({*range(num_features)} - {*inner.own_features(num_features)})
    first_directions = directions[:num_directions]
    return Projected(inner, mean, first_directions, units, max(residual, smallest), beside)


def beyond_one_gaussian(emission: Projected, features: Float[Tensor, "item ..."]) -> float:
    """The mean of ``-log N(x; m, C)`` over the items, m and C their own mean and covariance.

    Beside directions x = W f(o) something is left, and by far the most of a density of many
    features is about that, which no cluster has a part in. With what is left as in one Gaussian,

        p(o) = N(o) p(x) / N(x)

    (Friedman, Stuetzle and Schroeder 1984), densities on any directions, in any linear units, are
    ordered by ``log p(x) - log N(x)``: what clusters on them say beyond one Gaussian on them. What
    stands beside the directions has the same density, or mass, on any of them.
    """
    points = emission.on_directions(features)
    variances = torch.linalg.svdvals(points - points.mean(0)).square() / len(points)
    # Where all items are the same their variance is as small as in ``projected``.
    variances = variances.clamp_min(_MIN_RESIDUAL * (float(variances.max()) or 1.0))
    return float((variances.log() + math.log(2 * math.pi) + 1).sum()) / 2
