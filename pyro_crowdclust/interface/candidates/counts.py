"""Columns of counts, modelled as counts or as real numbers."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch.special import gammaln

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.coordinates import sample_of


def has_counts(data: CrowdData) -> bool:
    """Whether a column holds counts."""
    return data.columns is not None and bool(data.columns.of_kind("count"))


def counts_as_numbers(data: CrowdData) -> CrowdData:
    """The data with counts declared as real numbers, rounded to a step of 1.

    Examples
    --------
    >>> import numpy as np
    >>> data = CrowdData(np.array([[0, 2.5], [3, 0.5]]), kinds={0: "count"})
    >>> counts_as_numbers(data).columns.kinds
    ('real', 'real')
    """
    if data.columns is None or not has_counts(data):
        return data
    kinds = tuple("real" if kind == "count" else kind for kind in data.columns.kinds)
    return data.with_parts(columns=dataclasses.replace(data.columns, kinds=kinds))


def look_normal(data: CrowdData) -> bool:
    """Whether normal distributions describe the counts better than Poisson ones do.

    Each column has one of each, with its mean, or its mean and variance. A number that is spread
    over its rounding step of 1 has a density, which can be compared with the mass of a count:

        sum_j E[log N(o_j + u; m_j, s_j^2)] > sum_j E[log Poisson(o_j; m_j)],  u in [-1/2, 1/2].

    Grades with many steps, and intensities, vary more than Poisson counts with the same mean, so
    that many clusters of counts would be needed to explain their variance.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> counts, intensities = rng.poisson(0.5, (90, 1)), rng.integers(0, 17, (90, 1))
    >>> [look_normal(CrowdData(one, kinds={0: "count"})) for one in (counts, intensities)]
    [False, True]
    """
    assert data.columns is not None  # as there are counts
    rows = sample_of(data)[:, data.columns.of_kind("count")]
    mean = rows.nanmean(0)
    variance = (rows - mean).square().nanmean(0) + 1 / 12
    normal = -(torch.log(2 * math.pi * variance) + 1) / 2
    poisson = (rows * mean.log() - mean - gammaln(rows + 1)).nanmean(0)
    return bool((normal - poisson).nansum() > 0)
