"""Intervals of the rates of workers who answer about pairs, from draws of the clusters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.two_coin import TwoCoin
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import OutsideDomain
from pyro_crowdclust.inference.deviations import deviation_around, widened
from pyro_crowdclust.inference.pair_chains import MixtureDraw, PairChains, answer_slopes
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import answered_batch, full_batch, item_batches

# Many chains and few steps, since a step of one chain takes hardly less than one of all.
_CHAINS, _UNUSED_DRAWS, _DRAWS = 16, 20, 40
# Draws of more answers, or features, times components take long, and so many determine clusters.
_MAX_DRAWN = 50_000
# A component with fewer expected items has no part in the draws.
_SEEN = 0.5


@runtime_checkable
class SupportsMixtureDraws(Protocol):
    """A guide of a mixture whose weights and components can be drawn, given those of the items."""

    def mixture_draws(self, batch: Batch, used: Int[Tensor, " used"]) -> MixtureDraw | None:
        """Draws for the components that are used; None where these are not conjugate."""


def widened_by_pairs(
    guide: Any,
    annotators: TwoCoin | GradedPairs,
    data: CrowdData,
    summary: WorkerSummary,
    interval: float,
) -> WorkerSummary:
    """``widened_by_draws`` for answers about pairs."""
    if data.num_pairs * guide.model.num_clusters > _MAX_DRAWN:
        return summary
    annotators = copy.deepcopy(annotators).cpu()
    try:
        found = _posteriors(guide, annotators, data)
    except OutsideDomain:  # of a drawn component, by rounding
        found = _posteriors(guide, annotators, data, draws_mixture=False)
    rates, weight, variance = {}, torch.zeros(()), torch.zeros(())
    slopes = _weight_slopes(annotators)
    for (name, prior), slope in zip(annotators.priors().items(), slopes, strict=True):
        family: Any = prior.family
        natural = torch.cat([one[name] for one in found])
        mean, spread = family.share_moments(natural)
        rates[name] = widened(summary.rates[name], mean.numpy(), spread.numpy(), interval)
        weight = weight + (family.expected_statistics(natural) * slope).sum(-1)
        variance = variance + family.variance(natural, slope.expand_as(natural))
    moments = weight.numpy(), variance.numpy()
    weight_sd = deviation_around(summary.weight, summary.weight_sd, *moments)
    return WorkerSummary(summary.rates | rates, summary.weight, weight_sd)


def _weight_slopes(annotators: TwoCoin | GradedPairs) -> Sequence[Float[Tensor, "worker size"]]:
    """Of every site, c of the weight of a worker's answers, ``w(1) - w(0) = sum <c, t>``."""
    one = torch.ones(annotators.num_workers, dtype=torch.float64)
    ratios = [
        answer_slopes(annotators, label, 1.0) - answer_slopes(annotators, label, 0.0)
        for label in (one, 0 * one)
    ]
    sizes = [prior.family.size for prior in annotators.priors().values()]
    return (ratios[0] - ratios[1]).split(sizes, 1)


def _posteriors(
    guide: Any, annotators: TwoCoin | GradedPairs, data: CrowdData, draws_mixture: bool = True
) -> list[dict[str, Float[Tensor, "chain worker size"]]]:
    """Natural parameters of the rates in every draw of the clusters."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # a table is the same at every reading
        chains = _chains_of(guide, annotators, data, draws_mixture)
        return [chains.step() for _ in range(_UNUSED_DRAWS + _DRAWS)][_UNUSED_DRAWS:]


def _chains_of(
    guide: Any, annotators: TwoCoin | GradedPairs, data: CrowdData, draws_mixture: bool
) -> PairChains:
    """Chains that start at the fit, over the components that have items."""
    device = next(guide.parameters()).device
    is_small = data.num_items * data.num_features * guide.model.num_clusters <= _MAX_DRAWN
    batch = full_batch(data) if is_small else answered_batch(data)
    assert batch is not None  # as there are answers
    (alone,) = item_batches(data, len(batch.items), batch.items)
    log_alone, log_start = (
        guide.infer(one.to(device, torch.float64)).logits.double().cpu().log_softmax(1)
        for one in (alone, batch)
    )
    expected = torch.maximum(log_alone.exp().sum(0), log_start.exp().sum(0))
    used = (expected > _SEEN).nonzero().squeeze(1)
    mixture, owners = None, None
    if draws_mixture and is_small and isinstance(guide, SupportsMixtureDraws):
        mixture = guide.mixture_draws(batch.to(device, torch.float64), used)
    if "owners" in guide.posteriors:
        owners = guide.posteriors["owners"].mean().double().cpu()[used]
    parts = log_alone[:, used], log_start[:, used].exp(), _CHAINS, owners, mixture
    return PairChains(annotators, batch, *parts)
