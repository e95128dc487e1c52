"""Posterior summaries of workers who answer about pairs: their rates, and weights of answers."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.protocols import PairAnnotators


@torch.inference_mode(False)  # as slopes are gradients
def summarize_pair_workers(
    annotators: PairAnnotators,
    sites: Mapping[str, ConjugatePosterior | PointEstimate],
    interval: float,
) -> WorkerSummary:
    """The rates and weight of every worker, from the posteriors (or points) of the sites.

    The weight of an answer is linear in the statistics of the sites,
    ``w(L = 1) - w(L = 0) = sum_s <c_s, t(theta_s)>``, whatever their families are: its posterior
    mean and deviation follow from the slopes c. A site that is used only for some pairs
    (``about(items)``) has the slope zero, as the weight is that of an answer about no pair in
    particular.

    Parameters
    ----------
    annotators
        An annotator model of answers about pairs.
    sites
        What a guide has for each of ``annotators.priors()``.
    interval
        Probability of the central intervals.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> from pyro_crowdclust.distributions import ConjugatePosterior
    >>> workers = TwoCoin(2, sensitivity=(8.0, 2.0))
    >>> sites = {name: ConjugatePosterior(prior) for name, prior in workers.priors().items()}
    >>> summary = summarize_pair_workers(workers, sites, interval=0.9)
    >>> summary.rates["sensitivity"].mean, summary.weight.round(2)
    (array([0.8, 0.8]), array([1.59, 1.59]))
    """
    sites = {name: sites[name] for name in annotators.priors()}
    statistics = {name: site.mean().requires_grad_() for name, site in sites.items()}
    yes = next(iter(statistics.values())).new_ones(annotators.num_workers)
    no = torch.zeros_like(yes)
    worker = torch.arange(annotators.num_workers, device=yes.device)
    weight = annotators.log_likelihood_ratio(statistics, worker, yes)
    weight = weight - annotators.log_likelihood_ratio(statistics, worker, no)
    # Workers may use one of their sites only for answers about some pairs.
    slopes = torch.autograd.grad(
        weight.sum(), list(statistics.values()), allow_unused=True, materialize_grads=True
    )
    variance = torch.stack(
        [site.variance(slope) for site, slope in zip(sites.values(), slopes, strict=True)]
    ).sum(0)
    rates = {name: site.summary(interval) for name, site in sites.items()}
    return WorkerSummary(rates, weight.numpy(force=True), variance.sqrt().numpy(force=True))
