"""Likelihood of answers, given a partition or given the posteriors of items and workers."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.suited import expected_counts
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.inference.workers import owned_together, same_cluster
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import PairAnnotators

# Level of the test whether a partition explains the answers.
_LEVEL = 0.05


def log_marginal_likelihood(
    labels: Int[Tensor, " item"], annotators: PairAnnotators, answers: Answers
) -> Float[Tensor, ""]:
    """``log p(L | z) = sum_m A(eta_m + n_m(z)) - A(eta_m)``, the workers' rates summed out.

    ``n_m(z)`` are the counts that the answers of worker m add to the rates' natural parameters.

    Parameters
    ----------
    labels
        z.
    annotators
        The prior of the workers.
    answers
        Answers about these items.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> answers = Answers(*torch.tensor([[0, 0], [1, 2], [0, 0]]), torch.tensor([1.0, 0.0]))
    >>> even = TwoCoin(1, (1.0, 1.0), (1.0, 1.0))
    >>> found = (
    ...     log_marginal_likelihood(torch.tensor(z), even, answers) for z in ([0, 0, 1], [0, 0, 0])
    ... )
    >>> [one.exp() for one in found]
    [tensor(0.2500, dtype=torch.float64), tensor(0.1667, dtype=torch.float64)]
    """
    same = (labels[answers.left] == labels[answers.right]).double()
    counts = expected_counts(annotators, same, answers.worker, answers.label.double())
    total = torch.zeros((), dtype=torch.float64)
    for name, prior in annotators.priors().items():
        family, eta = prior.family, prior.natural_parameters
        total = (
            total + (family.log_normalizer(eta + counts[name]) - family.log_normalizer(eta)).sum()
        )
    return total


def explains(
    labels: Int[Tensor, " item"],
    draws: Int[Tensor, "draw item"],
    annotators: PairAnnotators,
    answers: Answers,
) -> bool:
    """Whether a partition explains the answers as well as draws from the answers alone do.

    A partition z* from the same distribution as the draws z_1, ..., z_S has a uniform rank among
    them by ``log p(L | z)``. True if more than one in twenty of the draws is at most as likely as
    z*.

    Parameters
    ----------
    labels
        z*.
    draws
        z_s, from the posterior given the answers alone.
    annotators
        The prior of the workers.
    answers
        Answers about these items.
    """
    by_draws = torch.stack([log_marginal_likelihood(draw, annotators, answers) for draw in draws])
    as_bad = int((by_draws <= log_marginal_likelihood(labels, annotators, answers)).sum())
    return as_bad > _LEVEL * len(draws)


@torch.no_grad()
def log_evidence_bound(guide: Any, annotators: PairAnnotators, alone: Batch, batch: Batch) -> float:
    """A lower bound on the log evidence of the answers, at the current components and workers.

        log p(L | X) >= sum_i -KL(q(z_i) || p(z_i | x_i)) + E_q[log p(L | z)]

    Parameters
    ----------
    guide
        The guide of a mixture or a regression; ``p(z | x)`` is its q(z) without answers.
    annotators
        The model of the workers.
    alone
        The items of ``batch`` without their answers.
    batch
        All answers, with their items, in double precision.
    """
    by_features = guide.infer(alone).assignments
    q = guide.infer(batch).assignments
    odds = (
        by_features.clamp_min(SMALLEST_PROBABILITY).log() - q.clamp_min(SMALLEST_PROBABILITY).log()
    )
    statistics = {name: guide.posteriors[name].mean() for name in annotators.priors()}
    same = same_cluster(q, owned_together(guide), batch)
    likelihood = annotators.answer(same, statistics, batch.worker)
    return float((q * odds).sum() + likelihood.log_prob(batch.needed_label.double()).sum())
