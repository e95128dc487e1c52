"""Workers who copy each other: whether answers count as far as they are voices of their own."""

from __future__ import annotations

import math

import numpy as np

from pyro_crowdclust import Fitted
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.tables import show
from pyro_crowdclust.results.comparison import SMALLEST_EVIDENCE
from pyro_crowdclust.results.discounted_classes import (
    discounts_of,
    gain_by_features,
    weight_of_copies,
)

# Of the better reading, where one is taken and not both averaged: strong evidence, since of
# discounts where nobody copies workers become worth less than they are.
_MIN_WEIGHT = math.tanh(SMALLEST_EVIDENCE / 2)
# Who counts as more is hardly a copy, and at most so many are named.
_LESS, _MAX_NAMED = 0.9, 5


def worth_of_copies(result: Fitted) -> tuple[float, ...] | None:
    """As how many independent workers each counts; None where independent ones explain as much.

    Discounted answers must say more of the features than whole ones do, by strong evidence
    (``gain_by_features``); where features tell nothing, or there are none, copies must explain
    best, by as much, why workers agree (``weight_of_copies``).

    Parameters
    ----------
    result
        A fit to class labels, which took all workers for independent.
    """
    discounted, by_features, _ = discounts_of(result)
    if (discounted.worth > _LESS).all():
        return None
    q = np.asarray(result.probabilities)
    if by_features is None:
        is_better = weight_of_copies(discounted, q) > _MIN_WEIGHT
    else:
        is_better = gain_by_features(discounted, q, by_features) > SMALLEST_EVIDENCE
    return tuple(discounted.worth.tolist()) if is_better else None


def in_words(worth: tuple[float, ...], data: CrowdData) -> str:
    """Who counts less than one worker, the least first."""
    order = np.argsort(worth)
    copies = [who for who in order if worth[who] <= _LESS][:_MAX_NAMED]
    named = ", ".join(f"{show(data.worker_ids[who])} as {worth[who]:.2f}" for who in copies)
    return (
        "some workers agree more often than the classes explain, as copies do, and count less: "
        f"{named}"
    )
