"""A trait of the items behind labels of two classes, and its average with independent workers.

    q(y_i) = (1 - w) q_independent(y_i) + w q_trait(y_i)

w is ``pooling.weight_of_shared_errors``. Under independent workers who in truth err together, a
class becomes whatever explains their agreement, such as "looks like the other class", while the two
sides of a trait keep what they mean; without shared errors the trait is the less accurate one. In
the average, neither is certain where the other contradicts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import ItemTrait
from pyro_crowdclust.annotators.cuts import SHARE_ITEMS, items_of_given_share
from pyro_crowdclust.data import some_items
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides import AveragedGuide, ClassLabelGuide, GivenFeatures
from pyro_crowdclust.interface.class_labels.average_step import AverageStep
from pyro_crowdclust.interface.class_labels.expected_share import expected_share
from pyro_crowdclust.interface.class_labels.options import OF_TRAIT
from pyro_crowdclust.interface.option_checks import check_options
from pyro_crowdclust.models import DawidSkene, LatentTrait
from pyro_crowdclust.pooling import SINGLE_ANSWER_PROBABILITY, weight_of_shared_errors
from pyro_crowdclust.pooling.shared_errors import LARGEST_WEIGHT
from pyro_crowdclust.results.agreement import warn_of_guesses
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.argument_checks import check_has_class_labels

# Features tell in part what the labels have told: they learn classes from them, shared errors
# included.
_POWER_OF_FEATURES = 0.25
# A weight that is worth a word: independent workers have it in one crowd of twenty.
_CLEAR = 0.95 * LARGEST_WEIGHT


def latent_trait(data: CrowdData, share: float | None) -> LatentTrait:
    """A trait of the items; its share of the second class is ``expected_share`` unless given."""
    share_items = SHARE_ITEMS if share is None else items_of_given_share(share)
    if share is None:
        share = expected_share(data)
    # Few annotators do not determine how the trait is distributed, so that its prior counts as a
    # tenth of the items.
    strength = max(10.0, data.num_items / 10)
    # Less than the number of workers if each of them has seen a part of the items only.
    labels_per_item = min(data.num_workers, data.needed_class_labels.size / data.num_items)
    of_data: dict[str, Any] = {"labels_per_item": labels_per_item, "share_items": share_items}
    return LatentTrait(ItemTrait(data.num_workers, share, strength, **of_data))


def infer_trait(data: CrowdData, share: float | None = None, **options: Any) -> Fitted:
    """The two classes behind the labels of ``data``, as the two sides of a trait of the items.

    ``LatentTrait`` is for workers who err about the same items, as language models do: all of them
    see one trait, such as how alike two records look, and differ in where they cut it.
    ``infer_classes`` averages it with workers who err independently.

    Parameters
    ----------
    data
        ``CrowdData(None, labels=frame)``; features are not used.
    share
        The expected share of the second of ``data.class_ids``, which matters if there are few
        workers, or few items of a class: give the share of a rare class if you know it up to a
        factor of two. By default that of the votes, nearer to one item in five of the rarer class,
        unless it is far below: errors about the other class make this one look too frequent.
    options
        Options of ``fit``. Defaults: the full batch, 500 epochs, a step size of 0.5 and a tolerance
        of 1e-6 nats per item.

    Raises
    ------
    TypeError
        For an unknown argument.
    ValueError
        If there are no class labels, or known ones; if there are not two classes; and if ``share``
        is not between 0 and 1.

    Examples
    --------
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> result = infer_trait(CrowdData(None, labels=said))
    >>> result.class_probabilities.idxmax(axis=1).tolist()
    ['x', 'y']
    """
    check_options(infer_trait, options)
    check_has_class_labels(data)
    if data.num_classes != 2:
        raise ValueError(
            f"the data have {data.num_classes} classes, but a trait has two sides: use "
            "infer_classes or average_annotator_models, or infer each class against all others"
        )
    warn_of_guesses(data)
    return fit_trait(data, share, **options)


def fit_trait(data: CrowdData, share: float | None = None, **options: Any) -> Fitted:
    """A fit of ``LatentTrait``, with options of ``fit`` that differ from the defaults."""
    labelled = _labelled_items(data)
    model = latent_trait(labelled, share)
    result = fit(model, ClassLabelGuide(model), labelled, **OF_TRAIT | options)
    return replace(result, data=data)


def averaged_with_trait(result: Fitted, trait: Fitted) -> Fitted:
    """The average of a fit with independent workers and of one with a trait.

    Parameters
    ----------
    result
        A calibrated fit of two classes.
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
    other: Any = trait.guide.read_at(single_answer_probability=SINGLE_ANSWER_PROBABILITY / 2)
    if result.feature_shape is not None and not isinstance(result.model, DawidSkene):
        other = GivenFeatures(other, result.guide, _POWER_OF_FEATURES)
    return replace(result, guide=AveragedGuide(result.guide, other, weight))


def shared_errors_in_words(result: Fitted) -> str:
    """A sentence about a trait that has nearly all of the weight; empty if it has less."""
    guide = result.guide
    if not isinstance(guide, AveragedGuide) or guide.weight < _CLEAR:
        return ""
    return (
        "workers agree more often than the classes explain, as those do who err about the same "
        f"items: classes are mostly the sides of a trait of the items (weight {guide.weight:.2f})"
    )


@dataclass(frozen=True)
class AverageWithTrait(AverageStep):
    """Fits a trait, too (``fit_trait``); the average is ``averaged_with_trait``."""

    def averaged(self, result: Fitted, options: dict[str, Any]) -> Fitted:
        """The average of independent workers and the trait."""
        return averaged_with_trait(result, fit_trait(result.data, **options))


def _labelled_items(data: CrowdData) -> CrowdData:
    """The items with labels: others say nothing about the trait, and slow its fit down."""
    items = data.needed_class_labels.labelled_items
    return data if len(items) == data.num_items else some_items(data, items)
