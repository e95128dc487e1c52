"""Principal directions of many columns, robust against outlying numbers and rows of large norm."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.interface.about_data import feature_shape
from pyro_crowdclust.interface.candidates.coordinates import (
    deviations,
    imputed,
    is_real,
    location_and_scale,
    sample_of,
    with_categories,
)
from pyro_crowdclust.transforms import Clipped, EqualLength, Filled, Projected, Selected

# Smallest variance of a dimension that is left out, relative to that of the first direction.
_MIN_RESIDUAL = 1e-6
# Numbers are clipped at this many standard deviations of the clipped numbers, in this many rounds.
_DEVIATIONS, _ROUNDS = 3.0, 3
# Beside a number that most items share, no other is farther from it than this many medians.
_MEDIANS = 5.0
# Lengths of rows differ if their kurtosis, relative to a normal distribution, exceeds this ...
_LOUD = 1.15
# ... and less than this share of its excess is left if rows have equal length; on so many
# directions.
_LEFT, _DIRECTIONS = 0.5, 40


def in_common_units(data: CrowdData) -> Standardized:
    """All real features in the same units, such as pixels and words: more variance counts more."""
    real = is_real(data)
    location, scale = location_and_scale(data, real)
    # Constant features have a scale of 1, which does not count here.
    varies = (torch.from_numpy(deviations(sample_of(data).numpy())) > 0) & real
    common = scale[varies].square().mean().sqrt() if varies.any() else torch.tensor(1.0)
    return Standardized(location, torch.where(real, common, scale))


def lengths_differ(data: CrowdData) -> bool:
    """Whether the lengths of rows differ by more than clusters can explain.

    With w_i the row on d whitened principal directions, in common units, the kurtosis (Mardia 1970)

        k = mean_i |w_i|^4 / (d (d + 2))

    is 1 for a normal distribution, hardly more for clusters, and E[s^4] / E[s^2]^2 for rows that
    are scaled by random s. Lengths differ if k is above 1.15, and if less than half of k - 1 is
    left once all rows have equal length. Only real columns are used.

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
    from sklearn.decomposition import PCA  # late: loading it takes a while

    whitened = PCA(number, whiten=True, random_state=0).fit_transform(points.numpy())
    return float(((whitened**2).sum(1) ** 2).mean()) / (number * (number + 2))


def in_many_columns(
    units: Callable[[CrowdData], Standardized], equal_length: bool, data: CrowdData
) -> Identity:
    """Real columns, clipped and without gaps, from which directions are computed.

    With ``equal_length``, all rows have the same length.
    """
    emission = units(data)
    whole = imputed(data, clipped(data, _of_real(data, emission)))
    return of_equal_length(data, whole, emission) if equal_length else whole


def _of_real(data: CrowdData, emission: Identity) -> Identity:
    real = is_real(data)
    return emission if bool(real.all()) else Selected(emission, real)


def named(place: str, equal_length: bool) -> str:
    """The name of such coordinates."""
    return f"{place}, rows of equal length" if equal_length else place


def all_as_numbers(data: CrowdData, equal_length: bool) -> Identity:
    """The same for columns of all kinds in common units, with an indicator for every category."""
    emission = in_common_units(data)
    whole = imputed(data, with_categories(clipped(data, emission), data))
    return of_equal_length(data, whole, emission) if equal_length else whole


def clipped(data: CrowdData, emission: Identity) -> Clipped:
    """Coordinates with numbers clipped that are far from all others of their column.

    They are clipped at three standard deviations, in three rounds, since outliers increase the
    deviation. In a column in which more than half of the items share one number, such as the zeros
    of word counts, that number is kept, and the deviations are those of the other items: whoever
    has the word at all is no outlier. As no one of few items is three deviations from their mean,
    they are also clipped at five times their median distance from the shared number. If one item
    alone has another number, it is kept, however large: nothing in the column says how large others
    would be. Columns of other kinds keep their values.

    Examples
    --------
    >>> words = torch.tensor([0.0] * 97 + [3.0, 4.0, 5.0]).unsqueeze(1)
    >>> made = clipped(CrowdData(words), Identity())
    >>> made.latent(torch.tensor([[0.0], [4.0], [5.0]])).flatten().tolist()
    [0.0, 4.0, 5.0]
    >>> words[-1] = 1e6
    >>> clipped(CrowdData(words), Identity()).latent(words[-3:]).flatten().tolist()
    [3.0, 4.0, 20.0]
    """
    points = emission.latent(sample_of(data))
    real = is_real(data)[emission.own_features(len(is_real(data)))]
    shared = _shared_by_most(points)
    points = torch.where(points == shared, torch.nan, points)
    # Few numbers are never three of their own deviations away, however far the farthest is.
    most = _MEDIANS * (points - shared).abs().nanmedian(0).values
    most = torch.where(real, most, torch.nan).nan_to_num(torch.inf)
    lowest, highest = shared.nan_to_num(0.0) - most, shared.nan_to_num(0.0) + most
    points = points.clamp(lowest, highest)
    low = torch.full((points.shape[1],), -torch.inf, dtype=torch.float64)
    high = -low
    for _ in range(_ROUNDS):
        mean = points.nanmean(0)
        mean = torch.where(mean.isnan(), shared.nan_to_num(0.0), mean)
        reach = _DEVIATIONS * (points - mean).square().nanmean(0).nan_to_num(0.0).sqrt()
        low, high = torch.where(real, mean - reach, low), torch.where(real, mean + reach, high)
        points = points.clamp(low, high)
    low, high = torch.fmin(low, shared), torch.fmax(high, shared)
    return Clipped(emission, low.maximum(lowest), high.minimum(highest))


def _shared_by_most(points: Float[Tensor, "item coordinate"]) -> Float[Tensor, " coordinate"]:
    """The number that more than half of the items share in a column; NaN if there is none."""
    median = points.nanmedian(0).values
    number = (points == median).sum(0)
    return torch.where(2 * number > (~points.isnan()).sum(0), median, torch.nan)


def of_equal_length(data: CrowdData, inner: Identity, units: Standardized) -> EqualLength:
    """Rows scaled to their mean length, measured from the zero of their features."""
    zero = (-units.location / units.scale)[inner.own_features(len(units.scale))]
    away = inner.latent(sample_of(data)) - zero
    length = float(torch.linalg.vector_norm(away, dim=1).mean())
    return EqualLength(inner, zero, length or 1.0)


def projected(
    data: CrowdData, inner: Identity, num_directions: int, whiten: bool = False
) -> Projected:
    """The first principal directions of other coordinates, at most as many as vary.

    They are in units of the standard deviation along the first direction, or, with ``whiten``, each
    in units of its own. Features without coordinates in ``inner`` are kept in addition.
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
    others = sorted({*range(num_features)} - {*inner.own_features(num_features)})
    first_directions = directions[:num_directions]
    return Projected(inner, mean, first_directions, units, max(residual, smallest), others)


def beyond_one_gaussian(emission: Projected, features: Float[Tensor, "item ..."]) -> float:
    """The mean of ``-log N(x; m, C)`` over the items, m and C their own mean and covariance.

    The directions x = W f(o) leave a residual, which dominates the density of many features, but
    does not depend on clusters. If the residual is distributed as in one Gaussian,

        p(o) = N(o) p(x) / N(x)

    (Friedman, Stuetzle and Schroeder 1984). So densities on any directions, in any linear units,
    are compared by ``log p(x) - log N(x)``, the gain of clusters over one Gaussian. Features that
    are kept in addition have the same density, or mass, whatever the directions.
    """
    points = emission.on_directions(features)
    variances = torch.linalg.svdvals(points - points.mean(0)).square() / len(points)
    # The lower limit of variances is that of ``projected``, for items that are all equal.
    variances = variances.clamp_min(_MIN_RESIDUAL * (float(variances.max()) or 1.0))
    return float((variances.log() + math.log(2 * math.pi) + 1).sum()) / 2
