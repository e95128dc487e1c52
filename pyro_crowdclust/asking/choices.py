"""Greedy choice of questions about pairs or items, and of the worker to ask each of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.criteria import Prospects
from pyro_crowdclust.asking.information import channel_information, entropy
from pyro_crowdclust.asking.situation import Situation
from pyro_crowdclust.asking.teaching import Teaching
from pyro_crowdclust.asking.whom import Whom
from pyro_crowdclust.asking.worker_rates import drawn
from pyro_crowdclust.asking.worker_teaching import WorkerTeaching

_TINY = 1e-3


@dataclass(frozen=True)
class CandidateQuestions:
    """Candidate questions, each about one or two items.

    Attributes
    ----------
    items
        The items of every question.
    outcomes
        Probabilities of the possible truths.
    channels
        Function that returns ``p(answer | outcome)`` of every worker, with rates that it draws anew
        from their posteriors.
    share
        Information of an answer, as a share of the entropy of its items (``information_share``).
    is_asked
        Function of workers' codes and a question's index: whether they were asked this question.
    teaching
        The information about other items.
    allowed
        Which worker may be asked which question; None: no restriction.
    of_workers
        The information about other items that is had through the workers' rates; None: not counted.
    """

    items: Int[np.ndarray, "question part"]
    outcomes: Float[np.ndarray, "question outcome"]
    channels: Callable[[], Float[np.ndarray, "worker outcome label"]]
    share: Float[np.ndarray, " question"]
    is_asked: Callable[[Int[np.ndarray, " worker"], int], Bool[np.ndarray, " worker"]]
    teaching: Teaching
    allowed: Bool[np.ndarray, "question worker"] | None = None
    of_workers: WorkerTeaching | None = None


@dataclass(frozen=True)
class ChosenQuestion:
    """A question, whom to ask, and the expected gain in nats."""

    question: int
    worker: int | None
    gain: float


def choose(situation: Situation, questions: CandidateQuestions, count: int) -> list[ChosenQuestion]:
    """Choose questions greedily; information of those already chosen is not counted again.

    A question is chosen again, for another worker, only once no other is left.
    """
    beliefs, crowd = situation.beliefs, situation.crowd
    items, place = np.unique(questions.items, return_inverse=True)
    place = place.reshape(questions.items.shape)
    share, own = questions.share, beliefs.own(items)
    is_open, is_chosen = np.ones(len(place), dtype=bool), np.zeros(len(place), dtype=bool)
    remaining, loads = np.ones(len(items)), crowd.loads.copy()
    whom = _WhomToAnswer(situation, questions, count)
    chosen: list[ChosenQuestion] = []
    workers_of: defaultdict[int, list[int]] = defaultdict(list)
    while len(chosen) < count:
        if not is_open.any():
            is_open, is_chosen = is_chosen, np.zeros_like(is_chosen)
        gain = share * (remaining * own)[place].sum(1)
        gain = gain + questions.teaching.values()
        if questions.of_workers is not None:
            gain = gain + questions.of_workers.values()
        prospects = Prospects(gain, questions.outcomes)
        scores = situation.criterion.scores(prospects, situation.generator)
        best = situation.best(scores, is_open)
        if best is None:
            break
        is_open[best] = False
        able = (loads >= 1) & ~questions.is_asked(crowd.codes, best)
        able[workers_of[best]] = False
        if questions.allowed is not None:
            able &= questions.allowed[best]
        worker = whom.best(best, able)
        if worker is not None:
            loads[worker] -= 1
            workers_of[best].append(worker)
            is_chosen[best] = True
            if questions.of_workers is not None:
                questions.of_workers.expect(best, worker)
        elif len(crowd.ids):
            continue  # all workers who may be asked were asked before
        chosen.append(ChosenQuestion(best, worker, float(gain[best])))
        remaining[place[best]] *= max(1 - float(share[best]), 0.0)
        questions.teaching.expect(best)
    return chosen


def information_share(
    beliefs: Beliefs,
    items: Int[np.ndarray, "question part"],
    outcomes: Float[np.ndarray, "question outcome"],
    channel: Float[np.ndarray, "outcome label"],
) -> Float[np.ndarray, " question"]:
    """``I(L; o) / sum_i H(z_i)``: information of an answer over the entropy of its items.

    The answer is that of a worker with this ``channel``.
    """
    involved = beliefs.entropies[items].sum(1) + _TINY
    return channel_information(outcomes, channel) / involved


class _WhomToAnswer:
    """The worker whose answer to a question has the largest score for its price."""

    def __init__(self, situation: Situation, questions: CandidateQuestions, count: int) -> None:
        self._questions, self._whom = questions, Whom(situation, count)
        self._channels = drawn(questions.channels)
        self._entropies = entropy(self._channels)

    def best(self, question: int, able: Bool[np.ndarray, " worker"]) -> int | None:
        """The worker to ask; None if nobody is able."""
        outcomes, of_workers = self._questions.outcomes[[question]], self._questions.of_workers
        # ``channel_information`` of every draw and worker.
        information = entropy(outcomes[0] @ self._channels) - self._entropies @ outcomes[0]
        if of_workers is not None:
            information = information + of_workers.of_workers(question)
        return self._whom.best(information, outcomes, able)
