"""Workers who copy each other, where features say something of the classes, too."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust import Fitted
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import show
from pyro_crowdclust.results.discounted_classes import discount_copies, weight_of_copies
from pyro_crowdclust.results.item_posterior import infer_by_features

# Copies must explain more by so much of ``weight_of_copies``: where features leave next to nothing
# in doubt, both readings are the same.
_LEAST_WEIGHT = 0.25
# Who counts as more is hardly a copy, and at most so many are named.
_LESS, _MOST_NAMED = 0.9, 5


def worth_of_copies(result: Fitted) -> tuple[float, ...] | None:
    """As how many independent workers each counts; None where copies explain no more.

    Parameters
    ----------
    result
        A fit to class labels, which took all workers for independent.
    """
    by_features = infer_by_features(result)
    prior = None if by_features is None else by_features.numpy(force=True)
    discounted = discount_copies(result.data, prior)
    if (discounted.worth > _LESS).all():
        return None
    if weight_of_copies(discounted, np.asarray(result.probabilities)) < _LEAST_WEIGHT:
        return None
    return tuple(discounted.worth.tolist())


def in_words(worth: tuple[float, ...], data: CrowdData) -> str:
    """Who counts less than one worker, the least first."""
    order = np.argsort(worth)
    copies = [who for who in order if worth[who] <= _LESS][:_MOST_NAMED]
    named = ", ".join(f"{show(data.worker_ids[who])} as {worth[who]:.2f}" for who in copies)
    return f"workers seem to copy each other and count less than one, {named}"
