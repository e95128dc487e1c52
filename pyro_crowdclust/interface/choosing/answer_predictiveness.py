"""Tests whether answers predict each other, and better than the clusters of the features do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data import some_items, without_features
from pyro_crowdclust.guides import DrawnStart, drawn_groups, drawn_partitions
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.interface.answers_alone.partition_search import TRIAL_EPOCHS
from pyro_crowdclust.interface.holding_out.pairs import PairSplit, ends_of, splits_of_pairs
from pyro_crowdclust.pooling.comparison import dyadic_error, gain_by_a_part, is_clear
from pyro_crowdclust.training import uninterrupted
from pyro_crowdclust.training.isolation import generator_of

# Answers that are guesses are recognized after this many parts; the others are then skipped.
_FIRST_PARTS = 3
# Each part may have this few answers if all parts are used together; with fewer, about few items,
# guesses predict each other by chance.
_MIN_ANSWERS = 10


class Draws:
    """Draws of partitions from the answers alone, made once for the same answers.

    Parameters
    ----------
    max_clusters
        Largest number of clusters.
    seed
        Seed of the draws.
    """

    def __init__(self, max_clusters: int, seed: int) -> None:
        self.max_clusters, self.seed = max_clusters, seed
        self._drawn: list[Fitted] = []
        self._found: list[tuple[CrowdData, DrawnStart]] = []

    def partitions_of(self, data: CrowdData) -> Fitted:
        """A short fit of partitions (``drawn_partitions``) to data without features."""
        for known in self._drawn:
            if _have_same_answers(known.data, data):
                return known
        drawn = drawn_partitions(data, seed=self.seed)
        self._drawn.append(drawn)
        return drawn

    def start_of(self, data: CrowdData) -> DrawnStart:
        """The start of regressions with any number of clusters, for some data."""
        for known, start in self._found:
            if known is data:
                return start
        draw = self.partitions_of
        start = DrawnStart(drawn_groups(data, self.max_clusters, seed=self.seed, draw=draw))
        self._found.append((data, start))
        return start


def _have_same_answers(one: CrowdData, other: CrowdData) -> bool:
    """Whether two data have as many items, and the same answers about pairs of them."""
    if one.num_items != other.num_items:
        return False
    first, second = one.needed_answers, other.needed_answers
    parts = "left", "right", "worker", "label"
    return all(torch.equal(getattr(first, part), getattr(second, part)) for part in parts)


def clusters_supported_by_answers(
    data: CrowdData,
    draws: Draws,
    by_features: Callable[[CrowdData], Fitted] | None,
) -> int | None:
    """The number of clusters in the answers alone, if partitions predict answers; else None.

    Held out are answers about pairs whose items both have other answers. Drawn partitions must
    predict them clearly better than chance, and clearly better than the clusters of the features
    with items moved by answers: the latter may know something about other items, too. The search
    ends after the first parts in which the draws do not.

    Parameters
    ----------
    data
        Items and answers.
    draws
        Draws of partitions from the answers.
    by_features
        Clusters of the features, with the answers of some data; None if they need not be compared.
    """
    splits = splits_of_pairs(data, generator_of(draws.seed))
    number = int(draws.start_of(data).groups.max()) + 1 if splits else 0
    if number < 2:
        return None
    advantage = np.empty(0)
    for place, (by_draws, gain, ends) in enumerate(_by_parts(splits, draws.partitions_of), 1):
        if place == _FIRST_PARTS and _is_hopeless(gain, ends):
            return None
        if by_features is not None:
            part = splits[place - 1]
            advantage = np.append(
                advantage, by_draws - part.log_probability(by_features(part.data))
            )
            if advantage.mean() < 0 or (place == _FIRST_PARTS and _is_hopeless(advantage, ends)):
                return None
    needed = [gain] if by_features is None else [gain, advantage]
    return number if all(is_clear(one, ends, 1) for one in needed) else None


def answers_predict_each_other(data: CrowdData, seed: int) -> bool:
    """Whether partitions drawn from the answers alone predict others clearly better than chance.

    Answers are held out as in ``clusters_supported_by_answers``, also if there are few. The test is
    made after the first parts, and after all of them.

    Parameters
    ----------
    data
        Items and answers.
    seed
        Seed of the splits and of the draws.
    """
    splits = splits_of_pairs(data, generator_of(seed), least=_MIN_ANSWERS)
    looks = _FIRST_PARTS, len(splits)
    draw = partial(drawn_partitions, seed=seed)
    for place, (_, gain, ends) in enumerate(_by_parts(splits, draw), 1):
        if place in looks and is_clear(gain, ends, len(looks)):
            return True
        if place == _FIRST_PARTS and _is_hopeless(gain, ends):
            return False
    return False


def _by_parts(
    splits: Sequence[PairSplit], draw: Callable[[CrowdData], Fitted]
) -> Iterator[
    tuple[Float[np.ndarray, " held_out"], Float[np.ndarray, " pair"], Int[np.ndarray, "2 pair"]]
]:
    """For every part, its log-probabilities by draws, and gains and pairs of all parts so far."""
    gains = []
    for place, one in enumerate(splits, 1):
        found = _by_draws(one, draw)
        gains.append(gain_by_a_part(found, one.by_chance))
        yield found, np.concatenate(gains), ends_of(splits[:place])


def _is_hopeless(gain: Float[np.ndarray, " pair"], ends: Int[np.ndarray, "2 pair"]) -> bool:
    """Whether the gain is so small that other parts need not be tried."""
    return gain.mean() < dyadic_error(gain, ends)


def partition_predicts_best(
    data: CrowdData, seed: int, by_features: Callable[[CrowdData], Fitted]
) -> bool:
    """Whether a partition into clusters of any number and size predicts answers best.

    In it features only measure how similar two items are, and nearest neighbours may share a
    cluster. Answers are held out as in ``clusters_supported_by_answers``. One part selects the
    prior of the cluster sizes; on the others the partition must be clearly better than chance, and
    than the clusters of the features.

    Parameters
    ----------
    data
        Items with features, and answers about pairs.
    seed
        Seed of the splits and of the fits.
    by_features
        Fits clusters of the features to data with a part of the answers.
    """
    splits = splits_of_pairs(data, generator_of(seed))
    if len(splits) < 2:
        return False
    first, *others = splits
    of_features = first.log_probability(by_features(first.data)).mean()
    under = {prior: _by_partition(first, prior, seed).mean() for prior in PairsAlone.priors}
    prior = max(under, key=lambda prior: under[prior])
    if under[prior] <= of_features:
        return False
    found = np.concatenate([_by_partition(one, prior, seed) for one in others])
    scores_of_features = np.concatenate(
        [one.log_probability(by_features(one.data)) for one in others]
    )
    chance = np.concatenate([one.by_chance for one in others])
    ends = ends_of(others)
    return is_clear(gain_by_a_part(found, chance), ends, 1) and is_clear(
        found - scores_of_features, ends, 1
    )


def _by_draws(one: PairSplit, draw: Callable[[CrowdData], Fitted]) -> Float[np.ndarray, " pair"]:
    """Log-probability of the held-out answers, by drawn partitions into few clusters."""
    data, ends = _asked_about(one)
    return _log_probability(draw(without_features(data)), one, ends)


def _by_partition(one: PairSplit, prior: str, seed: int) -> Float[np.ndarray, " pair"]:
    """The same by partitions in which features measure how similar two items are."""
    data, ends = _asked_about(one)
    answers = PairsAlone(data, near_items=True).about(data).for_trials()
    recipe = answers.recipe(answers.priors[prior]())
    fitted = uninterrupted(recipe.fit(seed=seed, epochs=TRIAL_EPOCHS, progress=False))
    return _log_probability(fitted, one, ends)


def _asked_about(one: PairSplit) -> tuple[CrowdData, Int[Tensor, "pair 2"]]:
    """The data of all items with answers, and positions of the items of held-out answers there."""
    kept = one.data.needed_answers
    items, place = torch.cat([kept.left, kept.right, *one.ends]).unique(return_inverse=True)
    return some_items(one.data, items), place[2 * kept.num_pairs :].reshape(2, -1).mT


def _log_probability(
    drawn: Fitted, one: PairSplit, ends: Int[Tensor, "pair 2"]
) -> Float[np.ndarray, " pair"]:
    held_out, guide = one.held_out, drawn.guide
    return guide.log_answer_probabilities(drawn.data, ends, held_out.worker, held_out.label).numpy()
