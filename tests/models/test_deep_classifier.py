"""A deep mixture whose q(z | o) is a network: its bound, what it learns from, what it predicts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.special
import torch
from torch import nn

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.inference import ConsistencyTerm, LabelTerm, LossTerms
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.networks import AssignmentOutputs, RandomAffine, SkipMLP
from pyro_crowdclust.starts import NeighborPartition, PrincipalComponentStart
from pyro_crowdclust.supervision import ClassTable, KnownClusters

from ..crowds import added_to_loss
from ..deep_problems import (
    FEATURES,
    elbo,
    exact_log_likelihoods,
    fitted,
    linear_gaussian,
    make_guide,
    q_of,
    randomize,
    two_moons_of_four,
)
from ..deep_twin import DeepTwin
from ..inference.test_loss_terms import Doubled, Louder
from ..mixture_parts import CLUSTERS
from ..networks.test_per_cluster import alone
from ..problems import some_batch, weighted, without_answers

KNOWN = torch.tensor([2, -1, 0, -1, 1])


def classifier() -> SkipMLP:
    return SkipMLP((FEATURES, 8, CLUSTERS))


class LogitsOfItems(nn.Module):
    """Free logits for every item: a network that can be anything."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.logits


def labelled_batch(known: torch.Tensor = KNOWN):
    batch = without_answers(weighted(some_batch(torch.randn(5, FEATURES))))
    return dataclasses.replace(batch, known=known)


@pytest.mark.parametrize("threshold", [0.0, 0.2])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_elbo_equals_the_looped_twin_at_the_assignments_of_the_network(
    threshold, num_layers, known_noise
):
    guide = make_guide(
        num_layers=num_layers,
        threshold=threshold,
        classifier=classifier(),
        supervision=KnownClusters(CLUSTERS),
    )
    randomize(guide)
    batch = labelled_batch()
    q = q_of(guide, batch)
    expected = guide.classifier(batch.features).softmax(-1).detach().numpy()
    expected[expected < threshold] = 0.0
    expected /= expected.sum(1, keepdims=True)
    labelled = KNOWN >= 0
    expected[labelled] = np.eye(CLUSTERS)[KNOWN[labelled]]
    np.testing.assert_allclose(q, expected, atol=1e-12)
    assert elbo(guide, batch).item() == pytest.approx(DeepTwin(guide, batch, alone).elbo(q))


def test_gradient_of_the_bound_is_that_of_kingma_and_others(known_noise):
    """``dJ/da_k = w q_k (s_k - sum_l q_l s_l)``, s the scores less log q, with no draw of z."""
    table = LogitsOfItems(torch.randn(5, CLUSTERS))
    guide = randomize(make_guide(threshold=0.0, classifier=table))
    batch = labelled_batch(None)
    q = q_of(guide, batch)
    twin = DeepTwin(guide, batch, alone)
    scores = twin.log_weights() + twin.log_ratios() - np.log(q)
    gradient = q * (scores - (q * scores).sum(1, keepdims=True))
    elbo(guide, batch).backward()
    expected = batch.item_weight.numpy()[:, None] * gradient
    np.testing.assert_allclose(table.logits.grad, expected, atol=1e-10)


def test_the_bound_falls_short_by_the_divergence_from_the_exact_posterior(monkeypatch):
    """Where all is linear and Gaussian; a deviation up and one down integrate exactly."""
    features = 2 * torch.randn(6, FEATURES)
    batch = without_answers(full_batch(CrowdData(features)))
    guide = linear_gaussian(classifier=LogitsOfItems(torch.zeros(6, CLUSTERS)))
    weights = guide.posteriors["weights"]
    weights.set_natural_parameters(weights.natural_parameters.detach() + 1e9)
    log_weights = guide.model.weights.log_weights(weights.mean()).detach().numpy()
    posterior = scipy.special.softmax(log_weights + exact_log_likelihoods(guide, features), 1)

    def bound(q: np.ndarray) -> float:
        with torch.no_grad():
            guide.classifier.logits.copy_(torch.tensor(q).log())
        values = []
        for sign in (1.0, -1.0):
            monkeypatch.setattr(
                IndependentMoments, "draw", lambda m, noise, s=sign: m.mean + s * m.scale
            )
            values.append(elbo(guide, batch).item())
        return np.mean(values)

    other = scipy.special.softmax(np.random.default_rng(0).normal(size=posterior.shape), 1)
    divergence = scipy.special.rel_entr(other, posterior).sum()
    assert bound(posterior) - bound(other) == pytest.approx(divergence, abs=1e-5)
    assert divergence > 0.1


def test_label_term_is_the_cross_entropy_of_the_network():
    guide = make_guide(
        classifier=classifier(), supervision=KnownClusters(CLUSTERS), label_term=LabelTerm(3.0)
    )
    randomize(guide)
    batch = labelled_batch()
    loss = added_to_loss(guide, batch)
    logits, labelled = guide.classifier(batch.features), KNOWN >= 0
    losses = nn.functional.cross_entropy(logits[labelled], KNOWN[labelled], reduction="none")
    expected = 3.0 * (batch.item_weight[labelled] * losses).sum()
    assert loss.item() == pytest.approx(expected.item())


def test_consistency_term_compares_a_view_with_what_is_known():
    term = ConsistencyTerm(Louder(), weight=2.0, answered_weight=5.0)
    guide = make_guide(
        classifier=classifier(), supervision=KnownClusters(CLUSTERS), consistency_term=term
    )
    randomize(guide)
    batch = labelled_batch()
    loss = added_to_loss(guide, batch)
    target = guide.classifier(batch.features).softmax(-1).detach()
    target[KNOWN >= 0] = torch.eye(CLUSTERS)[KNOWN[KNOWN >= 0]]
    seen = guide.classifier(term.view.viewed).log_softmax(-1)
    weight = torch.where(KNOWN >= 0, 5.0, 2.0) * batch.item_weight
    expected = -(weight * (target * seen).sum(-1)).sum()
    assert loss.item() == pytest.approx(expected.item())


def test_terms_teach_the_classifier_alone_and_leave_the_bound_as_it_is():
    batch, bounds, losses = labelled_batch(), [], []
    guide = randomize(make_guide(classifier=classifier(), supervision=KnownClusters(CLUSTERS)))
    terms = LabelTerm(2.0), ConsistencyTerm(Doubled(), 1.0, 3.0)
    for guide.label_term, guide.consistency_term in (
        (terms[0], None),
        (None, terms[1]),
        terms,
    ):
        torch.manual_seed(0)
        with LossTerms() as added:
            bounds.append(elbo(guide, batch).item())
        losses.append(added.total())
    assert bounds[0] == bounds[1] == bounds[2]
    assert losses[0].item() + losses[1].item() == pytest.approx(losses[2].item())
    losses[2].backward()
    taught = {name for name, p in guide.named_parameters() if p.grad is not None and p.grad.any()}
    assert taught
    assert all(name.startswith("classifier.") for name in taught)


def test_class_tables_weigh_the_clusters_of_the_network():
    data = CrowdData(torch.randn(5, FEATURES), known=[0, 1, -1, 0, -1])
    guide = make_guide(classifier=classifier(), supervision=ClassTable.of(data, CLUSTERS))
    guide.threshold = 0.0
    randomize(guide)
    batch = full_batch(data)
    table = guide.posteriors["class_table"].mean().detach().exp()
    expected = guide.classifier(batch.features).softmax(-1).detach()
    labelled = batch.known >= 0
    expected[labelled] *= table.mT[batch.known[labelled]]
    expected /= expected.sum(1, keepdim=True)
    np.testing.assert_allclose(q_of(guide, batch), expected, atol=1e-10)


def test_answers_join_what_the_network_says():
    guide = make_guide(
        classifier=classifier(), annotators=TwoCoin(2, (8.0, 1.0), (8.0, 1.0)), threshold=0.0
    )
    batch = some_batch(torch.randn(5, FEATURES))
    by_network = guide.classifier(batch.features).softmax(-1).detach().numpy()
    np.testing.assert_allclose(q_of(guide, without_answers(batch)), by_network, atol=1e-12)
    heard = q_of(guide, batch)
    assert not np.allclose(heard, by_network, atol=1e-3)
    np.testing.assert_allclose(guide.infer(batch).assignments, heard, atol=1e-12)


def test_importance_weights_are_exact_whatever_the_network_says():
    guide = linear_gaussian(classifier=LogitsOfItems(torch.randn(6, CLUSTERS)))
    features = 2 * torch.randn(6, FEATURES)
    batch = without_answers(full_batch(CrowdData(features)))
    weights = guide.model.weights.mean(guide.posteriors["weights"].natural_parameters.detach())
    logits = weights.log().numpy() + exact_log_likelihoods(guide, features)
    found = guide.importance_logits(batch).softmax(-1)
    np.testing.assert_allclose(found, scipy.special.softmax(logits, 1), atol=1e-6)
    network = guide.classifier.logits.softmax(-1).detach()
    np.testing.assert_allclose(guide.infer(batch).assignments, network, atol=1e-12)


def test_what_is_said_of_an_item_does_not_hang_on_others():
    """Whichever others are there, and where among them, however few the draws."""
    guide = make_guide(classifier=None)
    features = torch.rand(7, FEATURES).repeat(2, 1)
    both = guide.importance_logits(without_answers(full_batch(CrowdData(features)))).softmax(-1)
    np.testing.assert_allclose(both[:7], both[7:], atol=1e-6)
    each = [
        guide.importance_logits(without_answers(full_batch(CrowdData(row[None])))).softmax(-1)
        for row in features[:7]
    ]
    np.testing.assert_allclose(torch.cat(each), both[:7], atol=1e-6)


@pytest.mark.long
def test_few_labels_and_a_network_find_the_clusters(tmp_path):
    features, cluster = two_moons_of_four(160)
    little = RandomAffine((1, 2, 2), degrees=1.0, stretch=0.01, slant=0.01, shift=0.01)
    known = np.where(np.arange(160) < 16, cluster, -1)
    guide = make_guide(
        classifier=classifier(),
        supervision=KnownClusters(CLUSTERS),
        label_term=LabelTerm(10.0),
        consistency_term=ConsistencyTerm(little, 1.0, 1.0),
    )
    result = fitted(guide, CrowdData(features, known=known), epochs=25, batch_size=40)
    more, truth = two_moons_of_four(200, seed=1)
    predicted = result.predict_proba(more)
    assert (predicted.argmax(1) == truth).mean() > 0.9
    result.save(tmp_path / "deep.safetensors")
    loaded = load(tmp_path / "deep.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(more), predicted)


def test_neighbors_and_views_find_the_clusters_without_labels():
    features, cluster = two_moons_of_four(160)
    little = RandomAffine((1, 2, 2), degrees=1.0, stretch=0.01, slant=0.01, shift=0.01)
    partition = NeighborPartition(
        lambda count: SkipMLP((FEATURES, 16, count)),
        little,
        num_neighbors=20,
        steps=200,
        batch_size=64,
        learning_rate=2e-2,
    )
    guide = make_guide(
        weights="stick-breaking",
        classifier=classifier(),
        consistency_term=ConsistencyTerm(little, 1.0, 1.0),
    )
    start = PrincipalComponentStart(partition=partition)
    result = fitted(guide, CrowdData(features), epochs=2, batch_size=40, initialize=start)
    more, truth = two_moons_of_four(200, seed=1)
    assert clustering_accuracy(truth, result.predict(more)) > 0.9
    assert (result.guide.mixture().weights > 0.15).all()


def test_without_a_classifier_only_the_mixture_starts_at_a_partition():
    guide = make_guide()
    before = {name: value.clone() for name, value in guide.state_dict().items()}
    q = torch.eye(CLUSTERS)[[0, 1, 2]]
    guide.start_at_partition(torch.randn(3, FEATURES), q, torch.Generator(), steps=1)
    assert all(torch.equal(value, before[name]) for name, value in guide.state_dict().items())


def test_the_network_follows_clusters_that_are_merged():
    guide = randomize(make_guide(network="one each", classifier=classifier()))
    batch = without_answers(some_batch(torch.randn(5, FEATURES)))
    before = guide.infer(batch).assignments
    emptied = guide.merge(0, 2)
    kept = 2 - emptied
    merged = guide.infer(batch).assignments
    torch.testing.assert_close(merged[:, kept], before[:, 0] + before[:, 2])
    assert (merged[:, emptied] < 1e-100).all()


def test_the_network_no_longer_names_a_cluster_that_is_emptied():
    guide = randomize(make_guide(classifier=classifier()))
    batch = without_answers(some_batch(torch.randn(5, FEATURES)))
    expected = guide.infer(batch).assignments
    expected[:, 1] = 0
    guide.empty(1)
    found = guide.infer(batch).assignments
    torch.testing.assert_close(found, expected / expected.sum(1, keepdim=True))


def test_outputs_that_are_merged():
    outputs, q = AssignmentOutputs(3), torch.rand(4, 3).log_softmax(-1)
    assert outputs(q) is q
    outputs.merge(kept=2, emptied=0)
    expected = torch.stack([q[:, 1].exp(), q[:, 0].exp() + q[:, 2].exp()], 1)
    torch.testing.assert_close(outputs(q).exp()[:, 1:], expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"consistency_term": ConsistencyTerm(Doubled(), 1.0, 1.0)}, "trains a classifier"),
        ({"classifier": SkipMLP((FEATURES, 3, 7))}, "returns 7 logits, but the model has 4"),
    ],
)
def test_networks_that_do_not_fit_are_refused(options, message):
    data = CrowdData(np.zeros((3, FEATURES)))
    with pytest.raises(ValueError, match=message):
        fitted(make_guide(**options), data, epochs=1)
