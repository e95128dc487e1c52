"""A start at what a classifier was taught: clusters that features alone do not show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide, StructuredGuide
from pyro_crowdclust.minibatches import item_batches
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    StickBreakingWeights,
)
from pyro_crowdclust.models import DeepLatentMixture, SemiCrowdsourcedMixture
from pyro_crowdclust.networks import (
    AmortizedRecognition,
    ClusterMLP,
    ClusterRecognition,
    CodedMLP,
    GaussianRecognition,
    SkipMLP,
)
from pyro_crowdclust.starts import TaughtStart, ViewTeaching
from pyro_crowdclust.supervision import KnownClusters, Supervision, Unsupervised

NUM_ITEMS = 300


class Shaken:
    """A view: every feature moves a little."""

    num_random = 3

    def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        return features + 0.1 * amounts.to(features)


def striped() -> tuple[CrowdData, torch.Tensor]:
    """Most of the variance is noise; the last column, of which two thirds are above 0, counts."""
    generator = torch.Generator().manual_seed(0)
    features = 3 * torch.randn(NUM_ITEMS, 3, generator=generator)
    human = (torch.arange(NUM_ITEMS) % 3 > 0).long()
    features[:, 2] = 2.0 * human - 1 + 0.2 * torch.randn(NUM_ITEMS, generator=generator)
    return CrowdData(features), human


def known_of(human: torch.Tensor, count: int = 60) -> torch.Tensor:
    return torch.where(torch.arange(NUM_ITEMS) < count, human, -1)


def model_of(weights: DirichletWeights | StickBreakingWeights) -> SemiCrowdsourcedMixture:
    emission = NormalEmission(SkipMLP((2, 8, 3)), 3)
    return SemiCrowdsourcedMixture(weights, GaussianComponents(3, 2), emission)


quick = ViewTeaching(Shaken(), steps=100, batch_size=32, learning_rate=2e-2, memory=0.9)


def started(
    start: TaughtStart, data: CrowdData, weights: DirichletWeights | StickBreakingWeights
) -> tuple[SemiCrowdsourcedMixture, AmortizedGuide]:
    torch.manual_seed(1)
    model = model_of(weights)
    guide = AmortizedGuide(model, AmortizedRecognition((3, 16, 16), 2, 3))
    start(model, guide, data, torch.Generator().manual_seed(2))
    return model, guide


def found_by(guide: Any, data: CrowdData) -> torch.Tensor:
    return guide.infer(next(item_batches(data, NUM_ITEMS))).assignments


def test_items_are_where_people_would_put_them_and_the_mixture_with_them():
    data, human = striped()
    begun = []
    start = TaughtStart(known_of(human), quick, start=lambda *given: begun.append(given))
    model, guide = started(start, data, DirichletWeights(3, 1.0))
    assert [given[:3] for given in begun] == [(model, guide, data)]
    found = found_by(guide, data)
    assert float((found.argmax(1) == human)[60:].float().mean()) > 0.97
    shares = (found.sum(0) + 1) / (NUM_ITEMS + 3)
    torch.testing.assert_close(guide.mixture().weights, shares, atol=5e-3, rtol=0)
    _, again = started(start, data, DirichletWeights(3, 1.0))
    assert torch.equal(found_by(again, data), found)


def test_clusters_come_in_the_order_that_suits_the_weights():
    data, human = striped()  # most items of known cluster are of cluster 1
    _, guide = started(TaughtStart(known_of(human), quick), data, StickBreakingWeights(3, 1.0))
    assert float((found_by(guide, data).argmax(1) == 1 - human).float().mean()) > 0.97


def test_probabilities_are_taught_where_they_are_sure():
    data, human = striped()
    sure = torch.where(torch.arange(NUM_ITEMS) < 60, 0.95, 0.85)
    # What is less sure is wrong.
    said = torch.where(sure > 0.9, human, 1 - human)
    probabilities = ((1 - sure) / 2).unsqueeze(1).repeat(1, 3)
    probabilities[torch.arange(NUM_ITEMS), said] = sure
    _, guide = started(TaughtStart(probabilities, quick), data, DirichletWeights(3, 1.0))
    assert float((found_by(guide, data).argmax(1) == human)[60:].float().mean()) > 0.97


def deep_mixture(supervision: Supervision) -> tuple[DeepLatentMixture, StructuredGuide]:
    """A mixture of latents, under sticks, and a guide with a classifier."""
    model = DeepLatentMixture(
        StickBreakingWeights(3),
        DiagonalGaussianComponents(3, 2, degrees=4.0),
        NormalEmission(ClusterMLP((2, 4, 3), 3), 3, num_clusters=3),
        supervision=supervision,
    )
    recognition = ClusterRecognition(SkipMLP((3, 8, 4)), CodedMLP((4, 6, 4), 3), [2])
    return model, StructuredGuide(model, recognition, classifier=SkipMLP((3, 16, 3)))


def test_known_clusters_keep_their_numbers_under_sticks():
    torch.manual_seed(0)
    data, human = striped()  # most items of known cluster are of cluster 1
    known = CrowdData(data.features, known=known_of(human).tolist())
    model, guide = deep_mixture(KnownClusters(3))
    TaughtStart(None, quick)(model, guide, known, torch.Generator().manual_seed(2))
    assert float((found_by(guide, data).argmax(1) == human).float().mean()) > 0.97
    first, second, _ = guide.mixture().weights
    assert second > first > 0.3


def test_a_deep_mixture_without_labels_is_taught_clusters_too():
    torch.manual_seed(0)
    data, human = striped()
    model, guide = deep_mixture(Unsupervised(refuses=False))
    TaughtStart(known_of(human), quick)(model, guide, data, torch.Generator().manual_seed(2))
    assert float((found_by(guide, data).argmax(1) == 1 - human).float().mean()) > 0.97
    with pytest.raises(ValueError, match="no clusters to teach: pass clusters, or data with known"):
        TaughtStart(None, quick)(model, guide, data, torch.Generator())


def test_what_a_message_passing_guide_says_of_z_is_taught():
    torch.manual_seed(1)
    data, human = striped()
    model = model_of(DirichletWeights(3, 1.0))
    network = SkipMLP((3, 16, 4))
    recognition = GaussianRecognition(network, 2, classifier=SkipMLP((3, 16, 3)))
    guide = MessagePassingGuide(model, recognition)
    TaughtStart(known_of(human), quick)(model, guide, data, torch.Generator().manual_seed(2))
    assert float((found_by(guide, data).argmax(1) == human)[60:].float().mean()) > 0.97


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (np.zeros(7, dtype=int), r"must be \[300\]"),
        (np.full(NUM_ITEMS, -1), "known of some items"),
        (np.full(NUM_ITEMS, 3), "below 3"),
    ],
)
def test_clusters_that_do_not_fit_are_refused(clusters, message):
    data, _ = striped()
    with pytest.raises(ValueError, match=message):
        started(TaughtStart(torch.from_numpy(clusters), quick), data, DirichletWeights(3, 1.0))


def test_a_device_that_is_not_there_is_refused():
    data, human = striped()
    start = TaughtStart(known_of(human), quick, device="graphics")
    with pytest.raises(ValueError, match="device is 'graphics'"):
        started(start, data, DirichletWeights(3, 1.0))


def test_a_guide_without_a_classifier_is_refused():
    data, human = striped()
    model = model_of(DirichletWeights(3, 1.0))
    guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((3, 16, 4)), 2))
    with pytest.raises(ValueError, match="no classifier"):
        TaughtStart(known_of(human), quick)(model, guide, data, torch.Generator())
