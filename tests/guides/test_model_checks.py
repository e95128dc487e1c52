"""Guides, models and annotators that do not belong together are refused where they are built."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.annotators import ConfusionMatrices, TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import (
    AmortizedGuide,
    ClassLabelGuide,
    MessagePassingGuide,
    PairRegressionGuide,
    StructuredGuide,
)
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, SoftmaxRegression
from pyro_crowdclust.models import DawidSkene, LogResp, MomResp, SemiCrowdsourcedMixture


def mixture(annotators=None) -> SemiCrowdsourcedMixture:
    parts = DirichletWeights(2), GaussianComponents(2, 1), Identity()
    return SemiCrowdsourcedMixture(*parts, annotators)


OF_LABELS = DawidSkene(ConfusionMatrices(3, 2))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MessagePassingGuide(OF_LABELS), "SemiCrowdsourcedMixture, but DawidSkene has no"),
        (lambda: AmortizedGuide(OF_LABELS, None), "SemiCrowdsourcedMixture, but DawidSkene has no"),
        (lambda: StructuredGuide(mixture(), None), "DeepLatentMixture, but SemiCrowdsourcedM"),
        (lambda: PairRegressionGuide(mixture()), "PairRegression, but SemiCrowdsourcedMixture has"),
        (lambda: ClassLabelGuide(mixture()), "DawidSkene, but SemiCrowdsourcedMixture has no"),
        (lambda: MessagePassingGuide(torch.nn.Linear(1, 1)), "use the guide that the page of the"),
        (lambda: DawidSkene(TwoCoin(3)), "DawidSkene is for annotators of class labels, such as"),
        (lambda: MomResp(GaussianComponents(2, 1), TwoCoin(3)), "TwoCoin has no num_classes"),
        (lambda: LogResp(SoftmaxRegression(2, 1), TwoCoin(3)), "those of pairs go with Semi"),
        (lambda: mixture(ConfusionMatrices(3, 2)), "those of class labels go with DawidSkene"),
    ],
)
def test_what_does_not_belong_together_is_refused_with_what_does(build, message):
    with pytest.raises(ValueError, match=message):
        build()
