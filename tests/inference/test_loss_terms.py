"""The consistency term: what it is, whom it teaches, and that the bound does not contain it."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from pyro.infer import Trace_ELBO
from torch import nn

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.annotators.pair_messages import PairCoupling
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import ConsistencyTerm, RecognitionTerm
from pyro_crowdclust.inference.loss_terms import LabelTerm, LossTerms, add_loss_term
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP
from pyro_crowdclust.supervision import ClassTable, KnownClusters

from ..crowds import added_to_loss
from ..problems import (
    DIM,
    NUM_CLUSTERS,
    NUM_FEATURES,
    normal_problem,
    randomize,
    some_batch,
    some_model,
    weighted,
    without_answers,
)


def amortized_problem(**options: object):
    """The problem of the other guide with points and amortized assignments."""
    guide, batch = normal_problem()
    recognition = AmortizedRecognition((NUM_FEATURES, 6, 5), DIM, NUM_CLUSTERS)
    for parameter in recognition.parameters():
        nn.init.normal_(parameter, std=0.4)
    return AmortizedGuide(some_model(guide.model.emission), recognition, **options), batch


class Louder:
    """A view that is as loud as its random number says."""

    num_random = 1

    def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        assert amounts.abs().max() < 1
        self.viewed = (1.3 + amounts) * features
        return self.viewed


class Doubled:
    """A view without chance, so that the latents drawn after it are the same."""

    num_random = 0

    def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        return 2 * features


every_guide = pytest.mark.parametrize(
    ("make", "options"),
    [(amortized_problem, {}), (normal_problem, {}), (normal_problem, {"full_gradient": True})],
    ids=["amortized", "message passing", "full gradient"],
)


def test_a_term_that_is_added_several_times_counts_as_its_mean():
    with LossTerms() as terms:
        for value in (1.0, 2.0, 6.0):
            add_loss_term("one", torch.tensor(value))
        add_loss_term("other", torch.tensor(-0.5))
    assert {name: float(value) for name, value in terms.values().items()} == {
        **{"one": 3.0, "other": -0.5}
    }
    assert float(terms.total()) == 2.5


def test_the_recognition_term_is_what_answers_say_of_assignments_alone():
    _, batch = normal_problem()
    batch = weighted(batch)
    assignments = torch.randn(len(batch.item_weight), 3).softmax(-1).requires_grad_()
    ratio = torch.randn(len(batch.left))
    said = PairCoupling(batch.left, batch.right, batch.pair_weight * ratio, batch.num_paired)
    loss = RecognitionTerm(2.5).loss(assignments, said)
    expected = 0.0
    for pair, (i, j) in enumerate(zip(batch.left, batch.right, strict=True)):
        agreement = assignments[i] @ assignments[j]
        expected -= 2.5 * (batch.pair_weight[pair] * ratio[pair] * agreement).item()
    assert loss.item() == pytest.approx(expected)
    loss.backward()
    assert assignments.grad.any()


def test_the_label_term_is_the_log_loss_of_labels():
    alone, label = torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 1])
    table, weight = torch.rand(4, 2), torch.rand(5)
    heard = alone + table[:, label].mT.log()
    found = LabelTerm(0.7).loss(alone, heard, weight)
    predicted = alone.softmax(-1) @ table
    expected = -0.7 * (weight * predicted[torch.arange(5), label].log()).sum()
    torch.testing.assert_close(found, expected)


@every_guide
@pytest.mark.parametrize("change", [weighted, without_answers])
def test_it_is_the_cross_entropy_between_inference_and_a_view(make, options, change):
    term = ConsistencyTerm(Louder(), weight=3.0, answered_weight=7.0)
    guide, batch = make(consistency_term=term, **options)
    batch = change(batch)
    loss = added_to_loss(guide, batch).item()
    found = guide.infer(batch).assignments
    view = dataclasses.replace(without_answers(batch), features=term.view.viewed)
    seen = guide.infer(view).logits.log_softmax(-1)
    expected = 0.0
    for i, weight in enumerate(batch.item_weight.tolist()):
        c = 7.0 if i < batch.num_paired else 3.0
        expected -= c * weight * float(found[i] @ seen[i])
    assert loss == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("has_classifier", [False, True])
@pytest.mark.parametrize("supervision", [KnownClusters, ClassTable])
def test_a_view_is_not_told_the_label(supervision, has_classifier):
    supervision = supervision(NUM_CLUSTERS, *([2] if supervision is ClassTable else []))
    emission = NormalEmission(SkipMLP((DIM, 6, NUM_FEATURES)), NUM_FEATURES)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS),
        GaussianComponents(NUM_CLUSTERS, DIM),
        emission,
        supervision=supervision,
    )
    classifier = nn.Linear(NUM_FEATURES, NUM_CLUSTERS) if has_classifier else None
    recognition = GaussianRecognition(
        SkipMLP((NUM_FEATURES, 6, 2 * DIM)), DIM, classifier=classifier
    )
    term = ConsistencyTerm(Louder(), weight=3.0, answered_weight=7.0)
    guide = MessagePassingGuide(model, recognition, consistency_term=term)
    randomize(guide)
    batch = without_answers(some_batch(torch.randn(5, NUM_FEATURES)))
    batch = dataclasses.replace(batch, known=torch.tensor([0, -1, 1, -1, 0]))
    loss = added_to_loss(guide, batch).item()
    found = guide.infer(batch).assignments
    view = dataclasses.replace(batch, features=term.view.viewed, known=None)
    seen = guide.infer(view).logits.log_softmax(-1)
    weight = torch.tensor([7.0, 3.0, 7.0, 3.0, 7.0])
    assert loss == pytest.approx(-float(weight @ (found * seen).sum(-1)), rel=1e-9)


@every_guide
def test_it_teaches_the_recognition_network_alone(make, options):
    guide, batch = make(consistency_term=ConsistencyTerm(Louder(), 1.0, 2.0), **options)
    added_to_loss(guide, batch).backward()
    taught = {name for name, p in guide.named_parameters() if p.grad is not None and p.grad.any()}
    assert taught
    assert all(name.startswith("recognition.") for name in taught)


@every_guide
def test_it_is_added_to_the_recognition_term_and_not_to_the_bound(make, options):
    relational, consistent = RecognitionTerm(2.0), ConsistencyTerm(Doubled(), 1.0, 2.0)
    losses, bounds = [], []
    for terms in (
        {"recognition_term": relational},
        {"consistency_term": consistent},
        {"recognition_term": relational, "consistency_term": consistent},
    ):
        torch.manual_seed(0)
        guide, batch = make(**terms, **options)
        bounds.append(Trace_ELBO(max_plate_nesting=1).loss(guide.model, guide, batch))
        losses.append(added_to_loss(guide, batch).item())
    assert losses[0] + losses[1] == pytest.approx(losses[2], rel=1e-10)
    assert bounds[0] == bounds[1] == bounds[2]


@every_guide
def test_weights_follow_the_epoch(make, options):
    def falling(epoch: float) -> float:
        return max(8.0 * 0.5**epoch, 1.0)

    guide, batch = make(consistency_term=ConsistencyTerm(Louder(), falling, falling), **options)
    losses = []
    for epoch in (0, 1, 2.0, 10):
        torch.manual_seed(0)
        guide.set_epoch(epoch)
        losses.append(added_to_loss(guide, batch).item())
    assert [loss / losses[-1] for loss in losses] == pytest.approx([8, 4, 2, 1])


def test_there_must_be_a_recognition_network():
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3), GaussianComponents(3, 2), Identity(), TwoCoin(2)
    )
    with pytest.raises(ValueError, match="leave out consistency_term"):
        MessagePassingGuide(model, consistency_term=ConsistencyTerm(Louder(), 1.0, 1.0))
