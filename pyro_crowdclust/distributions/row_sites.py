"""Statistic-valued Pyro distributions of latents with a row per item and cluster; see ``rows``.

``OfItems`` turns a distribution of rows into a site in the plate of the items. The others are
distributions of rows: their values are ``IndependentMoments``, whose variance is zero for draws and
positive for posteriors, and their log-densities are expectations under these moments.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.likelihoods import log_density_of_rows
from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import IndependentMoments, NormalInverseWishart


class OfItems(StatisticValued):
    """``log p(v_n | z_n) = sum_k z_nk log p(v_nk | k)`` of a distribution of rows.

    The value is ragged, one row after the other, or has one entry per item for all of its rows
    (``shared``). The log-density has one number per item, so that the plate of the items scales it.

    Parameters
    ----------
    of_rows
        Distribution with batch shape ``[row]``.
    rows
        The item and cluster of every row.
    shared
        Whether the value has an entry per item: observed features do not depend on the cluster.
    """

    def __init__(self, of_rows: Any, rows: Rows, shared: bool = False) -> None:
        self.of_rows, self.rows, self.shared = of_rows, rows, shared
        super().__init__(torch.Size([rows.num_items]), of_rows.event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        self._one_draw(sample_shape)
        if self.shared and len(self.rows.item) > self.rows.num_items:
            raise ValueError(
                "features can be drawn only given one cluster per item: draw z first, or observe "
                "the features"
            )
        # ``sample`` would stop gradients to the recognition networks.
        return self.of_rows.rsample() if self.of_rows.has_rsample else self.of_rows.sample()

    def log_prob(self, value: Tensor) -> Float[Tensor, " item"]:
        if self.shared:
            value = value.index_select(0, self.rows.item)
        return self.rows.total(self.of_rows.log_prob(value))


class RowSites:
    """Runs Pyro sites of rows, each as a site of the items to which the rows belong.

    Parameters
    ----------
    rows
        The latents of items, one for every cluster that an item may be in.
    features
        Observed value of the site ``o``; None to draw it.
    """

    def __init__(self, rows: Rows, features: Float[Tensor, "item ..."] | None) -> None:
        self._rows, self._features = rows, features

    def __call__(self, name: str, of_rows: Any) -> Tensor:
        """Run the site ``name``, given the distribution of its rows; returns its value."""
        if name == "o":
            return pyro.sample(name, OfItems(of_rows, self._rows, True), obs=self._features)
        return pyro.sample(name, OfItems(of_rows, self._rows))


def emitted_rows(emission: Any, latent: Float[Tensor, "row moments"], rows: Rows) -> Any:
    """Distribution of the features at one draw of every latent, under a cluster-wise emission."""
    dtype = next(emission.parameters()).dtype
    return emission(rows.draw(IndependentMoments.of(latent)).to(dtype), rows)


class RowComponent(StatisticValued):
    """``E[log p(h | theta_k)] = <t(theta_k), E[u(h)]> + log h`` of latents in Gaussian components.

    Parameters
    ----------
    family
        The family that defines the layout of the statistics.
    statistics
        t(theta_k) of every component or their expectations, ``[cluster, size]``.
    rows
        The item and cluster of every latent.
    """

    def __init__(
        self, family: NormalInverseWishart, statistics: Float[Tensor, "cluster size"], rows: Rows
    ) -> None:
        self.family, self.rows, self.statistics = family, rows, statistics
        super().__init__(torch.Size([len(rows.item)]), torch.Size([2 * family.num_features]))

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "row moments"]:
        self._one_draw(sample_shape)
        observation = self.family.sample_observation(self.statistics[self.rows.cluster])
        return IndependentMoments.point(self.family.features(observation)).flat()

    def log_prob(self, value: Float[Tensor, "row moments"]) -> Float[Tensor, " row"]:
        moments = IndependentMoments.of(value).full().flat()
        statistics = self.statistics.to(value.dtype)
        return log_density_of_rows(self.family, statistics, self.rows, moments)


class RowNormal(StatisticValued):
    """``E[log N(h | m, diag s^2)] = log N(E[h] | m, s) - sum_j var(h_j) / (2 s_j^2)``.

    Parameters
    ----------
    mean, scale
        m and s of every row.
    """

    def __init__(self, mean: Float[Tensor, "row dim"], scale: Float[Tensor, "row dim"]) -> None:
        self.moments = IndependentMoments(mean, scale)
        super().__init__(mean.shape[:-1], torch.Size([2 * mean.shape[-1]]))

    @staticmethod
    def of(normal: dist.Independent) -> RowNormal:
        """Convert the distribution that a ``NormalEmission`` returns for the layer above."""
        return RowNormal(*torch.broadcast_tensors(normal.base_dist.loc, normal.base_dist.scale))

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "row moments"]:
        self._one_draw(sample_shape)
        return IndependentMoments.point(self.moments.draw()).flat()

    def log_prob(self, value: Float[Tensor, "row moments"]) -> Float[Tensor, " row"]:
        other = IndependentMoments.of(value)
        squares = (other.mean - self.moments.mean).square() + other.scale.square()
        terms = squares / (2 * self.moments.scale.square()) + self.moments.scale.log()
        return -terms.sum(-1) - squares.shape[-1] * math.log(2 * math.pi) / 2


class RowNormalAtMean(RowNormal):
    """A posterior of latents, whose site returns its moments instead of a draw."""

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "row moments"]:
        self._one_draw(sample_shape)
        return self.moments.flat()
