"""Discounts for workers who copy each other, if the evidence supports them."""

from __future__ import annotations

import math

import numpy as np

from pyro_crowdclust import Fitted
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.errors import show
from pyro_crowdclust.pooling import weight_of_copies
from pyro_crowdclust.pooling.comparison import SMALLEST_EVIDENCE
from pyro_crowdclust.pooling.discounted_classes import (
    MIN_WORKERS_WHO_VARY,
    discounts_of,
    gain_by_features,
)

# Discounts are used only if their weight in an average exceeds this: strong evidence, since
# discounts without copies make workers count less than they should.
_MIN_WEIGHT = math.tanh(SMALLEST_EVIDENCE / 2)
# Workers who count as more than this are hardly copies; and at most this many are named.
_LESS, _MAX_NAMED = 0.9, 5


def copy_discounts(result: Fitted, trait: Fitted | None = None) -> tuple[float, ...] | None:
    """The number of independent workers that each worker counts as; None if nobody copies.

    Discounted answers must explain the features better than full ones, by strong evidence
    (``gain_by_features``), and the agreement better than a trait does. If features are not
    informative, or there are none, copies must explain best why workers agree, by equally strong
    evidence (``weight_of_copies``).

    Parameters
    ----------
    result
        A fit to class labels with independent workers.
    trait
        A fit of ``LatentTrait`` to the labels: copies must explain more than that, too. Workers who
        err about items that look alike may seem to be copies to features.
    """
    discounted, by_features, _ = discounts_of(result)
    if (discounted.worker_weights > _LESS).all():
        return None
    q = np.asarray(result.probabilities)
    if by_features is None:
        is_better = weight_of_copies(discounted, q, trait) > _MIN_WEIGHT
    else:
        is_better = gain_by_features(discounted, q, by_features) > SMALLEST_EVIDENCE
        few = discounted.answers.num_who_vary() < MIN_WORKERS_WHO_VARY
        # The agreement of few workers tells nothing.
        is_better &= trait is None or few or weight_of_copies(discounted, q, trait) > 0
    return tuple(discounted.worker_weights.tolist()) if is_better else None


def in_words(worker_weights: tuple[float, ...], data: CrowdData) -> str:
    """A sentence about the workers who count less than one, in ascending order."""
    order = np.argsort(worker_weights)
    copies = [who for who in order if worker_weights[who] <= _LESS][:_MAX_NAMED]
    named = ", ".join(
        f"{show(data.worker_ids[who])} as {worker_weights[who]:.2f}" for who in copies
    )
    return (
        "some workers agree more often than the classes explain, as copies do, and count as less "
        "than one worker: "
        f"{named}"
    )
