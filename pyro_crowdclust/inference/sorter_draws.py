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
from pyro_crowdclust.families import (
    SMALLEST_PROBABILITY,
    PosteriorSummary,
    summary_of_moments,
)
from pyro_crowdclust.inference.page_chains import PageChains
from pyro_crowdclust.minibatches.making import item_batches, needed_batch

_CHAINS, _UNUSED_DRAWS, _DRAWS = 4, 100, 150
# Draws of more placements times components take long, and so many determine most clusters.
_MAX_DRAWN = 50_000
# A cluster with fewer expected items has no part in the draws.
_SEEN = 0.5


@torch.no_grad()
def widened_by_draws(
    guide: Any, data: CrowdData, summary: WorkerSummary, interval: float
) -> WorkerSummary:
    """The summary of the workers, with deviations of the rates from draws of the clusters.

    q(a) is narrow, since it takes q(z) as given. The deviations are those of draws of clusters and
    rates together at the components of the fit, ``E[(a - E_q[a])^2]``, and never below those of q.
    Where draws are not possible, or take long, they are those of q: without the features, with
    labels or links, and with many placements.

    Parameters
    ----------
    guide
        The guide of a mixture.
    data
        The placements, those of training.
    summary
        Its own summary.
    interval
        Mass of the intervals.
    """
    annotators, placements = guide.model.annotators, data.placements
    is_alone = data.features is not None and data.known is None and data.links is None
    if not isinstance(annotators, SortedPages) or placements is None or not is_alone:
        return summary
    if len(placements) * guide.model.num_clusters > _MAX_DRAWN:
        return summary
    chains = _chains_of(guide, annotators, data, summary.rates["accuracy"].mean)
    found = [chains.step() for _ in range(_UNUSED_DRAWS + _DRAWS)][_UNUSED_DRAWS:]
    accuracy, habits = (torch.cat([one[name] for one in found]) for name in ("accuracy", "habits"))
    drawn = {name: habits[..., place] for place, name in enumerate(PAGE_STATES)}
    rates = {
        name: _widened(own, drawn[name], habits.sum(-1), interval)
        for name, own in summary.rates.items()
        if name in PAGE_STATES
    }
    right, total = accuracy[..., 0], accuracy.sum(-1)
    rates["accuracy"] = _widened(summary.rates["accuracy"], right, total, interval)
    log_odds = (torch.digamma(right) - torch.digamma(total - right)).numpy()
    variance = (torch.polygamma(1, right) + torch.polygamma(1, total - right)).numpy()
    variance = (variance + (log_odds - summary.weight) ** 2).mean(0)
    weight_sd = np.maximum(np.sqrt(variance), summary.weight_sd)
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


def _widened(
    own: PosteriorSummary,
    right: Float[Tensor, "draw worker"],
    total: Float[Tensor, "draw worker"],
    interval: float,
) -> PosteriorSummary:
    """A share with the deviation of draws of Betas around its mean, if that is larger."""
    mean = (right / total).numpy()
    variance = mean * (1 - mean) / (total.numpy() + 1) + (mean - own.mean) ** 2
    return summary_of_moments(own.mean, np.maximum(variance.mean(0), own.sd**2), interval)
