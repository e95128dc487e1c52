"""Finds two workers who make the same mistakes about pairs, and whose answers confirm each other.

Two workers j, k may see other clusters than the crowd: the same ones (``partitions.two_views``).
Compared are predictions of the held-out answers of all *other* workers,

- d_n: by a view of j and k besides that of the others, less by one view of all; and
- the same, less by a view of j alone, or of k alone.

If errors are independent, the answers of j and k are evidence for what the others see, and without
it the others are predicted no better: d is 0 or less. If j and k make the same mistakes, these are
taken for the truth by one view of all. The mean gain over one view must exceed
``Phi^-1(1 - .05 / C)`` standard errors for C pairs of workers, and those over views of either one
1.6; errors allow for answers that share items.

Nobody can tell from answers who of two groups is right. The view of the others is taken for the
truth, as they are more workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import Answers
from pyro_crowdclust.errors import show
from pyro_crowdclust.interface.about_data import is_supervised
from pyro_crowdclust.partitions.two_views import SeenPairs, draw_views
from pyro_crowdclust.pooling.comparison import critical_value, dyadic_error

# Only workers with many answers can take over a fit: pairs of the four who gave most, with at least
# this share of all answers together, and this many each. At least two others must be left.
_MOST, _MIN_SHARE, _MIN_ANSWERS, _MIN_WORKERS = 4, 0.25, 20, 4
# With more items or answers, draws take long.
_MAX_ITEMS, _MAX_ANSWERS = 1000, 10_000
_FOLDS, _CHAINS, _REPEATS = 4, 2, 4
# Runs with all answers, the likeliest of which says what the two workers see.
_RUNS = 6
# Pairs of workers whose gain is below this many standard errors at first are not looked at again.
_HOPEFUL = 1.0
# Pseudo-counts of a worker's right and wrong answers.
_PRIOR = 1.5, 1.0


@dataclass(frozen=True)
class SharedMistakes:
    """Two workers, as codes, who see the same clusters, which are not those of the others.

    Attributes
    ----------
    workers
        Their codes.
    gain
        By how much the others' held-out answers are likelier with a view of their own, in nats.
    errors
        The same in standard errors.
    is_apart
        Their answers about pairs of which the others see something else.
    """

    workers: tuple[int, int]
    gain: float
    errors: float
    is_apart: Bool[np.ndarray, " pair"]

    def sentence(self, data: CrowdData) -> str:
        """What was found, in words."""
        answers = data.needed_answers
        one, other = (show(data.worker_ids[code]) for code in self.workers)
        number = int(np.isin(answers.worker.numpy(), self.workers).sum())
        return (
            f"workers {one} and {other}, who gave {number} of {answers.num_pairs} answers, make "
            "the same mistakes, so that they confirm each other: if they have a view of their own, "
            f"held-out answers of the others are likelier by {self.gain:.2f} nats each "
            f"({self.errors:.1f} standard errors), and {int(self.is_apart.sum())} answers of the "
            "two are about pairs of which the others see the opposite"
        )

    def left_out_of(self, data: CrowdData) -> CrowdData:
        """The data without the answers about pairs of which the others see the opposite."""
        return data.without_pairs(self.rows_of(data))

    def rows_of(self, data: CrowdData) -> Bool[Tensor, " row"]:
        """The rows of ``data.pairs`` with these answers, or with others to the same questions.

        Of several answers of a worker about a pair, others may count in an update.
        """
        answers = data.all_answers
        assert answers is not None  # as they have mistakes
        asked = torch.cat([answers.items.sort(dim=1).values, answers.worker[:, None]], 1)
        question = torch.unique(asked, dim=0, return_inverse=True)[1]
        is_apart = torch.from_numpy(self.is_apart)
        return torch.isin(question, question[data.counted_rows[is_apart]])


def find_shared_mistakes(data: CrowdData, seed: int = 0) -> SharedMistakes | None:
    """The two workers whose shared mistakes are clearest; None if there are none.

    Parameters
    ----------
    data
        Items with answers "same" or "different" about pairs.
    seed
        Seed of the draws and of what is held out.

    Returns
    -------
    None also where this is not tested: without such answers, with labels or links, with fewer than
    four workers, if no two workers gave a quarter of the answers, or for more than 1,000 items or
    10,000 answers.
    """
    if not _can_be_tested(data):
        return None
    pairs = _seen_pairs(data.needed_answers)
    couples = _couples(pairs.worker)
    if not couples:
        return None
    first = _gains(pairs, couples, 1, seed)
    at_first = [
        min(_in_errors(one, pairs, couple)) for one, couple in zip(first, couples, strict=True)
    ]
    best = int(np.argmax(at_first))
    if at_first[best] < _HOPEFUL:
        return None
    couple = couples[best]
    (gains,) = _gains(pairs, [couple], _REPEATS, seed + 1)
    over_one, *over_singles = _in_errors(gains, pairs, couple)
    is_clear = over_one > critical_value(len(couples)) and min(over_singles) > critical_value(1)
    if not is_clear or gains[0].mean() <= 0:
        return None
    others = ~np.isin(pairs.worker, couple)
    gain, is_apart = float(gains[0, others].mean()), _apart(pairs, couple, seed)
    return SharedMistakes(couple, gain, over_one, is_apart)


def _can_be_tested(data: CrowdData) -> bool:
    answers = data.answers
    if answers is None or is_supervised(data) or len(data.grade_ids):
        return False
    is_small = len(answers.items.unique()) <= _MAX_ITEMS and answers.num_pairs <= _MAX_ANSWERS
    return is_small and answers.num_pairs >= _MIN_ANSWERS


def _seen_pairs(answers: Answers) -> SeenPairs:
    """These answers, with the items that they are about numbered from 0."""
    place = torch.unique(answers.items, return_inverse=True)[1].numpy()
    return SeenPairs(place[:, 0], place[:, 1], answers.worker.numpy(), answers.label.numpy() > 0.5)


def _couples(worker: Int[np.ndarray, " answer"]) -> list[tuple[int, int]]:
    """The pairs of workers who might take over a fit."""
    number = np.bincount(worker)
    if (number > 0).sum() < _MIN_WORKERS:
        return []
    most = [int(one) for one in np.argsort(-number, kind="stable")[:_MOST]]
    most = [one for one in most if number[one] >= _MIN_ANSWERS]
    least = _MIN_SHARE * len(worker)
    return [couple for couple in combinations(most, 2) if number[[*couple]].sum() >= least]


def _gains(
    pairs: SeenPairs, couples: Sequence[tuple[int, int]], repeats: int, seed: int
) -> list[Float[np.ndarray, "other answer"]]:
    """For every couple, the gains over one view of all, and over views of either one alone.

    Each is a mean over repeats, with other parts of the answers held out. In every repeat and part
    the likeliest of several runs counts.
    """
    groups = sorted({(one,) for couple in couples for one in couple}) + list(couples)
    folds = _folds(pairs, repeats, seed)
    number = len(pairs.worker)
    # With a view of their own, and with one view of all from the same beginnings.
    shape = 2, len(groups), _CHAINS, repeats, _FOLDS
    of_group = np.array([np.isin(pairs.worker, one) for one in groups])
    is_of_few = np.broadcast_to(of_group[:, None, None, None], (*shape, number))
    in_fit = np.broadcast_to(folds[:, None] != np.arange(_FOLDS)[:, None], (*shape, number))
    is_of_few, in_fit = is_of_few.reshape(-1, number), in_fit.reshape(-1, number)
    sees_own = np.arange(len(in_fit)) < len(in_fit) // 2
    drawn = draw_views(pairs, is_of_few, in_fit, sees_own, seed)
    log_p = _log_probability(pairs, drawn.same, in_fit).reshape(*shape, number)
    score = drawn.score.reshape(shape)
    runs = -1, repeats, _FOLDS
    one_view = _of_likeliest(score[1].reshape(runs), log_p[1].reshape(*runs, number), folds)
    own = {
        group: _of_likeliest(score[0, place], log_p[0, place], folds)
        for place, group in enumerate(groups)
    }
    return [
        np.stack([own[couple] - other for other in (one_view, *(own[(one,)] for one in couple))])
        for couple in couples
    ]


def _folds(pairs: SeenPairs, repeats: int, seed: int) -> Int[np.ndarray, "repeat answer"]:
    """Parts of the pairs of items that are held out together."""
    ends = np.sort(np.stack([pairs.left, pairs.right]), 0)
    of_answer = np.unique(ends, axis=1, return_inverse=True)[1].ravel()
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(of_answer.max() + 1) for _ in range(repeats)]
    return np.stack(orders)[:, of_answer] % _FOLDS


def _of_likeliest(
    score: Float[np.ndarray, "run repeat fold"],
    log_p: Float[np.ndarray, "run repeat fold answer"],
    folds: Int[np.ndarray, "repeat answer"],
) -> Float[np.ndarray, " answer"]:
    """Log-probability of every answer where it is held out, a mean over repeats."""
    repeat, answer = np.indices(folds.shape)
    return log_p[score.argmax(0)[repeat, folds], repeat, folds, answer].mean(0)


def _log_probability(
    pairs: SeenPairs,
    same: Float[np.ndarray, "run answer"],
    in_fit: Bool[np.ndarray, "run answer"],
) -> Float[np.ndarray, "run answer"]:
    """``log p(L)`` of all answers, with rates that are estimated from those in the fit."""
    right, wrong = _PRIOR
    said, known = pairs.label, 1.0 * in_fit
    together, apart = pairs.counts(known * same), pairs.counts(known * (1 - same))
    sensitivity = (pairs.counts(known * same * said) + right) / (together + right + wrong)
    specificity = (pairs.counts(known * (1 - same) * ~said) + right) / (apart + right + wrong)
    # No pair is certain, as draws are few.
    same = same.clip(0.01, 0.99)
    says_same = same * sensitivity[:, pairs.worker]
    says_same += (1 - same) * (1 - specificity[:, pairs.worker])
    return np.log(np.where(said, says_same, 1 - says_same))


def _in_errors(
    gains: Float[np.ndarray, "other answer"], pairs: SeenPairs, couple: tuple[int, int]
) -> list[float]:
    """The mean gains for the answers of other workers, in standard errors."""
    others = ~np.isin(pairs.worker, couple)
    ends = np.stack([pairs.left, pairs.right])[:, others]
    found = gains[:, others]
    # Where no run sees anything else, gains and errors are zero.
    return [float(one.mean() / dyadic_error(one, ends)) if one.any() else 0.0 for one in found]


def _apart(pairs: SeenPairs, couple: tuple[int, int], seed: int) -> Bool[np.ndarray, " answer"]:
    """The couple's answers about pairs of which the others see something else."""
    is_of_few = np.tile(np.isin(pairs.worker, couple), (_RUNS, 1))
    every = np.ones((_RUNS, len(pairs.worker)), dtype=bool)
    drawn = draw_views(pairs, is_of_few, every, every[:, 0], seed)
    return is_of_few[0] & (drawn.alike[drawn.score.argmax()] < 0.5)
