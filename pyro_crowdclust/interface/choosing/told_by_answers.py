"""Whether answers tell each other what the clusters of the features do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.data.some_items import some_items, without_features
from pyro_crowdclust.guides import DrawnStart, drawn_groups, drawn_partitions
from pyro_crowdclust.interface.choosing.held_out_pairs import Split, splits_of_pairs
from pyro_crowdclust.interface.choosing.trials import dyadic_error, gain_by_a_part, is_clear
from pyro_crowdclust.training.isolation import generator_of

# Of guesses most parts need not be seen: so many have to show something.
_FIRST_PARTS = 3


class Draws:
    """Partitions by the answers alone, drawn once for the same data.

    Parameters
    ----------
    max_clusters
        How many clusters there may be.
    seed
        Of the draws.
    """

    def __init__(self, max_clusters: int, seed: int) -> None:
        self.max_clusters, self.seed = max_clusters, seed
        self._found: list[tuple[CrowdData, DrawnStart]] = []

    def start_of(self, data: CrowdData) -> DrawnStart:
        """Where regressions on any number of clusters of some data begin."""
        for known, start in self._found:
            if known is data:
                return start
        start = DrawnStart(drawn_groups(data, self.max_clusters, seed=self.seed))
        self._found.append((data, start))
        return start


def clusters_told(
    data: CrowdData,
    draws: Draws,
    by_features: Callable[[CrowdData], Fitted] | None,
) -> int | None:
    """The number of clusters of the answers alone, if these predict answers; else None.

    What is held out are answers about pairs of which both items have others. Draws of a partition
    must predict them clearly better than chance does, and than the clusters of the features do,
    whose items the answers have moved: these know something of other items, if not clearly.

    Parameters
    ----------
    data
        Items and answers.
    draws
        Of partitions by the answers.
    by_features
        Hears the answers beside the clusters of the features; None where these show one.
    """
    splits = splits_of_pairs(data, generator_of(draws.seed))
    number = int(draws.start_of(data).groups.max()) + 1 if splits else 0
    if number < 2:
        return None
    found, heard, chance = (np.empty(0) for _ in range(3))
    for place, one in enumerate(splits, 1):
        found = np.append(found, _by_draws(one, draws.seed))
        if by_features is not None:
            heard = np.append(heard, one.log_probability(by_features(one.data)))
        chance = np.append(chance, one.by_chance)
        gain = gain_by_a_part(found, chance)
        ends = torch.cat([one.ends for one in splits[:place]], 1).numpy()
        if place == _FIRST_PARTS and gain.mean() < dyadic_error(gain, ends):
            return None
    if not is_clear(gain, ends, 1):
        return None
    return number if by_features is None or is_clear(found - heard, ends, 1) else None


def _by_draws(one: Split, seed: int) -> Float[np.ndarray, " pair"]:
    """Log-probability of what is held out, by partitions of the items that were asked about."""
    kept, held_out = one.data.answers, one.held_out
    assert kept is not None  # some are kept in
    items, place = torch.cat([kept.left, kept.right, *one.ends]).unique(return_inverse=True)
    drawn = drawn_partitions(some_items(without_features(one.data), items), seed=seed)
    ends = place[2 * kept.num_pairs :].reshape(2, -1).mT
    return drawn.guide.log_answer_probabilities(
        drawn.data, ends, held_out.worker, held_out.label
    ).numpy()
