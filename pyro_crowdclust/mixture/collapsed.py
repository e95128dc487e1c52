"""Mixtures on observed features whose assignments are summed out.

For an item that is not coupled to others, the bound at the best q(z) has a closed form,

    max_q  <q, eta> + H(q) = log sum_k exp(eta_k),    eta_k = E[log pi_k] + <E[t(theta_k)], u(x)>,

so neither model nor guide needs a site for its z. The gradient in eta is q(z) = softmax(eta), and
so the natural gradients of the global parameters are those of the model with an explicit z. What
remains of a sweep is a matrix product, a softmax, and the transposed product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.mixture.components import Components

# This many rows stay in the processor's cache from the product to the softmax.
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Design:
    """Features as the rows whose products with folded statistics are log-densities.

    Attributes
    ----------
    rows
        The family's ``design`` of every item, items of one group next to each other.
    log_base_measure
        log h(x) of every row.
    sizes
        How many items each group has.
    place
        The row of every item; None where rows are in the order of the items.
    """

    rows: Float[Tensor, "item column"]
    log_base_measure: Float[Tensor, " item"]
    sizes: list[int]
    place: Int[Tensor, " item"] | None = None

    @classmethod
    def of(
        cls,
        components: Components,
        features: Float[Tensor, "item ..."],
        precision: torch.dtype,
        group: Int[Tensor, " item"] | None = None,
        num_groups: int = 1,
    ) -> Design:
        """Prepare the features of a batch, whose items may belong to groups."""
        family = components.family
        order = place = None
        sizes = [len(features)]
        if group is not None:
            order = group.argsort(stable=True)
            place = order.argsort()
            sizes = torch.bincount(group, minlength=num_groups).tolist()
        sorted_features = features if order is None else features[order]
        rows, log_base_measures = [], []
        for part in sorted_features.split(_ROWS):
            observation = components.observe(part)
            # The components may reorder the features.
            rows.append(family.design(family.features(observation)).to(precision))
            constants = family.log_base_measure(observation)
            # ``as_tensor`` without a dtype would give a number the default precision.
            constants = torch.as_tensor(constants, dtype=torch.float64)
            log_base_measures.append(constants.expand(len(part)))
        return cls(torch.cat(rows), torch.cat(log_base_measures), sizes, place)


class _LogSumExpOfProduct(torch.autograd.Function):
    """``logsumexp(rows @ parameters[group]^T)``, differentiable in the parameters.

    With q the softmax of a row and g its incoming gradient, the gradient of a group's parameters is
    ``sum_n g_n q_n row_n^T``.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, parameters: Tensor, parts: list[tuple[int, slice]]
    ) -> Tensor:
        exponentials = rows.new_empty(len(rows), parameters.shape[1])
        totals = rows.new_empty(len(rows), 1)
        result = rows.new_empty(len(rows), dtype=torch.float64)
        # Denormal numbers are slow; the product of two numbers below this underflows anyway.
        lowest = torch.finfo(rows.dtype).smallest_normal ** (1 / 3)
        lowest = torch.tensor(lowest).log().item()
        for group, part in parts:
            scores = torch.mm(rows[part], parameters[group].mT, out=exponentials[part])
            largest = scores.amax(-1, keepdim=True)
            scores.sub_(largest).clamp_(min=lowest).exp_()
            total = torch.sum(scores, -1, keepdim=True, out=totals[part])
            result[part] = (largest + total.log()).squeeze(-1)
        ctx.parts, ctx.num_groups = parts, len(parameters)
        ctx.save_for_backward(rows, exponentials, totals)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        rows, exponentials, totals = ctx.saved_tensors
        shape = ctx.num_groups, rows.shape[1], exponentials.shape[1]
        result = rows.new_zeros(shape, dtype=torch.float64)
        # The normalization of q and g multiply the narrower factor, which is cheaper.
        scale = gradient.to(rows.dtype).unsqueeze(-1) / totals
        for group, part in ctx.parts:
            result[group] += (scale[part] * rows[part]).mT @ exponentials[part]
        return None, result.mT.to(rows.dtype), None


class MixtureObservation(StatisticValued):
    """``log p(x | pi, theta) = log sum_k exp(log pi_k + <t(theta_k), u(x)>) + log h(x)``.

    With expectations of log pi and t(theta) this is the bound at the best q(z). The value of the
    site is ``Design.rows``. It is for observed features; to simulate, sample z and then x.

    Parameters
    ----------
    components
        The components of the mixture.
    statistics
        t(theta_k) or their expectations, ``[K, size]``.
    log_weights
        log pi (or its expectation) plus all other terms of log q(z) that do not depend on features,
        one row per group.
    design
        The items.
    weight
        w of ``p(x | theta_k)^w``.
    """

    def __init__(
        self,
        components: Components,
        statistics: Float[Tensor, "cluster size"],
        log_weights: Float[Tensor, "group cluster"],
        design: Design,
        weight: float = 1.0,
    ) -> None:
        folded = weight * components.family.fold(statistics)
        # The last column of the design is all ones, so these constants are added to every score.
        constants = (folded[:, -1] + log_weights).unsqueeze(-1)
        slopes = folded[:, :-1].expand(len(log_weights), -1, -1)
        self.parameters = torch.cat([slopes, constants], -1).to(design.rows.dtype)
        self.design, self.weight = design, weight
        super().__init__(design.rows.shape[:1], design.rows.shape[1:])

    def log_prob(self, value: Float[Tensor, "item column"]) -> Float[Tensor, " item"]:
        parts, start = [], 0
        for group, size in enumerate(self.design.sizes):
            for first in range(start, start + size, _ROWS):
                parts.append((group, slice(first, min(first + _ROWS, start + size))))
            start += size
        result = _LogSumExpOfProduct.apply(value, self.parameters, parts)
        result = result + self.weight * self.design.log_base_measure
        return result if self.design.place is None else result[self.design.place]


def sample_summed_out(
    model: Any,
    log_weights: Float[Tensor, " cluster"],
    statistics: Float[Tensor, "cluster size"],
    others: dict[str, Tensor],
    batch: Batch,
    weight: float = 1.0,
) -> None:
    """Run the site ``x`` of items without a site for z, inside their plate.

    Parameters
    ----------
    model
        A ``SemiCrowdsourcedMixture``.
    log_weights, statistics, others
        What ``sample_mixture`` returns.
    batch
        The items.
    weight
        See ``MixtureObservation``.
    """
    precision, supervision = model.sum_out_assignments, model.supervision
    offsets = supervision.grouped_log_weights(log_weights, others)
    groups = supervision.groups(batch)
    if groups is None:
        offsets = offsets[:1]

    def design_of_batch() -> Design:
        features = model.emission.latent(batch.features)
        return Design.of(model.components, features, precision, groups, len(offsets))

    # The batch caches its design; full data are prepared only once.
    design = batch.once((model.components.family, precision), design_of_batch)
    observation = MixtureObservation(model.components, statistics, offsets, design, weight)
    pyro.sample("x", observation, obs=design.rows)
