"""The average of two fitted guides of the same class labels.

    q(y_i) = (1 - w) q_own(y_i) + w q_other(y_i)

Workers' rates are mixtures of the two posteriors with the same weights. All else, such as the bound
and the posteriors, is of the own guide alone.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data import CrowdData, LabelMatrix
from pyro_crowdclust.families import PosteriorSummary, mixed_summary
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.class_labels import ClassLabelGuide
from pyro_crowdclust.guides.given_features import GivenFeatures
from pyro_crowdclust.inference import ClassReading, LocalPosterior
from pyro_crowdclust.minibatches import Batch


@described
class AveragedGuide(nn.Module):
    """A guide whose classes and rates are averages with those of another guide.

    Parameters
    ----------
    own
        The guide of the model that was fitted.
    other
        The guide of another model of the same labels, such as of ``LatentTrait``, perhaps
        ``GivenFeatures``.
    weight
        w, the weight of ``other``, between 0 and 1.

    Raises
    ------
    ValueError
        If the weight is outside [0, 1].

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pyro_crowdclust.interface import infer_classes, infer_trait
    >>> said = {"item": [0, 0, 0, 1, 1], "worker": list("abcab"), "label": list("xxyyy")}
    >>> data = CrowdData(None, labels=said)
    >>> one, other = infer_classes(data, num_communities=[1]), infer_trait(data)
    >>> both = replace(one, guide=AveragedGuide(one.guide, other.guide, weight=0.3))
    >>> expected = 0.7 * one.probabilities + 0.3 * other.probabilities
    >>> bool((abs(both.probabilities - expected) < 1e-6).all())
    True
    """

    def __init__(
        self, own: ClassLabelGuide, other: ClassLabelGuide | GivenFeatures, weight: float
    ) -> None:
        super().__init__()
        if not 0 <= weight <= 1:
            raise ValueError(f"weight is {weight}, but must be between 0 and 1")
        self.own, self.other, self.weight = own, other, weight

    def forward(self, batch: Batch) -> None:
        """Run the own guide on a batch, as Pyro does."""
        self.own(batch)

    @property
    def posteriors(self) -> Any:
        """Posteriors of the sites of the own guide's model."""
        return self.own.posteriors

    @property
    def reading(self) -> ClassReading:
        """How the own guide is read."""
        return self.own.reading

    def read_at(self, feature_weight: float | None = None, **reading: Any) -> AveragedGuide:
        """The average with the own guide ``read_at`` these."""
        return AveragedGuide(self.own.read_at(feature_weight, **reading), self.other, self.weight)

    def in_full(self) -> ClassLabelGuide:
        """The own guide alone, as it is in training."""
        return self.own.in_full()

    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Start the own guide, as only that is trained."""
        self.own.start(data, generator)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if the own guide cannot be fitted to these data."""
        self.own.check(data)

    @torch.no_grad()
    def infer(self, batch: Batch) -> LocalPosterior:
        """q(y) of a batch, with the labels that it holds."""
        own = self.own.infer(batch).logits
        both = torch.stack([own, self.other.infer(batch).logits.to(own)]).log_softmax(-1)
        weights = own.new_tensor([1 - self.weight, self.weight])
        return LocalPosterior((both + weights.log()[:, None, None]).logsumexp(0), None)

    @torch.no_grad()
    def answer_probabilities(
        self,
        labels: LabelMatrix,
        item: Int[Tensor, " answer"],
        worker: Int[Tensor, " answer"],
        label: Int[Tensor, " answer"],
    ) -> Float[Tensor, "answer class"]:
        """``p(label | class)`` of answers that are not in ``labels``, given those that are."""
        asked = labels, item, worker, label
        own = self.own.answer_probabilities(*asked)
        return torch.lerp(own, self.other.answer_probabilities(*asked).to(own), self.weight)

    def confusion(self, interval: float = 0.9) -> PosteriorSummary:
        """Posterior of every worker's confusion matrix."""
        both = self.own.confusion(interval), self.other.confusion(interval)
        return mixed_summary(*both, self.weight, interval)

    def confusion_given(self, data: CrowdData, interval: float = 0.9) -> PosteriorSummary:
        """``confusion``, with deviations that count how uncertain the classes are."""
        asked = data, interval
        both = self.own.confusion_given(*asked), self.other.confusion_given(*asked)
        return mixed_summary(*both, self.weight, interval)
