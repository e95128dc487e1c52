"""Draws of the workers' confusion matrices, and of the classes of items that follow from each."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from pyro_crowdclust.asking.situation import Situation
from pyro_crowdclust.families import SMALLEST_PROBABILITY


class DrawnMatrices:
    """Draws of all confusion matrices gamma, from their posteriors.

        p(z_i = c | draw) ~ q(z_i = c) prod_(labels l of i by j) gamma_jcl / E[gamma_jcl]

    Parameters
    ----------
    situation
        Beliefs, the workers, and their labels so far.
    num_draws
        Number of draws.

    Attributes
    ----------
    matrices, askable
        Draws for the workers who have answered, and for those who can be asked.
    """

    def __init__(self, situation: Situation, num_draws: int) -> None:
        crowd, everybody, self._rng = situation.crowd, situation.everybody, situation.generator
        self._q = situation.beliefs.probabilities
        number = self._q.shape[1]
        self.matrices, self.askable = (
            np.stack([one.label_channels(one.draw(self._rng), number) for _ in range(num_draws)])
            for one in (everybody.rates, crowd.rates)
        )
        known = crowd.codes >= 0
        self.askable[:, known] = self.matrices[:, crowd.codes[known]]
        self._mean, self._mean_askable = (one.label_channels(number) for one in (everybody, crowd))
        self._labels = situation.asked.labels
        self._label_weights = situation.asked.label_weights

    def labels(
        self, items: Int[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, "draw chosen worker label"]:
        """``p(L) = sum_c p(z_i = c) gamma_jc`` of the label by each worker who can be asked."""
        return np.einsum("ric,rjcl->rijl", self.classes(items), self.askable, optimize=True)

    def classes(self, items: Int[np.ndarray, " chosen"]) -> Float[np.ndarray, "draw chosen class"]:
        """``p(z_i = c)`` of items, given their labels."""
        return _shares(self._log_odds(items))

    def classes_to_come(
        self, items: Int[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, "draw chosen class"]:
        """``classes``, where every item without a label is given one that is likely to come.

        It is by the worker who can be asked and is best in one of the draws.
        """
        log_odds = self._log_odds(items)
        bare = np.flatnonzero(~np.isin(items, self._labels[0]))
        right = np.diagonal(self.askable, axis1=2, axis2=3).mean(-1)
        worker = self._rng.choice(right.argmax(1), len(bare))
        mean = self._mean_askable[worker]
        share = np.einsum("ic,icl->il", self._q[items[bare]], mean).cumsum(1)
        label = (self._rng.random((len(bare), 1)) * share[:, -1:] >= share[:, :-1]).sum(1)
        log_odds[bare] += _log(self.askable[:, worker, :, label])
        return _shares(log_odds)

    def _log_odds(
        self, items: Int[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, "chosen draw class"]:
        """Logarithms of ``q prod gamma / E[gamma]``, weighted where workers repeat themselves."""
        place = np.full(len(self._q), -1)
        place[items] = np.arange(len(items))
        used = place[self._labels[0]] >= 0
        item, worker, label = (part[used] for part in self._labels)
        ratio = (
            _log(self.matrices[:, worker, :, label]) - _log(self._mean[worker, :, label])[:, None]
        )
        found = np.repeat(_log(self._q[items])[:, None], len(self.matrices), axis=1)
        np.add.at(found, place[item], self._label_weights[used, None, None] * ratio)
        return found


def _log(shares: Float[np.ndarray, "*batch class"]) -> Float[np.ndarray, "*batch class"]:
    return np.log(np.maximum(shares, SMALLEST_PROBABILITY))


def _shares(
    log_odds: Float[np.ndarray, "chosen draw class"],
) -> Float[np.ndarray, "draw chosen class"]:
    p = np.exp(log_odds - log_odds.max(-1, keepdims=True))
    return np.moveaxis(p / p.sum(-1, keepdims=True), 1, 0)
