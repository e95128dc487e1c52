"""Merge moves: every part of the judgement against brute force, and what they do in a fit."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.callbacks.merge_moves import answer_gain, entropy_change, evidence_change
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import GaussianParameters, Moments, NormalInverseWishart
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.starts import MixtureStart

from ..crowds import amortized_pair, crowd, fit_plain, message_passing_pair, plain_pair, quiet_fit
from ..looped_twin import Globals, LoopedTwin
from ..oracles import random_covariance, random_natural
from ..problems import NUM_CLUSTERS, mixture_problem, without_answers

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


def test_evidence_change_is_that_of_the_items():
    """Two components over two sets of points, against one component over both."""
    family = NormalInverseWishart(2)
    prior = random_natural(family)
    sets = [torch.randn(4, 2) + 1, 3 * torch.randn(7, 2)]

    def log_evidence(points: torch.Tensor) -> float:
        """By the chain rule, one prediction after the other: log Z(eta + u(x)) - log Z(eta)."""
        eta, total = prior, 0.0
        for point in points:
            following = eta + family.observation_statistics(Moments.point(point).flat())
            total += float(family.log_normalizer(following) - family.log_normalizer(eta))
            eta = following
        return total

    counts = [family.observation_statistics(Moments.point(points).flat()).sum(0) for points in sets]
    posterior = torch.stack([prior + counts[0], prior, prior + counts[1]])
    expected = log_evidence(torch.cat(sets)) - log_evidence(sets[0]) - log_evidence(sets[1])
    change = evidence_change(family, prior.expand(3, -1), posterior, 0, 2)
    assert change == pytest.approx(expected, rel=1e-10)
    # An empty component costs nothing, and has nothing to give.
    assert evidence_change(family, prior.expand(3, -1), posterior, 0, 1) == pytest.approx(0)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_entropy_change(first, second):
    q = torch.randn(5, NUM_CLUSTERS).softmax(-1)
    q[0] = torch.tensor([0.0, 1.0, 0.0])

    def entropy(q: torch.Tensor) -> float:
        return -sum(p * math.log(p) for p in q.flatten().tolist() if p > 0)

    change = entropy_change(q, first, second, multiplicity=3.5)
    assert change == pytest.approx(3.5 * (entropy(joined(q, first, second)) - entropy(q)))
    assert change < 0


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


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_judged_change_is_that_of_the_whole_bound(first, second):
    guide, batch = mixture_problem()
    q = torch.randn(5, NUM_CLUSTERS).softmax(-1)
    guide.start_at(MixtureStart(Moments.point(batch.features).flat(), q, 1.0))
    rates = guide.rate_statistics()
    ratio = guide.model.annotators.log_likelihood_ratio(rates, batch.worker, batch.label)

    judged = answer_gain(q, batch.left, batch.right, ratio)[first, second].item()
    judged += entropy_change(q, first, second, 1.0)
    judged += guide.merge_change(first, second, q.sum(0))
    before = bound(guide, q, batch)
    larger = max(first, second, key=lambda k: q[:, k].sum())
    empty = guide.merge(first, second)
    assert empty == first + second - larger
    after = bound(guide, joined(q, larger, empty), batch)
    assert judged == pytest.approx(after - before, rel=1e-8)


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


def expected_log_likelihood(
    guide: AmortizedGuide, counts: torch.Tensor, cluster: list[int], source: GaussianParameters
) -> float:
    """``sum_k N_k E[log pi_c N(x | c)]``, c the cluster of k, x from Gaussian k of a source."""
    weights, (means, covariances) = (guide.points[n].value() for n in ("weights", "components"))
    total = 0.0
    for k, c in enumerate(cluster):
        density = torch.distributions.MultivariateNormal(means[c], covariances[c])
        spread = torch.linalg.solve(covariances[c], source.covariance[k]).trace() / 2
        total += counts[k] * (weights[c].log() + density.log_prob(source.mean[k]) - spread)
    return total.item()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_merge_of_point_estimates(first, second):
    guide, counts = amortized_problem()
    source = GaussianParameters(
        *(part.detach().clone() for part in guide.points["components"].value())
    )
    before = expected_log_likelihood(guide, counts, [0, 1, 2], source)
    judged = guide.merge_change(first, second, counts)
    features = torch.randn(6, 4)
    batch = full_batch(CrowdData(features))
    q = guide.infer(batch).assignments
    empty = guide.merge(first, second)
    kept = first + second - empty
    assert counts[kept] > counts[empty]
    cluster = [kept if k == empty else k for k in range(NUM_CLUSTERS)]
    after = expected_log_likelihood(guide, counts, cluster, source)
    # The emptied weight is not quite zero.
    assert judged == pytest.approx(after - before, rel=1e-4)
    torch.testing.assert_close(guide.infer(batch).assignments, joined(q, kept, empty))
    assert guide.points["weights"].value().sum().item() == pytest.approx(1)


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
    for epoch, kept, empty, change in moves.moves:
        assert epoch == 1
        assert change > 0
        assert (result.assignments == kept).sum() == 40
        assert (result.assignments == empty).sum() == 0


def test_clusters_that_the_answers_call_different_are_not_merged():
    clouds = four_clouds()[1]
    result = fit_plain(*clouds_pair(), answers_about(clouds), epochs=5, callbacks=[MergeMoves()])
    assert result.callbacks[0].moves == []
    assert (result.history["merges"] == 0).all()
    assert clustering_accuracy(clouds, result.assignments) > 0.95


def test_the_best_of_all_moves_is_made():
    """On clouds that overlap, so that every part of the judgement counts."""
    _, clouds = four_clouds()
    features = clouds[:, None] * np.array([[0.8, 0.4]])
    features = features + np.random.default_rng(1).standard_normal((80, 2))
    data = CrowdData(features, answers_about(clouds // 2).pairs)
    guide = fit_plain(*clouds_pair(), data, epochs=2).guide
    batch = full_batch(data)
    alone = guide.infer(without_answers(batch)).assignments
    rates = guide.rate_statistics()
    ratio = guide.model.annotators.log_likelihood_ratio(rates, batch.worker, batch.label)
    gain = answer_gain(guide.infer(batch).assignments, batch.left, batch.right, ratio)
    changes = {
        (first, second): gain[first, second].item()
        + entropy_change(alone, first, second, 1.0)
        + guide.merge_change(first, second, alone.sum(0))
        for first, second in itertools.combinations(range(4), 2)
        if gain[first, second] > 0  # only the answers may call for a move
    }
    best = max(changes, key=changes.get)
    assert len(changes) > 1
    assert changes[best] > 0
    assert min(-entropy_change(alone, *pair, 1.0) for pair in changes) > 0.1

    moves = MergeMoves()
    trainer = SimpleNamespace(
        guide=guide, data=data, device=None, dtype=torch.float64, history=[{"epoch": 1}]
    )
    moves(trainer)
    assert trainer.history == [{"epoch": 1, "merges": len(moves.moves)}]
    _, kept, empty, change = moves.moves[0]
    assert (min(kept, empty), max(kept, empty)) == best
    assert change == pytest.approx(changes[best], rel=1e-9)


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
    for weight, merges in ((1.0, 0), (1000.0, 1)):
        pair = clouds_pair(50.0, recognition_term=RecognitionTerm(weight))
        result = fit_plain(*pair, data, epochs=3, callbacks=[MergeMoves()])
        assert len(result.callbacks[0].moves) == merges
        assert clustering_accuracy(np.maximum(clouds, merges), result.assignments) > 0.95


@pytest.mark.parametrize("make", [plain_pair, message_passing_pair, amortized_pair])
def test_every_guide_of_the_library_can_be_merged(make):
    result = quiet_fit(*make(), crowd(), callbacks=[MergeMoves()])
    assert "merges" in result.history
    assert result.probabilities.sum(1) == pytest.approx(1)
