"""Advice about workers who nearly always give one answer about pairs that others tell apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy.special import xlogy

from pyro_crowdclust.errors import listed
from pyro_crowdclust.results import Fitted

# How sentences about such workers begin.
SAME_ANSWER = "some workers nearly always give the same answer, whatever the pair"
# A worker with at least _FEWEST answers, a share of at least _NEARLY_ALL of which is one label,
# gives nearly always the same answer.
_FEWEST, _NEARLY_ALL = 15, 0.95
# These are named if others would give it so often about the same pairs with no larger probability
# than this.
_BY_CHANCE = 0.001
# But not if the few other answers show, by so many nats, that the worker looks at the pairs.
_MIN_EVIDENCE = 2.0
# So many workers are named.
_NAMED = 3


def about_constant_answers(result: Fitted) -> list[str]:
    """Advice where workers nearly always give the same answer about pairs, though others do not."""
    found = constant_workers(result)
    if found.empty:
        return []
    return [
        f"{SAME_ANSWER}, where others would also have given the other one (in workers: "
        f"{listed(found, _NAMED)}): these answers say almost nothing; leave them out, or ask these "
        "workers again"
    ]


def constant_workers(result: Fitted) -> pd.Index:
    """Workers who nearly always give the same answer about pairs, though others would not.

    Of the n answers of a worker a share s is the label L. With ``p_i`` the probability of a pair to
    share a cluster, and alpha and beta the rates of the other workers, these would give it to a
    share ``p = mean_i p_i p(L | same, alpha) + (1 - p_i) p(L | different, beta)``. The worker is
    named if

        n >= 15,   s >= .95,   s > p,   exp(-n KL(s || p)) < .001

    (Hoeffding's bound of the probability to give L so often), unless the answers are more probable,
    by a factor of e^2, if pairs that are the same have a share of L of their own.
    """
    data, workers = result.data, result.workers
    answers = data.answers
    if answers is None or len(data.grade_ids) or "sensitivity" not in workers:
        return data.worker_ids[:0]
    worker, is_same = answers.worker.numpy(), answers.label.numpy() > 0.5
    number = np.bincount(worker, minlength=data.num_workers)
    said_same = np.bincount(worker, is_same, data.num_workers)
    share = said_same / number.clip(1)
    is_nearly_all = (number >= _FEWEST) & (np.abs(share - 0.5) >= _NEARLY_ALL - 0.5)
    if not is_nearly_all.any() or is_nearly_all[number > 0].all():
        return data.worker_ids[:0]
    together = result.same_cluster_by_position(answers.left.numpy(), answers.right.numpy())
    weights = np.where(is_nearly_all, 0, number)
    rates = workers[["sensitivity", "specificity"]].reindex(data.worker_ids).to_numpy()
    sensitivity, specificity = np.average(np.nan_to_num(rates), axis=0, weights=weights)
    by_others = together * sensitivity + (1 - together) * (1 - specificity)
    are_constant = np.zeros(data.num_workers, dtype=bool)
    for code in np.flatnonzero(is_nearly_all):
        own = worker == code
        are_constant[code] = _is_constant(is_same[own], together[own], by_others[own])
    return data.worker_ids[are_constant]


def _is_constant(
    is_same: Bool[np.ndarray, " answer"],
    together: Float[np.ndarray, " answer"],
    by_others: Float[np.ndarray, " answer"],
) -> bool:
    """Whether one worker's answers are one label more often than by others, whatever the pair."""
    share, expected = is_same.mean(), by_others.mean()
    # More extreme than the others, in the direction of the label.
    if (share - expected) * (share - 0.5) <= 0:
        return False
    divergence = xlogy(share, share / expected) + xlogy(1 - share, (1 - share) / (1 - expected))
    if np.exp(-len(is_same) * divergence) >= _BY_CHANCE:
        return False
    of_kinds = [_log_likelihood(is_same, kind) for kind in (together, 1 - together)]
    return bool(sum(of_kinds) - _log_likelihood(is_same, np.ones(len(is_same))) < _MIN_EVIDENCE)


def _log_likelihood(
    is_same: Bool[np.ndarray, " answer"], weight: Float[np.ndarray, " answer"]
) -> float:
    """Of answers with weights at their own share of "same"."""
    same, total = weight[is_same].sum(), weight.sum()
    other = total - same
    return float(xlogy(same, same) + xlogy(other, other) - xlogy(total, total))
