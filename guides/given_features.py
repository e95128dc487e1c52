"""A guide of labels alone, beside what another guide knows of the same items from features.

    q(y_i)  propto  q_labels(y_i) (p(y_i | x_i) / theta)^tau

with theta the shares of the classes without labels. If labels and features were independent given
the class, tau would be 1. But features learn the classes from the labels of workers who may all err
about items that look alike, and so tell in part what these labels have told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data import CrowdData, LabelMatrix
from pyro_crowdclust.families import PosteriorSummary
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.class_labels import ClassLabelGuide
from pyro_crowdclust.inference import LocalPosterior
from pyro_crowdclust.minibatches import Batch


@described
class GivenFeatures(nn.Module):
    """The classes of one guide, by labels, moved by those of another, by features.

    Items without labels have the classes of the features. The workers' rates are those of the first
    guide.

    Parameters
    ----------
    by_labels
        The guide of a model of labels alone, such as of ``LatentTrait``.
    by_features
        The guide of a model with features of the same items and workers.
    power
        tau.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust.interface import classify, infer_classes
    >>> kind = np.arange(40) % 2
    >>> said = {"item": range(20), "worker": ["ann", "ben"] * 10, "label": kind[:20]}
    >>> both = classify(4.0 * kind[:, None], said, folds=2, epochs=5, progress=False)
    >>> alone = infer_classes(both.data, [0])
    >>> GivenFeatures(alone.guide, both.guide, power=0.5).model is alone.model
    True
    """

    def __init__(
        self, by_labels: ClassLabelGuide, by_features: ClassLabelGuide, power: float
    ) -> None:
        super().__init__()
        self.by_labels, self.by_features, self.power = by_labels, by_features, power

    @property
    def model(self) -> Any:
        """The model of labels alone."""
        return self.by_labels.model

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(y) of a batch, with the labels that it holds."""
        unlabelled = replace(batch, class_labels=None)
        by_features = self.by_features.infer(unlabelled).logits.log_softmax(-1)
        labels = batch.class_labels
        if labels is None:
            return LocalPosterior(by_features, None)
        shares = self.by_labels.infer(unlabelled).logits.log_softmax(-1)
        by_labels = self.by_labels.infer(batch).logits.log_softmax(-1)
        moved = by_labels + self.power * (by_features - shares)
        has_labels = (labels.counts > 0).unsqueeze(-1)
        return LocalPosterior(torch.where(has_labels, moved, by_features), None)

    def answer_probabilities(
        self,
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, by those that are."""
        return self.by_labels.answer_probabilities(labels, item, worker, label)

    def confusion(self, interval: float = 0.9) -> PosteriorSummary:
        """Posterior of every worker's confusion matrix."""
        return self.by_labels.confusion(interval)

    def confusion_given(self, data: CrowdData, interval: float = 0.9) -> PosteriorSummary:
        """``confusion``, with deviations that count how uncertain the classes are."""
        return self.by_labels.confusion_given(data, interval)
