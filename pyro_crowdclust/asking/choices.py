"""Questions chosen one after the other, each with the worker to ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.criteria import Prospects
from pyro_crowdclust.asking.information import channel_information
from pyro_crowdclust.asking.situation import Situation
from pyro_crowdclust.asking.teaching import Teaching

_TINY = 1e-3


@dataclass(frozen=True)
class Questions:
    """Candidates about one item each, or two.

    Attributes
    ----------
    items
        What each is about.
    outcomes
        Probabilities of what is true.
    channels
        ``p(answer | outcome)`` of every worker, by rates that are drawn from their posteriors.
    share
        What an answer tells of its items, as a share of what there is to know (``told_share``).
    is_asked
        Whether each worker, by the codes, was asked the question with this number.
    teaching
        What they tell of other items.
    allowed
        Who may be asked what; None: everybody everything.
    """

    items: Int[np.ndarray, "question part"]
    outcomes: Float[np.ndarray, "question outcome"]
    channels: Float[np.ndarray, "worker outcome label"]
    share: Float[np.ndarray, " question"]
    is_asked: Callable[[Int[np.ndarray, " worker"], int], Bool[np.ndarray, " worker"]]
    teaching: Teaching
    allowed: Bool[np.ndarray, "question worker"] | None = None


@dataclass(frozen=True)
class ChosenQuestion:
    """A question, whom to ask, and the expected gain in nats."""

    question: int
    worker: int | None
    gain: float


def choose(situation: Situation, questions: Questions, count: int) -> list[ChosenQuestion]:
    """So many questions, greedily; what the batch is to tell already is not counted again."""
    beliefs, crowd = situation.beliefs, situation.crowd
    items, place = np.unique(questions.items, return_inverse=True)
    place = place.reshape(questions.items.shape)
    share, own = questions.share, beliefs.own(items)
    is_open = np.ones(len(place), dtype=bool)
    remaining, loads = np.ones(len(items)), crowd.loads.copy()
    chosen: list[ChosenQuestion] = []
    while len(chosen) < count:
        gain = share * (remaining * own)[place].sum(1)
        gain = gain + questions.teaching.values()
        prospects = Prospects(gain, questions.outcomes)
        worth = situation.criterion.worth(prospects, situation.generator)
        best = situation.best(worth, is_open)
        if best is None:
            break
        is_open[best] = False
        able = (loads >= 1) & ~questions.is_asked(crowd.codes, best)
        if questions.allowed is not None:
            able &= questions.allowed[best]
        worker = _worker(situation, questions, best, able)
        if worker is not None:
            loads[worker] -= 1
        elif len(crowd.ids):
            continue  # nobody is left who was not asked
        chosen.append(ChosenQuestion(best, worker, float(gain[best])))
        remaining[place[best]] *= max(1 - float(share[best]), 0.0)
        questions.teaching.expect(best)
    return chosen


def told_share(
    beliefs: Beliefs,
    items: Int[np.ndarray, "question part"],
    outcomes: Float[np.ndarray, "question outcome"],
    channel: Float[np.ndarray, "outcome label"],
) -> Float[np.ndarray, " question"]:
    """``I(L; o) / sum_i H(z_i)``: information of an answer over what there is to know of its items.

    The answer is that of a worker of whom no more is known than ``channel``.
    """
    involved = beliefs.entropies[items].sum(1) + _TINY
    return channel_information(outcomes, channel) / involved


def _worker(
    situation: Situation, questions: Questions, best: int, able: Bool[np.ndarray, " worker"]
) -> int | None:
    """Whose answer to a question is worth most for its price."""
    crowd, outcomes = situation.crowd, questions.outcomes[best : best + 1]
    worth = np.full(len(able), -np.inf)
    for worker in np.flatnonzero(able):
        information = channel_information(outcomes, questions.channels[worker])
        prospects = Prospects(information, outcomes, crowd.pseudo_counts(int(worker)))
        worth[worker] = situation.criterion.worth(prospects, situation.generator)[0]
    return situation.best(worth / crowd.prices, able)
