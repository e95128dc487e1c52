"""Likelihoods of assignments and observations, linear in all statistics.

z is one-hot, or has the probabilities of all clusters, or these as a sparse matrix. With a dense z
an item has one latent for all clusters; with a sparse z it has one latent for every stored cluster,
each in its own row (``Rows``).
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import ExponentialFamily, Moments, RowDensity


class Assignment(StatisticValued):
    """``log p(z | pi) = <z, log pi>``: one-hot z, or the probabilities of z.

    Parameters
    ----------
    log_weights
        log pi, or its expectation (which need not be normalized), shape ``[..., K]``.
    """

    has_rsample = False
    has_enumerate_support = True

    def __init__(self, log_weights: Float[Tensor, "*batch cluster"]) -> None:
        self.log_weights = log_weights
        self._shared: Tensor | None = None
        super().__init__(log_weights.shape[:-1], log_weights.shape[-1:])

    def _expanded(self, batch_shape: torch.Size) -> Assignment:
        expanded = Assignment(self.log_weights.expand(batch_shape + self.event_shape))
        expanded._shared = self.log_weights if self.log_weights.dim() == 1 else None
        return expanded

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch cluster"]:
        self._one_draw(sample_shape)
        return torch.distributions.OneHotCategorical(
            logits=self.log_weights, validate_args=False
        ).sample()

    def log_prob(self, value: Float[Tensor, "*#batch cluster"]) -> Float[Tensor, "*#batch"]:
        if value.is_sparse:
            rows = Rows.of(value)
            return rows.total(self.log_weights[rows.item, rows.cluster])
        shared = self._shared
        if shared is not None and value.shape[:-1] == self.batch_shape:
            # A matrix-vector product, in less than half the passes over memory.
            return value @ shared.to(value.dtype)
        return (self.log_weights * value).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Float[Tensor, "value *batch cluster"]:
        num_clusters = self.event_shape[0]
        one_hot = torch.eye(
            num_clusters, dtype=self.log_weights.dtype, device=self.log_weights.device
        )
        one_hot = one_hot.reshape(num_clusters, *(1,) * len(self.batch_shape), num_clusters)
        if expand:
            one_hot = one_hot.expand(num_clusters, *self.batch_shape, num_clusters)
        return one_hot


class ComponentObservation(StatisticValued):
    """``log p(x | z, theta) = sum_k z_k <t(theta_k), u(x)> + log h(x)`` of a mixture.

    All clusters are scored by one matrix product. Under a sparse z the value has a row for every
    stored entry, and ``log p = sum_k z_k (<t(theta_k), u(x_k)> + log h(x_k))``.

    Parameters
    ----------
    family
        Conjugate prior of the components, e.g. ``NormalInverseWishart``.
    statistics
        t(theta_k) of every component or their expectations, shape ``[K, size]``.
    assignments
        One-hot z or probabilities, shape ``[..., K]``, dense or sparse.
    observation_size
        Length of a value x: ``family.observation_size``.
    """

    def __init__(
        self,
        family: RowDensity,
        statistics: Float[Tensor, "cluster size"],
        assignments: Float[Tensor, "*batch cluster"],
        observation_size: int,
    ) -> None:
        self.family = family
        self.statistics = statistics
        self.assignments = assignments
        super().__init__(assignments.shape[:-1], torch.Size([observation_size]))

    def _expanded(self, batch_shape: torch.Size) -> ComponentObservation:
        shape = batch_shape + self.assignments.shape[-1:]
        return type(self)(
            self.family, self.statistics, self.assignments.expand(shape), self.event_shape[0]
        )

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch observation"]:
        self._one_draw(sample_shape)
        return self.family.sample_observation(self.assignments @ self.statistics)

    def log_prob(self, value: Float[Tensor, "*row observation"]) -> Float[Tensor, "*batch"]:
        statistics = self.statistics.to(value.dtype)
        if self.assignments.is_sparse:
            rows = Rows.of(self.assignments)
            assert isinstance(self.family, ExponentialFamily)  # rows of latents are whole
            return rows.total(log_density_of_rows(self.family, statistics, rows, value))
        scores = self.family.log_likelihoods(statistics, value)
        return (scores * self.assignments).sum(-1) + self.family.log_base_measure(value)


class LatentObservation(ComponentObservation):
    """The same of latents in Gaussian components: values are ``Moments``, the density is a mean."""

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "*batch moments"]:
        return Moments.point(super().rsample(sample_shape)).flat()


def log_density_of_rows(
    family: ExponentialFamily,
    statistics: Float[Tensor, "cluster size"],
    rows: Rows,
    value: Float[Tensor, "row observation"],
) -> Float[Tensor, " row"]:
    """``<t(theta_k), u(x_k)> + log h(x_k)``: of every row under the component of its cluster."""
    own = statistics.index_select(0, rows.cluster)
    scores = (family.observation_statistics(value) * own).sum(-1)
    return scores + family.log_base_measure(value)
