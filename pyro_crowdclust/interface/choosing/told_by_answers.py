"""Whether answers tell each other what the clusters of the features do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides.drawn_groups import drawn_groups
from pyro_crowdclust.interface.choosing.held_out import splits_of_pairs
from pyro_crowdclust.interface.choosing.trials import dyadic_error, gain_by_a_part, is_clear

# Of guesses most parts need not be seen: so many have to show something.
_FIRST_PARTS = 3


def clusters_told(
    data: CrowdData,
    most_clusters: int,
    by_answers: Callable[[CrowdData, int], Fitted],
    by_features: Callable[[CrowdData], Fitted],
    seed: int,
) -> int | None:
    """The number of clusters of the answers alone, if these predict answers; else None.

    What is held out are answers about pairs of which both items have others. They must be predicted
    clearly better than by chance, and no worse than by the clusters of the features, whose items
    the answers have moved.

    Parameters
    ----------
    data
        Items and answers.
    most_clusters
        How many clusters there may be.
    by_answers
        Fits so many clusters of the answers.
    by_features
        Hears the answers beside the clusters of the features.
    seed
        Of what is held out together.
    """
    splits = splits_of_pairs(data, torch.Generator().manual_seed(seed))
    number = int(drawn_groups(data, most_clusters).max()) + 1 if splits else 0
    if number < 2:
        return None
    found, heard, chance = (np.empty(0) for _ in range(3))
    for place, one in enumerate(splits, 1):
        found = np.append(found, one.log_probability(by_answers(one.data, number)))
        heard = np.append(heard, one.log_probability(by_features(one.data)))
        chance = np.append(chance, one.by_chance)
        gain = gain_by_a_part(found, chance)
        ends = torch.cat([one.ends for one in splits[:place]], 1).numpy()
        if place == _FIRST_PARTS and gain.mean() < dyadic_error(gain, ends):
            return None
    return number if found.mean() >= heard.mean() and is_clear(gain, ends, 1) else None
