"""Intervals of workers' rates that count how uncertain the clusters of the items are."""

from __future__ import annotations

from typing import Any

import torch

from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.annotators.two_coin import TwoCoin
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.inference.pair_draws import widened_by_pairs
from pyro_crowdclust.inference.sorter_draws import widened_by_pages


@torch.no_grad()
def widened_by_draws(
    guide: Any, data: CrowdData, summary: WorkerSummary, interval: float
) -> WorkerSummary:
    """The summary of the workers, with deviations of the rates from draws of the clusters.

    q(a) is narrow, since it takes q(z) as given. The deviations are those of draws of clusters and
    rates together, ``E[(a - E_q[a])^2]``, and never below those of q. Where draws are not possible,
    or take long, they are those of q: without the features or with features in a file, with labels
    or links, with other workers than ``SortedPages``, ``TwoCoin`` and ``GradedPairs``, and with
    many answers.

    Parameters
    ----------
    guide
        The guide of a mixture, or of a regression.
    data
        The answers, those of training.
    summary
        Its own summary.
    interval
        Mass of the intervals.
    """
    in_memory = data.features is not None and not isinstance(data.features, StoredFeatures)
    if not in_memory or data.known is not None or data.links is not None:
        return summary
    annotators = guide.model.annotators
    if data.placements is not None and isinstance(annotators, SortedPages):
        return widened_by_pages(guide, annotators, data, summary, interval)
    if data.answers is not None and isinstance(annotators, TwoCoin | GradedPairs):
        return widened_by_pairs(guide, annotators, data, summary, interval)
    return summary
