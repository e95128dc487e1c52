"""A trait of the items behind labels of two classes, and its average with independent workers.

    q(y_i) = (1 - w) q_independent(y_i) + w q_trait(y_i)

w is ``pooling.weight_of_shared_errors``. Under independent workers who in truth err together, a
class becomes whatever explains their agreement, such as "looks like the other class", while the two
sides of a trait keep what they mean; without shared errors the trait is the less accurate one. In
the average, neither is certain where the other contradicts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import ItemTrait
from pyro_crowdclust.data import some_items
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import ClassLabelGuide, GivenFeatures
from pyro_crowdclust.interface.class_labels.calibrating import CalibratedTraining
from pyro_crowdclust.interface.class_labels.constant_workers import say_nothing
from pyro_crowdclust.models import DawidSkene, LatentTrait
from pyro_crowdclust.pooling import TOGETHER, weight_of_shared_errors
from pyro_crowdclust.pooling.shared_errors import LARGEST_WEIGHT
from pyro_crowdclust.pooling.soft_answers import vote_share
from pyro_crowdclust.training import Stopping, is_interrupted

DEFAULTS: dict[str, Any] = {
    "batch_size": None,
    "epochs": 200,
    "step_size": 0.5,
    "stopping": Stopping(1e-5),
    # Few priors are learned, by exact gradients, so that large steps converge in about 100.
    "optim": partial(torch.optim.Adam, lr=0.1),
    "progress": False,
}
# The cut of a trait depends on a few hundredths of it, which still move in its slow last steps.
_OF_TRAIT: dict[str, Any] = {"epochs": 500, "stopping": Stopping(1e-6)}
# Features tell in part what the labels have told: they learn classes from them, shared errors
# included.
_POWER_OF_FEATURES = 0.5
# A weight that is worth a word: independent workers have it in one crowd of twenty.
_CLEAR = 0.95 * LARGEST_WEIGHT


def latent_trait(data: CrowdData, share: float | None) -> LatentTrait:
    """A trait of the items; its share of the second class is that of the votes unless given."""
    if share is None:
        share = _share_of_votes(data)
    # Few annotators do not determine how the trait is distributed, so that its prior counts as a
    # tenth of the items.
    return LatentTrait(ItemTrait(data.num_workers, share, max(10.0, data.num_items / 10)))


def fit_trait(data: CrowdData, share: float | None = None, **options: Any) -> Fitted:
    """A fit of ``LatentTrait``, with options of ``fit`` that differ from the defaults."""
    labelled = _labelled_items(data)
    model = latent_trait(labelled, share)
    result = fit(model, ClassLabelGuide(model), labelled, **DEFAULTS | _OF_TRAIT | options)
    return replace(result, data=data)


def with_trait_beside(result: Fitted, trait: Fitted) -> Fitted:
    """The average of a fit with independent workers and of one with a trait.

    Parameters
    ----------
    result
        A calibrated fit of two classes. Its ``update`` fits and averages both again.
    trait
        The fit of ``LatentTrait`` to the same labels. Where the other one has features, these move
        its classes, too (``GivenFeatures``).
    """
    if is_interrupted(trait):
        return replace(result, stop_reason=trait.stop_reason)
    # The calibration answers to dependence, which is to show here.
    full = replace(result, guide=result.guide.in_full())
    weight = weight_of_shared_errors(result.data, np.asarray(full.probabilities))
    # A part of what misleads all workers is visible to a trait.
    beside: Any = trait.guide.read_at(together=TOGETHER / 2)
    if result.feature_shape is not None and not isinstance(result.model, DawidSkene):
        beside = GivenFeatures(beside, result.guide, _POWER_OF_FEATURES)
    guide = result.guide.read_at(beside=beside, beside_weight=weight)
    training = result.train_on
    if isinstance(training, CalibratedTraining):
        training = TrainingBesideTrait(**training.of_fit)
    return replace(result, guide=guide, train_on=training)


def shared_errors_in_words(result: Fitted) -> str:
    """A sentence about a trait that has nearly all of the weight; empty if it has less."""
    weight = result.guide.reading.beside_weight
    if result.guide.beside is None or weight < _CLEAR:
        return ""
    return (
        "workers agree more often than the classes explain, as those do who err about the same "
        f"items: classes are mostly the sides of a trait of the items (weight {weight:.2f})"
    )


@dataclass(frozen=True)
class TrainingBesideTrait(CalibratedTraining):
    """``CalibratedTraining``, and its result ``with_trait_beside``; for ``Fitted.update``."""

    def __call__(
        self, model: Any, guide: ClassLabelGuide, data: CrowdData, **changes: Any
    ) -> Fitted:
        """Fit with these options, updated by ``changes``, and a trait with those of its own."""
        result = super().__call__(model, guide, data, **changes)
        if is_interrupted(result):
            return result
        own = {name: changes[name] for name in ("seed", "device") if name in changes}
        return with_trait_beside(result, fit_trait(data, dtype=self.dtype, **own))


def _labelled_items(data: CrowdData) -> CrowdData:
    """The items with labels: others say nothing about the trait, and slow its fit down."""
    assert data.class_labels is not None  # as the callers have seen
    items = data.class_labels.labelled_items
    return data if len(items) == data.num_items else some_items(data, items)


def _share_of_votes(data: CrowdData) -> float:
    """The share of the items whose vote is for the second class.

    Workers who always say the same would add a vote for it to every item.
    """
    labels = data.class_labels
    assert labels is not None  # as the callers have seen
    labels = labels.at(~say_nothing(data)[labels.worker])
    votes = labels.of_items(labels.labelled_items).votes()
    # One more item of each class, so that the share is never 0 or 1 (Laplace).
    return vote_share((votes[:, 1] - votes[:, 0]).sign().numpy(), even_items=2)
