"""The guide of plain mixtures: many items in parts, and features that count less."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pyro.infer import Trace_ELBO
from scipy.special import gammaln

import pyro_crowdclust.guides.message_passing as module
from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalSolver
from pyro_crowdclust.minibatches import answered_batch, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, PoissonComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import SkipMLP
from pyro_crowdclust.supervision import HiddenMarkovField, KnownClusters, Supervision
from pyro_crowdclust.training import NaturalGradient

from ..crowds import (
    NUM_CLUSTERS,
    NUM_WORKERS,
    classifier_pair,
    crowd,
    deep_mixture,
    message_passing_pair,
    plain_pair,
)
from ..oracles import random_natural


def test_many_items_are_inferred_in_parts(monkeypatch):
    data = crowd()
    model, guide = plain_pair()
    options = {"batch_size": None, "step_size": 0.5, "dtype": torch.float64, "progress": False}
    guide = fit(model, guide, data, epochs=3, **options).guide
    batches = [batch.to(None, torch.float64) for batch in (full_batch(data), answered_batch(data))]
    whole = [guide.infer(batch).logits for batch in batches]
    monkeypatch.setattr(module, "_ROWS", 7)
    for batch, expected in zip(batches, whole, strict=True):
        torch.testing.assert_close(guide.infer(batch).logits, expected)


def test_all_rounds_of_messages_are_made_of_many_items(monkeypatch):
    solver = LocalSolver(exchanges=4, damping=0.9)
    guide = MessagePassingGuide(plain_pair()[0], solver=solver)
    for posterior in guide.posteriors.values():
        eta = posterior.natural_parameters.detach()
        other = random_natural(posterior.family, *eta.shape[:-1])
        posterior.set_natural_parameters(torch.lerp(eta, other, 0.05))
    batch = full_batch(crowd()).to(None, torch.float64)
    whole = guide.infer(batch).logits
    monkeypatch.setattr(module, "_ROWS", 7)
    torch.testing.assert_close(guide.infer(batch).logits, whole)


def test_assignments_of_a_step_of_all_items_are_kept():
    data, guide = crowd(), plain_pair()[1]
    whole, asked = (
        batch.to(None, torch.float64) for batch in (full_batch(data), answered_batch(data))
    )
    assert guide.assignments_in_step(asked) is None
    guide(whole)
    torch.testing.assert_close(guide.assignments_in_step(asked), guide.infer(asked).assignments)
    guide(asked)  # a step of some items
    assert guide.assignments_in_step(asked) is None


def test_outputs_of_a_network_in_training_are_not_kept():
    _, guide = message_passing_pair()
    batch = full_batch(crowd())
    guide(batch)
    assert guide.assignments_in_step(batch) is None


@pytest.mark.parametrize("kind", ["networks", "a field"])
def test_what_cannot_be_in_parts_is_not(kind, monkeypatch):
    data = crowd()
    if kind == "networks":
        guide = message_passing_pair()[1]
    else:
        data = CrowdData(data.features, known=[0, 1, None] * 20)
        field = HiddenMarkovField.of(data, 3)
        field.divergence.copy_(0.1 * (1 - torch.eye(3)))
        parts = DirichletWeights(3), GaussianComponents(3, data.features.shape[1]), Identity()
        guide = MessagePassingGuide(SemiCrowdsourcedMixture(*parts, supervision=field))
    posterior = guide.posteriors["components"]
    posterior.set_natural_parameters(random_natural(posterior.family, 3))
    batch = full_batch(data).to(None, torch.float64)
    whole = guide.infer(batch).logits
    monkeypatch.setattr(module, "_ROWS", 7)
    assert torch.equal(guide.infer(batch).logits, whole)


def test_features_of_a_smaller_weight_count_as_fewer_items():
    data = crowd()
    size = data.features.shape[1]
    parts = DirichletWeights(3, 1.0), GaussianComponents(3, size), Identity()
    model = SemiCrowdsourcedMixture(*parts, feature_weight=0.3)
    guide = MessagePassingGuide(model)
    posterior = guide.posteriors["components"]
    noise = torch.zeros_like(posterior.natural_parameters)
    noise[:, :size] = torch.randn(3, size, dtype=noise.dtype) / 3
    posterior.set_natural_parameters(posterior.natural_parameters + noise)
    batch = full_batch(data.with_parts(answers=None)).to(None, torch.float64)
    q = guide.infer(batch).assignments
    observed = model.components.observe(batch.features)
    Trace_ELBO().differentiable_loss(model, guide, batch).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    counts = q.mT @ model.components.family.observation_statistics(observed)
    expected = model.components.prior.natural_parameters + 0.3 * counts
    torch.testing.assert_close(posterior.natural_parameters.detach(), expected)


@pytest.mark.parametrize("sums_out", [None, torch.float64])
def test_of_one_cluster_the_elbo_is_the_evidence_of_the_power_likelihood(sums_out):
    """``log int p(rate) prod_i p(x_i | rate)^w``, factorials included."""
    counts, weight = np.array([[3.0], [5.0], [0.0]]), 0.4
    model = SemiCrowdsourcedMixture(
        DirichletWeights(1),
        PoissonComponents(1, 1, shape=0.5, rate=0.1),
        Identity(),
        sum_out_assignments=sums_out,
        feature_weight=weight,
    )
    guide, data = MessagePassingGuide(model), CrowdData(counts)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 2, "dtype": torch.float64}
    result = fit(model, guide, data, initialize=None, progress=False, **options)
    shape, rate = 0.5 + weight * counts.sum(), 0.1 + weight * len(counts)
    expected = 0.5 * np.log(0.1) - gammaln(0.5) + gammaln(shape) - shape * np.log(rate)
    expected -= weight * gammaln(counts + 1).sum()
    assert result.elbo == pytest.approx(expected)


def test_weights_of_features_are_checked():
    parts = DirichletWeights(3), GaussianComponents(3, 2)
    for weight in (0.0, 1.5):
        with pytest.raises(ValueError, match="must be in"):
            SemiCrowdsourcedMixture(*parts, Identity(), feature_weight=weight)
        with pytest.raises(ValueError, match="prior_weight is"):
            SemiCrowdsourcedMixture(*parts, Identity(), prior_weight=weight)
    with pytest.raises(ValueError, match="1 if the emission is a network"):
        SemiCrowdsourcedMixture(*parts, NormalEmission(SkipMLP((2, 5, 4)), 4), feature_weight=0.5)


def with_a_network_of_z() -> tuple[MessagePassingGuide, torch.nn.Module]:
    """A guide in the middle of things, and its network of z."""
    guide = classifier_pair()[1]
    sizes = {"components": NUM_CLUSTERS, "sensitivity": NUM_WORKERS, "specificity": NUM_WORKERS}
    for name, size in sizes.items():
        posterior = guide.posteriors[name]
        posterior.set_natural_parameters(random_natural(posterior.family, size))
    network = guide.recognition.classifier
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    return guide, network


def test_a_network_of_z_is_q_where_nobody_was_asked():
    guide, network = with_a_network_of_z()
    batch = full_batch(CrowdData(crowd().features)).to(None, torch.float64)
    found = guide.infer(batch)
    torch.testing.assert_close(found.logits, network(batch.features).log_softmax(-1))
    guide.recognition.classifier = None
    silent = guide.infer(batch)
    assert (found.assignments - silent.assignments).abs().max() > 0.1
    assert (found.latent.mean - silent.latent.mean).abs().max() > 1e-3  # latents depend on z


def test_answers_are_used_beside_a_network_of_z():
    guide, network = with_a_network_of_z()
    batch = full_batch(crowd()).to(None, torch.float64)
    asked = batch.num_paired
    said = network(batch.features).log_softmax(-1)
    found = guide.infer(batch).logits
    torch.testing.assert_close(found[asked:], said[asked:])
    assert (found[:asked] - said[:asked]).log_softmax(-1).std() > 0.1


def supervised(supervision: Supervision) -> MessagePassingGuide:
    """A guide with a network of z, and labels or links beside it."""
    parts = deep_mixture()
    mixture = parts.weights, parts.components, parts.emission
    model = SemiCrowdsourcedMixture(*mixture, supervision=supervision)
    return MessagePassingGuide(model, classifier_pair()[1].recognition)


def test_known_classes_are_used_beside_a_network_of_z():
    known = [0, 1, None] * 20
    data = CrowdData(crowd().features, known=known)
    guide = supervised(KnownClusters(NUM_CLUSTERS))
    found = guide.infer(full_batch(data).to(None, torch.float64)).assignments
    assert found[::3, 1:].max() == 0
    assert found[1::3, 0].max() == 0
    assert found[2::3].min() > 0


def test_a_field_and_a_network_of_z_are_refused():
    data = CrowdData(crowd().features, known=[0, 1, None] * 20)
    field = HiddenMarkovField.of(data, NUM_CLUSTERS)
    with pytest.raises(
        ValueError, match="classifier cannot be combined .* leave out the classifier"
    ):
        supervised(field)


def test_the_bound_teaches_the_network_of_z():
    """By ``sum_nk q_nk (E[log pi_k] + E[log p(x_n | theta_k)] - log q_nk)``, q(x) as it is."""
    guide, network = with_a_network_of_z()
    batch = full_batch(CrowdData(crowd().features)).to(None, torch.float64)
    parameters = list(network.parameters())
    bound = -Trace_ELBO().differentiable_loss(guide.model, guide, batch)
    found = torch.autograd.grad(bound, parameters)
    said = network(batch.features).log_softmax(-1)
    with torch.no_grad():
        conditionals = guide._conditionals(batch, guide.mean_globals())
        scores = conditionals.of_latents.logits(guide.infer(batch).latent)
    expected = torch.autograd.grad((said.exp() * (scores - said)).sum(), parameters)
    torch.testing.assert_close(found, expected)


def test_merged_clusters_share_what_the_network_says():
    guide, network = with_a_network_of_z()
    batch = full_batch(CrowdData(crowd().features)).to(None, torch.float64)
    said = network(batch.features).log_softmax(-1).exp()
    emptied = guide.merge(0, 2)
    kept = 2 - emptied
    found = guide.infer(batch).assignments
    torch.testing.assert_close(found[:, kept], said[:, 0] + said[:, 2])
    torch.testing.assert_close(found[:, 1], said[:, 1])
    assert found[:, emptied].max() < 1e-100
    guide.empty(1)
    found = guide.infer(batch).assignments
    torch.testing.assert_close(found[:, kept], torch.ones_like(found[:, kept]))
