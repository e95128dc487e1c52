"""Intervals of sorters' rates that count how uncertain the clusters of the items are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.page_coupling import PAGE_STATES
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.inference.deviations import deviation_around, widened
from pyro_crowdclust.inference.page_chains import PageChains
from pyro_crowdclust.minibatches.making import item_batches, needed_batch

_CHAINS, _UNUSED_DRAWS, _DRAWS = 4, 100, 150
# Draws of more placements times components take long, and so many determine most clusters.
_MAX_DRAWN = 50_000
# A cluster with fewer expected items has no part in the draws.
_SEEN = 0.5


def widened_by_pages(
    guide: Any,
    annotators: SortedPages,
    data: CrowdData,
    summary: WorkerSummary,
    interval: float,
) -> WorkerSummary:
    """``widened_by_draws`` for sorted pages, at the components of the fit."""
    placements = data.placements
    assert placements is not None  # those that the pages have
    if len(placements) * guide.model.num_clusters > _MAX_DRAWN:
        return summary
    chains = _chains_of(guide, annotators, data, summary.rates["accuracy"].mean)
    found = [chains.step() for _ in range(_UNUSED_DRAWS + _DRAWS)][_UNUSED_DRAWS:]
    accuracy, habits = (torch.cat([one[name] for one in found]) for name in ("accuracy", "habits"))
    drawn = {name: habits[..., place] for place, name in enumerate(PAGE_STATES)}
    rates = {
        name: widened(own, *_share_moments(drawn[name], habits.sum(-1)), interval)
        for name, own in summary.rates.items()
        if name in PAGE_STATES
    }
    right, total = accuracy[..., 0], accuracy.sum(-1)
    rates["accuracy"] = widened(summary.rates["accuracy"], *_share_moments(right, total), interval)
    log_odds = (torch.digamma(right) - torch.digamma(total - right)).numpy()
    variance = (torch.polygamma(1, right) + torch.polygamma(1, total - right)).numpy()
    weight_sd = deviation_around(summary.weight, summary.weight_sd, log_odds, variance)
    return WorkerSummary(summary.rates | rates, summary.weight, weight_sd)


def _chains_of(
    guide: Any, annotators: SortedPages, data: CrowdData, accuracy: Float[np.ndarray, " worker"]
) -> PageChains:
    """Chains that start at the fit, over the clusters that have items with answers."""
    answered = needed_batch(data)
    (alone,) = item_batches(data, len(answered.items), answered.items)
    device = next(guide.parameters()).device
    log_clusters, clusters = (
        guide.infer(batch.to(device, torch.float64)).logits.double().cpu().log_softmax(1)
        for batch in (alone, answered)
    )
    if "owners" in guide.posteriors:
        owners = guide.posteriors["owners"].mean().double().cpu()
        log_owners = owners.clamp_min(SMALLEST_PROBABILITY).log()
        log_clusters, clusters = (
            (one.unsqueeze(2) + log_owners).logsumexp(1) for one in (log_clusters, clusters)
        )
    expected = torch.maximum(log_clusters.exp().sum(0), clusters.exp().sum(0))
    seen = expected > _SEEN
    pages, rng = answered.pages, np.random.default_rng(0)  # a table is the same at every reading
    assert pages is not None  # as there are placements
    parts = log_clusters[:, seen], clusters[:, seen].exp()
    return PageChains(annotators, accuracy, *parts, pages, _CHAINS, rng)


def _share_moments(
    right: Float[Tensor, "draw worker"], total: Float[Tensor, "draw worker"]
) -> tuple[Float[np.ndarray, "draw worker"], Float[np.ndarray, "draw worker"]]:
    """Mean and variance of a share under Betas, or Dirichlets."""
    mean = (right / total).numpy()
    return mean, mean * (1 - mean) / (total.numpy() + 1)
