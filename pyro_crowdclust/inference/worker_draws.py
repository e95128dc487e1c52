"""Intervals of workers' rates that count how uncertain the clusters of the items are."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.page_coupling import PAGE_STATES
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.annotators.two_coin import TwoCoin
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.inference.deviations import deviation_around, widened
from pyro_crowdclust.inference.pair_chains import answer_slopes
from pyro_crowdclust.inference.rate_draws import drawn_by_pages, drawn_by_pairs


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
    annotators, drawn = copy.deepcopy(guide.model.annotators).cpu(), None
    if data.placements is not None and isinstance(annotators, SortedPages):
        drawn = drawn_by_pages(guide, annotators, data, summary.rates["accuracy"].mean)
    elif data.answers is not None and isinstance(annotators, TwoCoin | GradedPairs):
        drawn = drawn_by_pairs(guide, annotators, data)
    return summary if drawn is None else _around(summary, annotators, drawn, interval)


def _around(
    summary: WorkerSummary,
    annotators: SortedPages | TwoCoin | GradedPairs,
    drawn: Mapping[str, Float[Tensor, "draw worker size"]],
    interval: float,
) -> WorkerSummary:
    """The summary with the deviations of draws, given the natural parameters of these by site."""
    families: dict[str, Any] = {name: one.family for name, one in annotators.priors().items()}
    moments = {name: families[name].share_moments(natural) for name, natural in drawn.items()}
    if isinstance(annotators, SortedPages):
        of_states = (part.unbind(-1) for part in moments.pop("habits"))
        moments |= dict(zip(PAGE_STATES, zip(*of_states, strict=True), strict=True))
    rates = {}
    for name, own in summary.rates.items():
        mean, spread = moments[name]
        rates[name] = widened(own, mean.numpy(), spread.numpy(), interval)
    weight, variance = torch.zeros(()), torch.zeros(())
    for name, slope in _weight_slopes(annotators).items():
        natural, family = drawn[name], families[name]
        weight = weight + (family.expected_statistics(natural) * slope).sum(-1)
        variance = variance + family.variance(natural, slope.expand_as(natural))
    weight_sd = deviation_around(
        summary.weight, summary.weight_sd, weight.numpy(), variance.numpy()
    )
    return WorkerSummary(rates, summary.weight, weight_sd)


def _weight_slopes(
    annotators: SortedPages | TwoCoin | GradedPairs,
) -> dict[str, Float[Tensor, "worker size"]]:
    """Of sites, c of the weight of a worker's answers: ``sum <c, t>``, as in the summary."""
    one = torch.ones(annotators.num_workers, dtype=torch.float64)
    if isinstance(annotators, SortedPages):
        return {"accuracy": torch.stack([one, -one], 1)}
    ratios = [
        answer_slopes(annotators, label, 1.0) - answer_slopes(annotators, label, 0.0)
        for label in (one, 0 * one)
    ]
    sizes = {name: prior.family.size for name, prior in annotators.priors().items()}
    return dict(zip(sizes, (ratios[0] - ratios[1]).split([*sizes.values()], 1), strict=True))
