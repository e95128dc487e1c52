"""Merge moves: every part of the judgement against brute force, and what they do in a fit."""

from __future__ import annotations

import itertools
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import ConfusionMatrices, TwoCoin
from pyro_crowdclust.annotators.pair_messages import answer_gain
from pyro_crowdclust.callbacks import Judge, MergeMoves
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import GaussianParameters, Moments
from pyro_crowdclust.fitting import adam
from pyro_crowdclust.guides import AmortizedGuide, ClassLabelGuide, MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import Batch, answered_batch, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import DawidSkene, SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.starts import MixtureStart
from pyro_crowdclust.training import Trainer

from ..crowds import (
    amortized_pair,
    classifier_pair,
    crowd,
    fit_plain,
    message_passing_pair,
    plain_pair,
    quiet_fit,
)
from ..interface.small_choices import small
from ..looped_twin import Globals, LoopedTwin
from ..oracles import random_covariance
from ..problems import NUM_CLUSTERS, mixture_problem

PAIRS = list(itertools.combinations(range(NUM_CLUSTERS), 2))


def joined(q: torch.Tensor, kept: int, empty: int) -> torch.Tensor:
    """The assignments when two clusters are one; no zeros, whose logarithm the twin takes."""
    q = q.clone()
    q[:, kept] += q[:, empty]
    q[:, empty] = 1e-300
    return q


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_answer_gain_is_the_change_of_the_expected_agreement(first, second):
    q = torch.randn(6, NUM_CLUSTERS).softmax(-1)
    left, right = torch.tensor([0, 2, 1, 5, 0, 1]), torch.tensor([1, 1, 2, 4, 5, 2])
    weight = torch.randn(6)

    def expected(q: torch.Tensor) -> float:
        total = 0.0
        for z in itertools.product(range(NUM_CLUSTERS), repeat=6):
            chance = math.prod(q[i, k].item() for i, k in enumerate(z))
            agreements = sum(
                w for i, j, w in zip(left, right, weight.tolist(), strict=True) if z[i] == z[j]
            )
            total += chance * agreements
        return total

    change = expected(joined(q, first, second)) - expected(q)
    gain = answer_gain(q, left, right, weight)
    assert gain[first, second].item() == pytest.approx(change, rel=1e-10)
    assert torch.equal(gain, gain.mT)


def bound(guide: MessagePassingGuide, q: torch.Tensor, batch: Batch) -> float:
    """The paper's bound at given assignments, item by item."""
    prior = {
        name: prior.family.standard(prior.natural_parameters)
        for name, prior in guide.model.priors().items()
    }
    posterior = {name: posterior.standard() for name, posterior in guide.posteriors.items()}
    x = batch.features.numpy()
    twin = LoopedTwin(Globals.read(prior), Globals.read(posterior), q.numpy(), x, None, batch)
    return twin.elbo()


def trainer_of(guide, data: CrowdData) -> Trainer:
    """A training run that stands where the guide is."""
    return Trainer(guide.model, guide, data, optim=adam, step_size=1.0, dtype=torch.float64)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_judged_change_is_that_of_the_whole_bound(first, second):
    """Against the paper's bound, item by item, at the q(z) that the guide has before and after."""
    _, problem = mixture_problem()
    pairs = {
        **{"left": [0, 2, 1, 3, 0, 1], "right": [1, 1, 2, 0, 3, 2]},
        **{"worker": [0, 0, 1, 1, 0, 0], "label": [1, 0, 1, 0, 1, 1]},
    }
    data = CrowdData(problem.features, pairs)
    batch = full_batch(data)
    guide, _ = mixture_problem()
    guide.start_at(
        MixtureStart(Moments.point(batch.features).flat(), torch.rand(5, 3).softmax(-1), 1.0)
    )

    def bound_now() -> float:
        return bound(guide, guide.infer(batch).assignments.clamp_min(1e-300), batch)

    before = bound_now()
    copy_of_before = {name: tensor.clone() for name, tensor in guide.state_dict().items()}
    gain = Judge(trainer_of(guide, data), 10).attempt(partial(guide.merge, first, second))
    if gain is not None:
        assert gain == pytest.approx(bound_now() - before, abs=1e-9)
        return
    assert all(torch.equal(copy_of_before[name], t) for name, t in guide.state_dict().items())
    guide.merge(first, second)
    assert bound_now() <= before


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_merge_pools_statistics(first, second):
    guide, _ = mixture_problem()
    before = {name: q.natural_parameters.clone() for name, q in guide.posteriors.items()}
    empty = guide.merge(first, second)
    kept = first + second - empty
    assert before["weights"][kept] >= before["weights"][empty]
    for name, prior in guide.model.priors().items():
        eta, eta0 = guide.posteriors[name].natural_parameters, prior.natural_parameters
        if name in ("weights", "components"):
            torch.testing.assert_close(eta[empty], eta0[empty])
            torch.testing.assert_close((eta - eta0).sum(0), (before[name] - eta0).sum(0))
        else:
            assert torch.equal(eta, before[name])


def amortized_problem() -> tuple[AmortizedGuide, torch.Tensor]:
    """Points anywhere, with weights that are the shares of the counts."""
    _, guide = amortized_pair()
    counts = torch.tensor([12.0, 30.0, 18.0])
    guide.points["weights"].set_value(counts / counts.sum())
    means, covariances = 2 * torch.randn(NUM_CLUSTERS, 2), random_covariance(NUM_CLUSTERS, dim=2)
    guide.points["components"].set_value(GaussianParameters(means, covariances))
    return guide, counts


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_merge_of_point_estimates(first, second):
    guide, counts = amortized_problem()
    weights, (means, covariances) = (
        guide.points[name].value() for name in ("weights", "components")
    )
    shares = weights[[first, second]] / weights[[first, second]].sum()
    center = shares @ means[[first, second]]
    second_moment = covariances + means.unsqueeze(-1) * means.unsqueeze(-2)
    pooled = torch.einsum("k,kij->ij", shares, second_moment[[first, second]])
    features = torch.randn(6, 4)
    batch = full_batch(CrowdData(features))
    q = guide.infer(batch).assignments
    empty = guide.merge(first, second)
    kept = first + second - empty
    assert counts[kept] > counts[empty]
    # Mean and covariance of the two together, by their weights.
    mean, covariance = guide.points["components"].value()
    torch.testing.assert_close(mean[kept], center)
    torch.testing.assert_close(covariance[kept], pooled - center.outer(center))
    torch.testing.assert_close(guide.infer(batch).assignments, joined(q, kept, empty))
    after = weights.detach().clone()
    after[kept], after[empty] = after[kept] + after[empty] - 1e-6, 1e-6
    torch.testing.assert_close(guide.points["weights"].value().detach(), after)


def four_clouds() -> tuple[np.ndarray, np.ndarray]:
    """Features and clouds; clouds 0 and 1 lie side by side, as do 2 and 3."""
    rng = np.random.default_rng(0)
    clouds = np.repeat(np.arange(4), 20)
    centers = np.array([[-4.0, -2.0], [-4.0, 2.0], [4.0, -2.0], [4.0, 2.0]])
    return centers[clouds] + 0.5 * rng.standard_normal((80, 2)), clouds


def clouds_pair(
    right: float = 1.0, **options: object
) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    """A mixture with room for four; workers gave so many right answers before."""
    workers = TwoCoin(3, (right, 1.0), (right, 1.0))
    weights, components = DirichletWeights(4, 0.5), GaussianComponents(4, 2)
    model = SemiCrowdsourcedMixture(weights, components, Identity(), workers)
    return model, MessagePassingGuide(model, **options)


def answers_about(classes: np.ndarray) -> CrowdData:
    rates = [0.95] * 3
    pairs = simulate_pages(classes, rates, rates, pages_per_worker=3, page_size=20, seed=0)
    return CrowdData(four_clouds()[0], pairs)


def test_clusters_that_the_answers_call_one_are_merged():
    clouds = four_clouds()[1]
    data, moves = answers_about(clouds // 2), MergeMoves()
    without = fit_plain(*clouds_pair(), data, epochs=5)
    assert clustering_accuracy(clouds, without.assignments) > 0.95
    bounds = []

    def watched(trainer):
        batch, value = full_batch(data), Trace_ELBO(max_plate_nesting=1)
        before = -value.loss(trainer.model, trainer.guide, batch)
        moves(trainer)
        bounds.append((before, -value.loss(trainer.model, trainer.guide, batch)))

    result = fit_plain(*clouds_pair(), data, epochs=5, callbacks=[watched])
    assert clustering_accuracy(clouds // 2, result.assignments) == 1
    assert sorted(np.unique(result.assignments, return_counts=True)[1]) == [40, 40]
    assert result.history["merges"].sum() == len(moves.moves) == 2
    assert result.history["clusters_in_use"].iloc[-1] == 2
    assert all(after >= before - 1e-9 for before, after in bounds)
    assert bounds[0][1] > bounds[0][0] + 10
    assert result.elbo > without.elbo
    # Moves know clusters by their numbers in the guide; a result numbers them by size.
    held = torch.bincount(result.guide.infer(full_batch(data)).assignments.argmax(1), minlength=4)
    for epoch, kept, empty, change in moves.moves:
        assert epoch == 1
        assert change > 0
        assert held[kept] == 40
        assert held[empty] == 0


def test_clusters_that_the_answers_call_different_are_not_merged():
    clouds = four_clouds()[1]
    result = fit_plain(*clouds_pair(), answers_about(clouds), epochs=5, callbacks=[MergeMoves()])
    assert result.callbacks[0].moves == []
    assert (result.history["merges"] == 0).all()
    assert clustering_accuracy(clouds, result.assignments) > 0.95


def test_proposals_are_what_the_answers_like_best_first():
    """Of clusters that hold answered items, and by the gain of the answers."""
    classes = four_clouds()[1] // 2
    fitted = fit_plain(*clouds_pair(), answers_about(classes), epochs=2)
    guide, data = fitted.guide, fitted.data
    batch = full_batch(data)
    weight = guide.model.annotators.log_likelihood_ratio(
        guide.rate_statistics(), batch.worker, batch.label
    )
    q = guide.infer(batch).assignments
    gain = answer_gain(q, batch.left, batch.right, weight)
    expected = [
        pair
        for pair in itertools.combinations(range(4), 2)
        if gain[pair] > 0 and q.sum(0)[list(pair)].min() >= 1
    ]
    assert 1 < len(expected) < 6
    proposals = MergeMoves().proposals(SimpleNamespace(guide=guide, answered=answered_batch(data)))
    best_first = sorted(expected, key=lambda pair: -float(gain[pair]))
    assert [proposal.clusters for proposal in proposals] == best_first


@pytest.mark.long
def test_merges_with_a_class_table_never_lower_the_bound():
    """Four separate clouds, their names on most items, few answers: nothing is to be merged."""
    features, clouds = four_clouds()
    rng = np.random.default_rng(2)
    known = [int(cloud) if rng.random() < 0.6 else None for cloud in clouds]
    rates = [0.9] * 2
    pairs = simulate_pages(clouds // 2, rates, rates, pages_per_worker=1, page_size=4, seed=0)
    moves = MergeMoves()
    bounds = []

    def watched(trainer):
        batch, value = full_batch(trainer.data), Trace_ELBO(max_plate_nesting=1)
        before = -value.loss(trainer.model, trainer.guide, batch)
        moves(trainer)
        bounds.append(-value.loss(trainer.model, trainer.guide, batch) - before)

    choice = small(CrowdData(features, pairs, known=known), 8, forms=1)
    fits = {
        callbacks: choice.fit(num_starts=2, progress=False, callbacks=[watched][:n])
        for n, callbacks in enumerate(("without", "with"))
    }
    assert min(bounds) >= 0
    # A merge must not tear a class from its table.
    for fitted in fits.values():
        table = pd.crosstab(fitted.assignments, clouds)
        assert table.max(axis=1).sum() == len(clouds)
    assert fits["with"].elbo >= fits["without"].elbo - 1e-6


def test_moves_wait_for_their_epoch():
    data = answers_about(four_clouds()[1] // 2)
    moves = MergeMoves(first_epoch=3)
    result = fit_plain(*clouds_pair(), data, epochs=4, callbacks=[moves])
    assert result.history["merges"].tolist() == [0, 0, 2, 0]


def test_without_answers_nothing_is_merged():
    data = CrowdData(four_clouds()[0])
    result = fit_plain(*clouds_pair(), data, epochs=2, callbacks=[MergeMoves()])
    assert (result.history["merges"] == 0).all()


def test_the_weight_of_the_recognition_term_speaks_for_the_answers():
    """Three answers cannot outweigh the features, unless they are given their weight."""
    features, clouds = four_clouds()
    pairs = {"left": [0, 1, 2], "right": [20, 21, 22], "worker": [0, 1, 2], "label": [1, 1, 1]}
    data = CrowdData(features, pairs)
    for weight, merges in ((0.0, 0), (1000.0, 1)):
        pair = clouds_pair(50.0, recognition_term=RecognitionTerm(weight))
        result = fit_plain(*pair, data, epochs=3, callbacks=[MergeMoves()])
        assert len(result.callbacks[0].moves) == merges
        assert clustering_accuracy(np.maximum(clouds, merges), result.assignments) > 0.95


@pytest.mark.parametrize(
    "make", [plain_pair, message_passing_pair, classifier_pair, amortized_pair]
)
def test_every_guide_of_the_library_can_be_merged(make):
    result = quiet_fit(*make(), crowd(), callbacks=[MergeMoves()])
    assert "merges" in result.history
    assert result.probabilities.sum(1) == pytest.approx(1)


def test_a_guide_without_the_verbs_is_refused():
    labels = {"item": [0, 1], "worker": [0, 0], "label": [0, 1]}
    pairs = {"left": [0], "right": [1], "worker": [0], "label": [1]}
    data = CrowdData(torch.randn(2, 2), pairs, labels=labels)
    guide = ClassLabelGuide(DawidSkene(ConfusionMatrices(1, 2)))
    trainer = SimpleNamespace(guide=guide, data=data, history=[{"epoch": 1}])
    with pytest.raises(ValueError, match="MergeMoves needs a guide with .* ClassLabelG"):
        MergeMoves()(trainer)
