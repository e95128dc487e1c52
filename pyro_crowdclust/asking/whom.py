"""Whom to ask: workers who are probably the best, each as often as they probably are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from pyro_crowdclust.asking.criteria import Prospects
from pyro_crowdclust.asking.situation import Situation

# Multiples of the golden ratio are spread evenly, also the first few of them.
_GOLDEN = (np.sqrt(5) - 1) / 2


class Whom:
    """The worker of every question of a batch: Thompson sampling with systematic draws.

        p_w = (1 - e) P(w has the largest score for the price) + e / W ,   P over draws of the rates

    Thompson sampling asks w with probability p_w. Independent draws for n questions would give
    workers about whom nothing is known very different numbers of questions. So the n draws are
    systematic: w has an interval of length p_w, and the questions are n points at equal distances
    on ``[0, 1)``, shifted by a random number. Each question still goes to w with probability p_w,
    and if p_w is the same for all questions, w gets ``n p_w`` of them, rounded up or down. The
    first few points are spread as evenly as all are.

    Parameters
    ----------
    situation
        With the workers, the criterion, and the share of ``exploration`` e.
    count
        n.

    Examples
    --------
    >>> _points(4, np.random.default_rng(0)).round(2)
    array([0.64, 0.14, 0.89, 0.39])
    """

    def __init__(self, situation: Situation, count: int) -> None:
        self._situation = situation
        self._points = _points(count, situation.generator)
        self._asked = 0

    def best(
        self,
        information: Float[np.ndarray, "draw worker"],
        outcomes: Float[np.ndarray, "1 outcome"],
        able: Bool[np.ndarray, " worker"],
    ) -> int | None:
        """The worker to ask the next question; None if nobody is able.

        Parameters
        ----------
        information
            Information of every worker's answer, in every draw.
        outcomes
            Probabilities of the possible truths.
        able
            Workers who may be asked.
        """
        if not able.any():
            return None
        situation = self._situation
        crowd, scores = situation.crowd, np.full(information.shape, -np.inf)
        each = np.broadcast_to(outcomes, (len(information), outcomes.shape[1]))
        for worker in np.flatnonzero(able):
            prospects = Prospects(
                information[:, worker], each, crowd.rates.pseudo_counts(int(worker))
            )
            found = situation.criterion.scores(prospects, situation.generator)
            scores[:, worker] = found / crowd.prices[worker]
        is_best = scores >= scores.max(1, keepdims=True)
        share = (is_best / is_best.sum(1, keepdims=True)).mean(0)
        new = able & (crowd.codes < 0)
        for price in np.unique(crowd.prices[new]):  # nothing but chance tells these apart
            alike = new & (crowd.prices == price)
            share[alike] = share[alike].mean()
        e = situation.exploration
        until = ((1 - e) * share + e * able / able.sum()).cumsum()
        point = self._points[self._asked % len(self._points)]
        self._asked += 1
        return int(np.searchsorted(until, point * until[-1], side="right"))


def _points(count: int, generator: np.random.Generator) -> Float[np.ndarray, " question"]:
    """Points at equal distances on a circle of length 1, with a random start."""
    rank = (np.arange(count) * _GOLDEN % 1).argsort().argsort()
    return np.asarray((rank / count + generator.random()) % 1)
