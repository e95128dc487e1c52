"""``p(answer | same)`` and ``p(answer | different)`` of every worker, from any pair annotators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from pyro_crowdclust.distributions.summaries import WorkerSummary


class Channels(NamedTuple):
    """``p(L | different)`` and ``p(L | same)`` of every worker.

    Outcomes L are "different" and "same", or the grades and "can't tell".

    Attributes
    ----------
    mean, sd
        Posterior mean and deviation of every share.
    """

    mean: Float[np.ndarray, "worker truth outcome"]
    sd: Float[np.ndarray, "worker truth outcome"]


def channels_of(summary: WorkerSummary) -> Channels | None:
    """The channels of annotators of pairs; None for annotators with other rates.

    For workers who lapse, they are those of an answer on a page with unknown state: with attention
    a and shares gamma of C outcomes ``p = a gamma + (1 - a) / C``, and

        Var[p] = E[a^2] Var[gamma] + Var[a] (E[gamma] - 1 / C)^2

    Examples
    --------
    >>> from pyro_crowdclust.annotators import GradedPairs, summarize_workers
    >>> from pyro_crowdclust.distributions import ConjugatePosterior
    >>> workers = GradedPairs(1, num_grades=2, unsure=False)
    >>> sites = {name: ConjugatePosterior(prior) for name, prior in workers.priors().items()}
    >>> channels_of(summarize_workers(workers, sites, 0.9)).mean.round(2)
    array([[[0.67, 0.33],
            [0.33, 0.67]]])
    """
    found, attention = attentive_channels(summary), summary.rates.get("attention")
    if found is None or attention is None:
        return found
    looks, spread = (part[:, None, None] for part in (attention.mean, attention.sd**2))
    chance = 1 / found.mean.shape[-1]
    variance = (looks**2 + spread) * found.sd**2 + spread * (found.mean - chance) ** 2
    return Channels(looks * found.mean + (1 - looks) * chance, np.sqrt(variance))


def attentive_channels(summary: WorkerSummary) -> Channels | None:
    """The channels of an answer that was given with attention."""
    rates = summary.rates
    if {"if_different", "if_same"} <= {*rates}:
        of_truth = [rates["if_different"], rates["if_same"]]
        return Channels(*(np.stack([getattr(one, part) for one in of_truth], 1) for part in _PARTS))
    if {"sensitivity", "specificity"} <= {*rates}:
        right, rejected = rates["sensitivity"], rates["specificity"]
        rows = [[rejected.mean, 1 - rejected.mean], [1 - right.mean, right.mean]]
        deviations = [[rejected.sd] * 2, [right.sd] * 2]
        return Channels(*(np.moveaxis(np.array(one), -1, 0) for one in (rows, deviations)))
    return None


_PARTS = "mean", "sd"
