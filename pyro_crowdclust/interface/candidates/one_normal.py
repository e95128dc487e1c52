"""One normal distribution of rows with gaps, by which missing values are imputed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.transforms.filled import second_moments

# Largest number of factors: with more, gaps would be filled with noise.
_FACTORS = 20
# Rounds of EM, and the relative change of the residual variance at which they end.
_ROUNDS, _TOLERANCE = 60, 1e-3
# Smallest residual variance, relative to the largest variance.
_MIN_RESIDUAL = 1e-6


class Normal(NamedTuple):
    """``N(m, W^T W + v I)``, as in ``Filled``."""

    mean: Float[Tensor, " coordinate"]
    factors: Float[Tensor, "factor coordinate"]
    residual: float


def normal_of(points: Float[Tensor, "item coordinate"]) -> Normal:
    """Probabilistic principal components (Tipping and Bishop 1999), also for rows with gaps.

    For complete rows the maximum of the likelihood has a closed form. With gaps it is found by EM
    (Ilin and Raiko 2010): with ``p(t_i | x_i,seen) = N(t_i | m_i, v S_i)`` and ``u_i = (t_i, 1)``,

        (w_j, m_j) = (sum_{i sees j} E[u_i u_i^T] + v I)^-1 sum_{i sees j} x_ij E[u_i],
        v = mean_{i sees j} (x_ij - E[x_ij])^2 + v w_j^T S_i w_j.

    ``v I`` comes from a prior N(0, I) of loadings and means, for columns with few values.

    Parameters
    ----------
    points
        Rows, in units in which columns vary by about 1; NaN where a coordinate is missing.

    Examples
    --------
    >>> t = torch.linspace(-1.7, 1.7, 9, dtype=torch.float64)
    >>> points = torch.stack([t, 0.5 * t, -t], 1)
    >>> points[2, 0] = torch.nan
    >>> mean, factors, residual = normal_of(points)
    >>> bool(residual < 1e-3), bool((factors[0, 1] / factors[0, 0] - 0.5).abs() < 0.05)
    (True, True)
    """
    gaps = points.isnan()
    mean = points.nanmean(0).nan_to_num(0.0)
    filled = torch.where(gaps, mean, points)
    number = min(_FACTORS, points.shape[1] - 1, len(points) - 1)
    if number < 1 or bool((filled == filled[0]).all()):
        return Normal(mean, points.new_zeros(0, len(mean)), 1.0)
    normal = _of_whole(filled, number)
    if not bool(gaps.any()):
        return normal
    for _ in range(_ROUNDS):
        before = normal.residual
        normal = _round(filled, gaps, normal)
        if abs(normal.residual - before) <= _TOLERANCE * before:
            break
    return normal


def _of_whole(points: Float[Tensor, "item coordinate"], number: int) -> Normal:
    from sklearn.decomposition import PCA  # late: loading it takes a while

    found = PCA(number, random_state=0).fit(points.numpy())
    variances = torch.from_numpy(found.explained_variance_)
    residual = max(float(found.noise_variance_), _MIN_RESIDUAL * float(variances[0]))
    scale = (variances - residual).clamp_min(0).sqrt()
    factors = scale.unsqueeze(1) * torch.from_numpy(found.components_)
    return Normal(torch.from_numpy(found.mean_), factors, residual)


def _round(
    points: Float[Tensor, "item coordinate"], gaps: Bool[Tensor, "item coordinate"], normal: Normal
) -> Normal:
    """One round of EM; all complete rows have the same S."""
    mean, factors, v = normal
    number, is_partial = len(factors), gaps.any(1)
    some = points[is_partial]
    seen = torch.cat([(~gaps[is_partial]).double(), torch.ones_like(mean).unsqueeze(0)])
    times = torch.ones(len(seen), dtype=points.dtype)
    times[-1] = len(points) - len(some)
    inverse = second_moments(seen, factors)
    inverse.diagonal(dim1=1, dim2=2).add_(v)
    inverse = torch.linalg.inv(inverse)
    whole = points[~is_partial]
    scores = torch.cat([(some - mean) * seen[:-1], whole - mean]) @ factors.mT
    of_some = (inverse[:-1] @ scores[: len(some)].unsqueeze(2)).squeeze(2)
    t = torch.cat([of_some, scores[len(some) :] @ inverse[-1]])
    u = torch.cat([t, torch.ones_like(t[:, :1])], 1)
    each = u[: len(some)].unsqueeze(2) * u[: len(some)].unsqueeze(1)
    each[:, :number, :number] += v * inverse[:-1]
    every = u.mT @ u
    every[:number, :number] += v * (times.reshape(-1, 1, 1) * inverse).sum(0)
    # Rows in which a column is missing are subtracted from the sum over all rows.
    gram = every - ((1 - seen[:-1]).mT @ each.flatten(1)).unflatten(1, every.shape)
    gram.diagonal(dim1=1, dim2=2).add_(v)
    rows, is_seen = torch.cat([some, whole]), torch.cat([seen[:-1], torch.ones_like(whole)])
    loadings = torch.linalg.solve(gram, ((rows * is_seen).mT @ u).unsqueeze(2)).squeeze(2)
    factors, mean = loadings[:, :-1].mT, loadings[:, -1]
    away = ((rows - u @ loadings.mT) * is_seen).square().sum()
    spread = v * (times.reshape(-1, 1, 1) * inverse * second_moments(seen, factors)).sum()
    floor = _MIN_RESIDUAL * float(points.var(0, correction=0).max())
    return Normal(mean, factors, max(float((away + spread) / is_seen.sum()), floor))
