"""An average of candidates with a trait beside it, and how it continues to be fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface.class_labels.candidate_average import AveragedTraining
from pyro_crowdclust.interface.class_labels.trait import TrainingBesideTrait, with_trait_beside


def average_with_trait(result: Fitted, trait: Fitted) -> Fitted:
    """``with_trait_beside`` of a fit that may be an average of candidates."""
    training, read = result.train_on, with_trait_beside(result, trait)
    if not isinstance(training, AveragedTraining):
        return read
    own = AveragedBesideTrait(**training.of_fit, of_members=training.of_members)
    return replace(read, train_on=own)


@dataclass(frozen=True)
class AveragedBesideTrait(TrainingBesideTrait, AveragedTraining):
    """``AveragedTraining``, and its result ``average_with_trait``; for ``Fitted.update``."""

    def __call__(
        self, model: Any, guide: ClassLabelGuide, data: CrowdData, **changes: Any
    ) -> Fitted:
        """Fit with these options, updated by ``changes``."""
        result = super().__call__(model, guide, data, **changes)
        training = result.train_on
        own = AveragedBesideTrait(**training.of_fit, of_members=self.of_members)
        return replace(result, train_on=own)
