"""Numbers far from all others of their column: slips, other units, codes of missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.errors import count, listed
from pyro_crowdclust.interface.about_data import feature_names
from pyro_crowdclust.interface.candidates.coordinates import is_real
from pyro_crowdclust.interface.candidates.rounding import numbers_in
from pyro_crowdclust.protocols import Model, part_of
from pyro_crowdclust.transforms import Within

# With fewer numbers, or fewer different ones, the ends of their range are unknown.
_MIN_NUMBERS, MIN_VALUES = 20, 10
# A gap is wider than this many standard deviations, and than this multiple of the tail before it.
DEVIATIONS, _TAILS = 4.0, 1.0
# Largest share of the numbers beyond a gap, and largest share if these are all equal.
_MAX_SHARE, MAX_SHARE_EQUAL = 0.02, 0.1
# This many numbers beyond a gap that are near to each other may be a cluster.
_CLUSTER = 3
# Width of the central four fifths of a normal distribution, in standard deviations.
CENTRAL = 2.5631


class Bounds(NamedTuple):
    """Lower and upper bounds of each feature; numbers outside of them count as missing."""

    low: Float[Tensor, " feature"]
    high: Float[Tensor, " feature"]


def deviation_bounds(data: CrowdData) -> Bounds | None:
    """Bounds that exclude deviating numbers; None if there are none, or features are on disk.

    A number deviates if it is beyond a gap: an interval without numbers that is at least four
    standard deviations wide (estimated from the central four fifths), and at least as wide as the
    tail before it. Beyond a gap there is at most a fiftieth of the numbers, no three of them near
    to each other, which might be a cluster; or up to a tenth, all of them equal, which is a code
    for missing values. Tails that thin out gradually, even if heavy, have few such gaps, and light
    tails almost none. A single deviating number distorts means, deviations and powers, and is not
    informative about its item. So it counts as missing, like the cells of Rousseeuw and Van den
    Bossche 2018.

    Examples
    --------
    >>> ages = np.append(np.arange(20.0, 70.0), [-999, -999, 450])
    >>> low, high = deviation_bounds(CrowdData(ages[:, None]))
    >>> low.item(), high.item()
    (20.0, 69.0)
    """
    if data.features_in_memory is None:
        return None
    rows = numbers_in(data).reshape(data.num_items, -1)
    low = np.full(rows.shape[1], -np.inf)
    high = -low
    for place in np.flatnonzero(are_numbers(data)):
        numbers = np.sort(rows[~np.isnan(rows[:, place]), place])
        low[place], high[place] = -_last_regular(-numbers[::-1]), _last_regular(numbers)
    if np.isinf(low).all() and np.isinf(high).all():
        return None
    return Bounds(torch.from_numpy(low), torch.from_numpy(high))


def are_numbers(data: CrowdData) -> Bool[np.ndarray, " feature"]:
    """Which features are real numbers or counts."""
    counts = [] if data.columns is None else data.columns.of_kind("count")
    found = is_real(data).numpy().copy()
    found[counts] = True
    return found


def _last_regular(numbers: Float[np.ndarray, " number"]) -> float:
    """The last of ascending numbers before a gap; infinity if there is no gap."""
    values, counts = np.unique(numbers, return_counts=True)
    if len(numbers) < _MIN_NUMBERS or len(values) < MIN_VALUES:
        return np.inf
    if counts.max() > MAX_SHARE_EQUAL * len(numbers):  # an atom is left out
        numbers = numbers[numbers != values[counts.argmax()]]
        if len(numbers) < _MIN_NUMBERS:
            return np.inf
    lowest, highest = np.quantile(numbers, [0.1, 0.9])
    near = DEVIATIONS * (highest - lowest) / CENTRAL
    if not near > 0:
        return np.inf
    tail = np.append(highest, numbers[numbers > highest])
    most, most_alike = (max(share * len(numbers), 1) for share in (_MAX_SHARE, MAX_SHARE_EQUAL))
    is_gap = np.diff(tail) > np.maximum(near, _TAILS * (tail[:-1] - highest))
    for place in np.flatnonzero(is_gap):
        beyond = tail[place + 1 :]
        if beyond[0] == beyond[-1] and len(beyond) <= most_alike:
            return float(tail[place])
        together = beyond[:_CLUSTER]
        is_cluster = len(together) == _CLUSTER and bool((np.diff(together) <= near).all())
        if len(beyond) <= most and not is_cluster:
            return float(tail[place])
    return np.inf


def within(inner: Callable[[CrowdData], Identity], bounds: Bounds, data: CrowdData) -> Within:
    """Coordinates of the numbers within the bounds, measured without those outside."""
    return Within(inner(without_deviating(data, *bounds)), *bounds)


def without_deviating(
    data: CrowdData, low: Float[Tensor, " feature"], high: Float[Tensor, " feature"]
) -> CrowdData:
    """The data without numbers outside the bounds."""
    rows = data.all_rows()
    features = Within(Identity(), low, high).seen(rows).reshape(rows.shape).numpy()
    return data.with_parts(features=features, num_missing=int(np.isnan(features).sum()))


def about_deviating(model: Model, data: CrowdData) -> str:
    """The columns with numbers outside the bounds, as the end of a sentence, or nothing."""
    emission = part_of(model, "emission", Within)
    if emission is None:
        return ""
    rows = data.all_rows().flatten(1)
    outside = (emission.seen(rows).isnan() & ~rows.isnan()).numpy()
    where = [name for place, name in enumerate(feature_names(data)) if outside[:, place].any()]
    number = count(int(outside.sum()), "number")
    return f"; {number} far from all others counted as missing, in {listed(where)}"
