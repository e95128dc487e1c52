"""Gaussian densities of rows with missing features (NaN), which are integrated out.

Of a row x = (x_o, x_m) only x_o is observed. If features are independent given theta, the missing
ones integrate to 1: their statistics are zero. Under a Gaussian with the expected statistics
``t = (h, -Lambda / 2, c)``, and with x' the row with zeros in its gaps,

    <t, u(x)> = <t, u(x')> + g^T x_m - x_m^T Lambda_mm x_m / 2,      g = h_m - Lambda_mo x_o,

    log int exp <t, u(x)> dx_m
        = <t, u(x')> + g^T C g / 2 + log|C| / 2 + |m| log(2 pi) / 2,      C = Lambda_mm^{-1}.

At t(mu, Sigma) this is ``log N(x_o | mu_o, Sigma_oo)`` without the base measure. At E[t] it is the
bound at the best q(x_m given z = k) = N(C g, C), the conditional given the observed features. Its
gradient in t is E_q[u(x)], the first and second moments of the row with its gaps distributed as q,
so natural gradients need nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

# Size of the parts in which rows are processed, in numbers (32 MB).
_NUMBERS = 4_000_000
_BITS = 30


def without_gaps(
    features: Float[Tensor, "*batch feature"],
) -> tuple[Float[Tensor, "*batch feature"], Bool[Tensor, "*batch feature"]]:
    """Rows with zeros in their gaps, and a mask of the observed entries."""
    missing = features.isnan()
    return features.masked_fill(missing, 0.0), ~missing


class _Part(NamedTuple):
    """Some rows with the same number of gaps.

    Attributes
    ----------
    rows
        Their positions.
    gaps
        Positions of the gaps of every pattern among them.
    pattern
        Index of the pattern of every row.
    """

    rows: Int[Tensor, " row"]
    gaps: Int[Tensor, "pattern gap"]
    pattern: Int[Tensor, " row"]


def _pattern_codes(missing: Bool[Tensor, "row feature"]) -> Int[Tensor, " row"]:
    """A code for every row, equal for rows with gaps in the same places."""
    code = torch.zeros(len(missing), dtype=torch.int64, device=missing.device)
    for bits in missing.long().split(_BITS, 1):
        powers = 2 ** torch.arange(bits.shape[1], device=missing.device)
        code = ((code << _BITS) + bits @ powers).unique(return_inverse=True)[1]
    return code


def _parts(missing: Bool[Tensor, "row feature"], num_clusters: int) -> Iterator[_Part]:
    """All rows, grouped by the number of gaps and by pattern."""
    num_features = missing.shape[1]
    counts, codes = missing.sum(1), _pattern_codes(missing)
    order = torch.argsort(counts * len(missing) + codes)
    present, sizes = counts[order].unique_consecutive(return_counts=True)
    for num_gaps, of_count in zip(present.tolist(), order.split(sizes.tolist()), strict=True):
        numbers = num_clusters * (num_features + num_gaps**2)
        for rows in of_count.split(max(_NUMBERS // numbers, 1)):
            _, pattern, of_pattern = codes[rows].unique_consecutive(
                return_inverse=True, return_counts=True
            )
            first = rows[of_pattern.cumsum(0) - of_pattern]
            gaps = missing[first].nonzero()[:, 1].reshape(len(first), num_gaps)
            yield _Part(rows, gaps, pattern)


class _Conditionals(NamedTuple):
    """q(x_m given z = k) of the rows of a part: mean ``C g`` and covariance C.

    ``score`` is the logarithm of the integral without the constant c.
    """

    score: Float[Tensor, "cluster row"]
    mean: Float[Tensor, "cluster row gap"]
    covariance: Float[Tensor, "cluster pattern gap gap"]


def _conditionals(
    linear: Float[Tensor, "cluster dim"],
    precision: Float[Tensor, "cluster dim dim"],
    filled: Float[Tensor, "row dim"],
    part: _Part,
) -> _Conditionals:
    gaps, pattern = part.gaps, part.pattern
    seen = filled[part.rows]
    away = seen @ precision  # Lambda x', [cluster, row, dim]
    score = linear @ seen.mT - (away * seen).sum(-1) / 2
    num_gaps = gaps.shape[1]
    if num_gaps == 0:
        nothing = away[..., :0]
        return _Conditionals(score, nothing, precision.new_zeros(len(precision), len(gaps), 0, 0))
    among = precision[:, gaps.unsqueeze(2), gaps.unsqueeze(1)]
    cholesky = torch.linalg.cholesky(among)
    covariance = torch.cholesky_inverse(cholesky)
    half_log_determinant = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    of_rows = gaps[pattern].expand(len(precision), -1, -1)
    slope = linear[:, gaps[pattern]] - away.gather(-1, of_rows)
    mean = (covariance[:, pattern] @ slope.unsqueeze(-1)).squeeze(-1)
    score = score + (slope * mean).sum(-1) / 2 - half_log_determinant[:, pattern]
    return _Conditionals(score + num_gaps * math.log(2 * math.pi) / 2, mean, covariance)


class _GaussianMarginals(torch.autograd.Function):
    """``log int exp(h_k^T x - x^T Lambda_k x / 2) dx_m`` of all rows and clusters.

    The gradient in h is E[x], that in Lambda ``-E[x x^T] / 2``; both are computed again in the
    backward pass, part by part, so that no tensor of size rows times gaps is stored.
    """

    @staticmethod
    def forward(ctx: Any, linear: Tensor, precision: Tensor, features: Tensor) -> Tensor:
        filled, seen = without_gaps(features)
        scores = filled.new_empty(len(filled), len(linear))
        ctx.parts = list(_parts(~seen, len(linear)))
        for part in ctx.parts:
            scores[part.rows] = _conditionals(linear, precision, filled, part).score.mT
        ctx.save_for_backward(linear, precision, filled)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        linear, precision, filled = ctx.saved_tensors
        first, second = torch.zeros_like(linear), torch.zeros_like(precision)
        for part in ctx.parts:
            _, mean, covariance = _conditionals(linear, precision, filled, part)
            weight = gradient[part.rows].mT  # [cluster, row]
            of_rows = part.gaps[part.pattern].expand(len(linear), -1, -1)
            expected = filled[part.rows].expand(len(linear), -1, -1).scatter(-1, of_rows, mean)
            weighted = weight.unsqueeze(-1) * expected
            first += weighted.sum(1)
            second += weighted.mT @ expected
            of_pattern = weight.new_zeros(len(linear), len(part.gaps))
            of_pattern = of_pattern.index_add(1, part.pattern, weight)
            spread = of_pattern[..., None, None] * covariance
            row, column = part.gaps.unsqueeze(2), part.gaps.unsqueeze(1)
            cells = (row * filled.shape[1] + column).flatten()
            second.flatten(1).index_add_(1, cells, spread.flatten(1))
        return first, second / -2, None


def gaussian_log_marginals(
    linear: Float[Tensor, "cluster dim"],
    precision: Float[Tensor, "cluster dim dim"],
    features: Float[Tensor, "*batch dim"],
) -> Float[Tensor, "*batch cluster"]:
    """``log int exp(h_k^T x - x^T Lambda_k x / 2) dx_m``, the integral over the gaps of every row.

    Parameters
    ----------
    linear, precision
        h and Lambda of every cluster.
    features
        Rows, NaN in their gaps.

    Examples
    --------
    >>> linear, precision = torch.zeros(1, 2), torch.eye(2).unsqueeze(0)
    >>> rows = torch.tensor([[1.0, torch.nan], [torch.nan, torch.nan]])
    >>> gaussian_log_marginals(linear, precision, rows).squeeze(1)
    tensor([0.4189, 1.8379])
    """
    rows = features.reshape(-1, features.shape[-1])
    scores = _GaussianMarginals.apply(linear, precision, rows)
    return scores.reshape(*features.shape[:-1], len(linear))
