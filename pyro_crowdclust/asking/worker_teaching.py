"""Information of a label about other items, since it shows how good the workers are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.asking.drawn_matrices import DrawnMatrices
from pyro_crowdclust.asking.situation import Situation
from pyro_crowdclust.families import SMALLEST_PROBABILITY

# Draws of all confusion matrices, where these have at most so many entries. In larger crowds a
# label tells little about most workers, and nothing is added.
_DRAWS, _MAX_ENTRIES = 100, 100_000
# Items that labels tell about, and probabilities of labels that can be asked for, in every draw.
_MAX_ITEMS, _MAX_LABELS = 1000, 4000
# Directions in which the draws differ by a smaller share of the largest variance are left out.
_NEGLIGIBLE = 1e-3


class WorkerTeaching:
    """Information of labels about the classes of other items, through the rates of workers.

        V(L) = sum_i w_i / 2 sum_(l, c) cov[p(L = l), p(z_i = c)]^2 / (E[p(L = l)] E[p(z_i = c)])

    over draws of the rates, given which L and z_i are independent. This is ``sum_i w_i I(z_i; L)``
    up to third order, less what so many draws show by chance. For a batch, the covariances are
    those of what is left after the best linear prediction from the labels that are already chosen.

    Parameters
    ----------
    classes
        ``p(z_i = c)`` in every draw.
    weights
        w_i.
    labels
        ``p(L = l)`` in every draw, of every worker's label of some questions.
    questions
        Which questions these are; the other ones have the value 0.
    askable
        Whether a worker can be asked a question.
    """

    def __init__(
        self,
        classes: Float[np.ndarray, "draw item class"],
        weights: Float[np.ndarray, " item"],
        labels: Float[np.ndarray, "draw chosen worker label"],
        questions: Int[np.ndarray, " chosen"],
        askable: Bool[np.ndarray, "question worker"],
    ) -> None:
        draws = len(classes)
        told = _standardized(classes) * np.sqrt(weights)[:, None]
        told = told.reshape(draws, -1)
        variance, directions = np.linalg.eigh(told @ told.T / draws)
        kept = variance > _NEGLIGIBLE * variance[-1]
        self._told = directions[:, kept] * np.sqrt(variance[kept] / draws)
        self._chance = (told**2).sum() / draws**2
        self._labels = _standardized(labels)
        self._left = self._labels
        self._questions, self._askable = questions, askable.copy()
        self._values = np.zeros(askable.shape)
        self._evaluate()

    @classmethod
    def of(
        cls,
        situation: Situation,
        items: Int[np.ndarray, " question"],
        allowed: Bool[np.ndarray, "question worker"] | None,
    ) -> WorkerTeaching | None:
        """For questions about items; None if no worker can be learned about.

        Items that have no label count as if the next one had come: it will be read by the same
        rates.
        """
        crowd, beliefs, rng = situation.crowd, situation.beliefs, situation.generator
        number = beliefs.probabilities.shape[1]
        per_question = len(crowd.ids) * number
        many = (len(crowd.ids) + len(situation.everybody.ids)) * number**2 > _MAX_ENTRIES
        if many or not len(crowd.ids) or not len(situation.asked.labels[0]):
            return None
        drawn = DrawnMatrices(situation, _DRAWS)
        wanted = np.flatnonzero(beliefs.wanted > 0)
        others = _some(wanted, _MAX_ITEMS, rng)
        questions = _some(np.arange(len(items)), max(_MAX_LABELS // per_question, 1), rng)
        askable = ~situation.asked.to_label(*np.broadcast_arrays(crowd.codes, items[:, None]))
        return cls(
            drawn.classes_to_come(others),
            beliefs.wanted[others] * len(wanted) / max(len(others), 1),
            drawn.labels(items[questions]),
            questions,
            askable if allowed is None else askable & allowed,
        )

    def values(self) -> Float[np.ndarray, " question"]:
        """V of every question, to the worker whose label tells most."""
        return self._values.max(1, initial=0.0)

    def of_workers(self, question: int) -> Float[np.ndarray, " worker"]:
        """V of every worker's label."""
        return self._values[question]

    def expect(self, question: int, worker: int) -> None:
        """Reduce V of all labels, given this one."""
        self._askable[question, worker] = False
        place = np.flatnonzero(self._questions == question)
        if len(place):
            label, left = (part[:, place[0], worker] for part in (self._labels, self._left))
            shared = np.tensordot(label, self._left, (0, 0)) / len(label)
            self._left = self._left - np.tensordot(left, shared, 1)
            self._evaluate()

    def _evaluate(self) -> None:
        told = np.tensordot(self._told, self._left, (0, 0))
        chance = self._chance * (self._labels * self._left).mean(0).sum(-1)
        values = np.maximum((told**2).sum((0, -1)) - chance, 0.0) / 2
        self._values[self._questions] = np.where(self._askable[self._questions], values, 0.0)


def _some(
    places: Int[np.ndarray, " place"], most: int, rng: np.random.Generator
) -> Int[np.ndarray, " chosen"]:
    """All places, or so many of them."""
    return places if len(places) <= most else np.sort(rng.choice(places, most, replace=False))


def _standardized(
    drawn: Float[np.ndarray, " draw *value"],
) -> Float[np.ndarray, " draw *value"]:
    """Deviations from the mean over all draws, over the root of the mean."""
    mean = drawn.mean(0)
    return (drawn - mean) / np.sqrt(np.maximum(mean, SMALLEST_PROBABILITY))
