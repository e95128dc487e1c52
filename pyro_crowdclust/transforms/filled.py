"""Missing coordinates filled by their expected values."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.transforms.of_inner import OfInner

# Number of rows with gaps that are filled at a time.
_ROWS = 1024


@described
class Filled(OfInner):
    """``x_j = f(o)_j``, or its expected value given the others where it is missing.

    Expected values are under one normal distribution N(m, W^T W + v I) of all coordinates with r
    factors (probabilistic principal components, Tipping and Bishop 1999):

        E[x_j | x_seen] = m_j + w_j^T S W_seen (x_seen - m_seen),  S = (W_seen W_seen^T + v I)^-1

    For regressions, whose scores are linear in x, so that this gives the expected score, and for
    ``Projected``, whose directions are sums over all coordinates. Components on single features do
    not need it, since they integrate out missing features.

    Parameters
    ----------
    inner
        f.
    mean
        m.
    factors
        W, one row per factor; None for no factors: missing coordinates are at the mean.
    residual
        v, above 0.

    Examples
    --------
    >>> emission = Filled(Identity(), torch.tensor([0.0, 7.0]))
    >>> emission.latent(torch.tensor([[3.0, torch.nan]]))
    tensor([[3., 7.]], dtype=torch.float64)
    >>> emission = Filled(Identity(), torch.tensor([0.0, 7.0]), torch.tensor([[1.0, 2.0]]), 0.5)
    >>> emission.latent(torch.tensor([[3.0, torch.nan]]))  # 7 + 2 * 3 / (1 + 0.5)
    tensor([[ 3., 11.]], dtype=torch.float64)
    """

    takes_gaps = True
    fills_gaps = True
    mean: Tensor
    factors: Tensor

    def __init__(
        self,
        inner: Identity,
        mean: Float[Tensor, " coordinate"],
        factors: Float[Tensor, "factor coordinate"] | None = None,
        residual: float = 1.0,
    ) -> None:
        super().__init__(inner)
        if not residual > 0:
            raise ValueError(f"residual is {residual}, but must be above 0")
        self.residual = residual
        self.register_buffer("mean", mean.double())
        none = mean.new_zeros(0, len(mean)) if factors is None else factors
        self.register_buffer("factors", none.double())

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item coordinate"]:
        points = self.inner.latent(features)
        gaps = points.isnan()
        filled = points.clone()
        for rows in gaps.any(1).nonzero().flatten().split(_ROWS):
            t, _ = self._factors_of(points[rows])
            filled[rows] = torch.where(gaps[rows], self.mean + t @ self.factors, points[rows])
        return filled

    def filled_in(
        self, features: Float[Tensor, "item ..."], generator: torch.Generator
    ) -> Float[Tensor, "item feature"]:
        """Features with missing ones drawn: ``x_missing`` from ``p(x_missing | x_seen)``.

        Expected values vary less than the missing features would, so that items with the same gaps
        would look like a cluster. Draws have the right variance.
        """
        whole = features.flatten(1).double().clone()
        own = self.inner.own_features(whole.shape[1])
        gaps = whole.isnan()
        for rows in gaps[:, own].any(1).nonzero().flatten().split(_ROWS):
            t, root = self._factors_of(self.inner.latent(whole[rows]))
            noise = torch.randn(t.shape, generator=generator, dtype=t.dtype)
            drawn = self.mean + (t + (root @ noise.unsqueeze(2)).squeeze(2)) @ self.factors
            noise = torch.randn(drawn.shape, generator=generator, dtype=t.dtype)
            drawn = self.inner.features(drawn + self.residual**0.5 * noise)
            kept = whole[rows]
            kept[:, own] = torch.where(gaps[rows][:, own], drawn[:, own], kept[:, own])
            whole[rows] = kept
        return whole

    def _factors_of(
        self, points: Float[Tensor, "item coordinate"]
    ) -> tuple[Float[Tensor, "item factor"], Float[Tensor, "item factor factor"]]:
        """``S W_seen (x_seen - m_seen)`` and ``(v S)^(1/2)``, of the normal ``p(t | x_seen)``."""
        seen = (~points.isnan()).double()
        away = (points - self.mean).nan_to_num(0.0) @ self.factors.mT
        precision = second_moments(seen, self.factors)
        precision.diagonal(dim1=1, dim2=2).add_(self.residual)
        root = torch.linalg.inv(torch.linalg.cholesky(precision))
        t = (root.mT @ (root @ away.unsqueeze(2))).squeeze(2)
        return t, self.residual**0.5 * root.mT


def second_moments(
    seen: Float[Tensor, "item coordinate"], factors: Float[Tensor, "factor coordinate"]
) -> Float[Tensor, "item factor factor"]:
    """``W_seen W_seen^T`` of every item; ``seen`` is 1 where a coordinate is observed."""
    products = factors.unsqueeze(1) * factors.unsqueeze(0)
    return (seen @ products.flatten(0, 1).mT).unflatten(1, products.shape[:2])
