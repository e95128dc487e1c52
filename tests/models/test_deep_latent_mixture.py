"""The deep latent mixture: labels, answers, draws, checks and diagnostics."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
import torch
from pyro import poutine

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.distributions import Rows
from pyro_crowdclust.emissions import Emission
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.inference import LabelTerm
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import StickBreakingWeights
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import ClusterMLP, ClusterRecognition, CodedMLP, SkipMLP
from pyro_crowdclust.supervision import ClassTable, KnownClusters

from ..crowds import added_to_loss
from ..deep_problems import (
    COMPONENTS,
    DIM,
    EMISSIONS,
    FEATURES,
    exact_log_likelihoods,
    fitted,
    linear_gaussian,
    make_guide,
    q_of,
    randomize,
    two_moons_of_four,
)
from ..mixture_parts import CLUSTERS, WEIGHTS
from ..networks.test_per_cluster import NETWORKS, alone
from ..problems import some_batch, weighted, without_answers


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("num_layers", [1, 2])
def test_known_labels_are_the_clusters(network, num_layers):
    features, cluster = two_moons_of_four(160)
    known = np.where(np.arange(160) < 16, cluster, -1)
    guide = make_guide(
        network=network,
        num_layers=num_layers,
        supervision=KnownClusters(CLUSTERS),
        label_term=LabelTerm(2.0),
    )
    data = CrowdData(features, known=known)
    result = fitted(guide, data, epochs=15, batch_size=40, step_size=0.3)
    assert (result.probabilities[:16] == np.eye(CLUSTERS)[cluster[:16]]).all()
    assert (result.assignments == cluster).mean() > 0.95
    more, truth = two_moons_of_four(200, seed=1)
    assert (result.predict(more) == truth).mean() > 0.95


def test_label_term_is_the_log_loss_of_the_label_free_assignments(known_noise):
    term = LabelTerm(lambda epoch: 3.0 + epoch)
    guide = randomize(
        make_guide(supervision=KnownClusters(CLUSTERS), label_term=term, threshold=0.0)
    )
    known = torch.tensor([2, -1, 0, -1, 1])
    batch = without_answers(weighted(some_batch(torch.randn(5, FEATURES))))
    free = q_of(guide, batch)
    batch = dataclasses.replace(batch, known=known)
    guide.set_epoch(1.5)
    value, weights = added_to_loss(q_of, guide, batch), batch.item_weight.tolist()
    expected = -4.5 * sum(weights[n] * np.log(free[n, known[n]]) for n in (0, 2, 4))
    assert value.item() == pytest.approx(expected, rel=1e-9)
    value.backward()
    assert all(q.natural_parameters.grad is None for q in guide.posteriors.values())
    seen = guide.recognition.trunk(batch.features)
    means = {name: posterior.mean().detach() for name, posterior in guide.posteriors.items()}
    rows = Rows.every(5, CLUSTERS, batch.features)
    ratios = guide.log_ratios(means["components"], batch.features, seen, rows)
    log_q = guide.model.weights.log_weights(means["weights"]) + ratios.view(5, CLUSTERS)
    loss = -4.5 * sum(weights[n] * log_q[n].log_softmax(0)[known[n]] for n in (0, 2, 4))
    learned = guide.model.emission.network.output.weight, guide.recognition.trunk.output.weight
    for parameter, slope in zip(learned, torch.autograd.grad(loss, learned), strict=True):
        torch.testing.assert_close(parameter.grad, slope)


def test_label_term_of_a_class_table_sums_over_the_clusters_of_a_class():
    alone, table = torch.randn(3, 4), torch.rand(4, 2).log()
    labels = torch.tensor([0, 1, 1])
    loss = LabelTerm(1.0).loss(alone, alone + table.mT[labels], torch.ones(3))
    q = alone.softmax(-1)
    expected = -(q @ table.exp())[torch.arange(3), labels].log().sum()
    torch.testing.assert_close(loss, expected)


def test_class_tables_supervise_deep_mixtures():
    features, cluster = two_moons_of_four(160)
    known = np.where(np.arange(160) < 40, cluster % 2, -1)
    data = CrowdData(features, known=known)
    guide = make_guide(supervision=ClassTable.of(data, CLUSTERS), label_term=LabelTerm(1.0))
    result = fitted(guide, data, epochs=20, batch_size=None, step_size=0.5)
    table = result.guide.posteriors["class_table"].standard().concentration
    best = table.argmax(1).numpy()
    assert (best[result.assignments] == cluster % 2).mean() > 0.9


@pytest.mark.long
def test_answers_decide_where_features_do_not():
    """Two clusters that overlap are told apart by a worker who compares them."""
    cluster = np.arange(40) % 2
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(40, FEATURES, generator=generator)
    features[:, 0] += torch.tensor(2.0 * cluster)
    pairs = {
        "left": [i for i in range(40) for _ in range(4)],
        "right": [(i + step) % 40 for i in range(40) for step in (1, 2, 3, 5)],
        "worker": ["ann"] * 160,
    }
    pairs["label"] = [
        int(cluster[i] == cluster[j]) for i, j in zip(pairs["left"], pairs["right"], strict=True)
    ]
    data = CrowdData(features, pairs)
    guide = make_guide(weights="dirichlet", annotators=TwoCoin(1))
    options = {"epochs": 20, "batch_size": None, "step_size": 0.5, "callbacks": [MergeMoves()]}
    result = fitted(guide, data, **options)
    assert result.callbacks[0].moves
    assert clustering_accuracy(cluster, result.assignments) > 0.95
    assert result.workers["sensitivity"].iloc[0] > 0.8


def test_model_simulates_one_row_per_item():
    guide = make_guide(num_layers=2, emission="bernoulli", annotators=TwoCoin(2))
    batch = dataclasses.replace(some_batch(torch.zeros(5, FEATURES)), features=None, label=None)
    trace = poutine.trace(guide.model).get_trace(batch)
    z, top, below = (trace.nodes[name]["value"] for name in ("z", "h2", "h1"))
    assert (z.sum(1) == 1).all()
    assert (top.shape, below.shape) == ((5, 2 * DIM), (5, 2 * 3))
    assert (IndependentMoments.of(top).scale == 0).all()
    assert trace.nodes["o"]["value"].shape == (5, FEATURES)
    trace.compute_log_prob()
    assert all(torch.isfinite(trace.nodes[name]["log_prob"]).all() for name in ("h2", "h1"))


def test_samples_of_a_cluster_come_from_its_networks():
    guide = randomize(make_guide(num_layers=2, network="one each"))
    model, top = guide.model, torch.randn(3, CLUSTERS, DIM)
    with torch.no_grad():
        model.layers[0].log_scale.fill_(-50.0)
    made = model.features_of(top, torch.arange(CLUSTERS)).mean.unflatten(0, (3, CLUSTERS))
    for row, k in itertools.product(range(3), range(CLUSTERS)):
        below = alone(model.layers[0].network, top[row, k], k)
        expected = alone(model.emission.network, below, k)
        torch.testing.assert_close(made[row, k], expected, rtol=0, atol=0.05)


def test_a_saved_result_is_the_same(tmp_path):
    features, cluster = two_moons_of_four(60)
    data = CrowdData(features, known=np.where(np.arange(60) < 8, cluster, -1))
    guide = make_guide(num_layers=2, supervision=KnownClusters(CLUSTERS), label_term=LabelTerm(1.0))
    result = fitted(guide, data, epochs=2, batch_size=20)
    result.save(tmp_path / "deep.safetensors")
    loaded = load(tmp_path / "deep.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(features), result.predict_proba(features))
    assert loaded.guide.label_term == result.guide.label_term


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make_guide(threshold=0.5), r"threshold is 0.5, but must be in \[0, 1/4\)"),
        (
            lambda: StructuredGuide(make_guide(num_layers=2).model, make_guide().recognition),
            "has 1 layers of latents, but the model has 2",
        ),
        (
            lambda: DeepLatentMixture(
                StickBreakingWeights(3), COMPONENTS["full"](), EMISSIONS["bernoulli"](None)
            ),
            "weights have 3 clusters, components 4",
        ),
        (lambda: make_guide(supervision=KnownClusters(7)), "the supervision 7"),
        (
            lambda: DeepLatentMixture(
                WEIGHTS["dirichlet"](),
                COMPONENTS["full"](),
                EMISSIONS["bernoulli"](SkipMLP((DIM, 5, FEATURES))),
            ),
            "SkipMLP does not take the cluster as input",
        ),
        (
            lambda: DeepLatentMixture(
                WEIGHTS["dirichlet"](),
                COMPONENTS["full"](),
                EMISSIONS["bernoulli"](CodedMLP((DIM, 5, FEATURES), 3)),
            ),
            "CodedMLP is built for 3 clusters, but the model has 4",
        ),
        (
            lambda: StructuredGuide(
                make_guide().model,
                ClusterRecognition(
                    SkipMLP((FEATURES, 6, 5)), ClusterMLP((5, 6, 2 * DIM), 5), [DIM]
                ),
            ),
            "ClusterMLP is built for 5 clusters, but the model has 4",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (CrowdData(np.zeros((3, 5))), {}, "makes 4 features, but every item has 5"),
        (CrowdData(np.full((3, 4), 7.0)), {"emission": "bernoulli"}, "row 0 has 7"),
        (CrowdData(np.zeros((3, 4))), {"supervision": KnownClusters(4)}, "no known labels"),
        (
            CrowdData(np.zeros((5, 4)), known=[0, 1, 2, 3, 4]),
            {"supervision": KnownClusters(4)},
            "5 classes, but there are only 4 clusters",
        ),
        (
            CrowdData(np.zeros((2, 4)), {"left": [0], "right": [1], "worker": [0], "label": [1]}),
            {},
            "the model has no annotators",
        ),
    ],
)
def test_data_that_do_not_fit_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        fitted(make_guide(**options), data, epochs=1)


@pytest.mark.parametrize(("num_layers", "emission"), [(2, "normal"), (1, "bernoulli")])
def test_diagnostics_have_likelihoods_and_replicated_features(num_layers, emission):
    data = CrowdData((two_moons_of_four(40)[0] > 0).double())
    result = fitted(make_guide(num_layers=num_layers, emission=emission), data, epochs=1)
    tree = result.to_arviz(5)
    assert tree["posterior"]["weights"].shape == (1, 5, CLUSTERS)
    assert tree["log_likelihood"]["features"].shape == (1, 5, 40)
    assert np.isfinite(tree["log_likelihood"]["features"]).all()
    replicated = tree["posterior_predictive"]["features"].to_numpy()
    assert replicated.shape == (1, 5, 40, FEATURES)
    assert set(np.unique(replicated)) <= {0.0, 1.0} or emission == "normal"


def test_likelihoods_of_a_fit_are_those_of_its_draws():
    """A posterior of 10^10 items has one draw, and the exact q(h) one importance weight."""
    guide = linear_gaussian()
    guide.posteriors["weights"].set_natural_parameters(1e10 * torch.ones(CLUSTERS))
    features = 2 * torch.randn(6, FEATURES)
    result = dataclasses.replace(
        fitted(linear_gaussian(), CrowdData(features.numpy()), epochs=1), guide=guide
    )
    result = dataclasses.replace(result, model=guide.model)
    found = result.to_arviz(3)["log_likelihood"]["features"].to_numpy()[0]
    expected = scipy.special.logsumexp(exact_log_likelihoods(guide, features), 1)
    np.testing.assert_allclose(found, np.tile(expected - np.log(CLUSTERS), (3, 1)), atol=1e-3)


def test_features_are_not_drawn_given_many_clusters():
    guide = make_guide()
    batch = without_answers(some_batch(torch.zeros(5, FEATURES)))
    empty = dataclasses.replace(batch, features=None)
    with pytest.raises(ValueError, match="one cluster per item"):
        poutine.condition(guide.model, {"z": torch.full((5, CLUSTERS), 1 / CLUSTERS)})(empty)


def test_annotators_in_the_place_of_layers_are_refused():
    made = make_guide().model
    with pytest.raises(ValueError, match=r"layers is a TwoCoin.*annotators by name"):
        DeepLatentMixture(made.weights, made.components, made.emission, TwoCoin(3))


class UsersEmission(Emission):
    """Without an argument for the cluster."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, latent):
        return dist.StudentT(4.0, self.network(latent)).to_event(1)


class UsersEmissionOfClusters(UsersEmission):
    def forward(self, latent, rows):
        return dist.StudentT(4.0, self.network(latent, rows)).to_event(1)


def test_an_emission_without_the_cluster_is_refused():
    made = make_guide().model
    emission = UsersEmission(CodedMLP((DIM, 5, FEATURES), CLUSTERS))
    with pytest.raises(ValueError, match=r"UsersEmission does not .* forward\(latent, rows\)"):
        DeepLatentMixture(made.weights, made.components, emission)


def test_an_emission_of_users_with_the_cluster_is_fitted():
    made = make_guide()
    emission = UsersEmissionOfClusters(CodedMLP((DIM, 5, FEATURES), CLUSTERS))
    model = DeepLatentMixture(made.model.weights, made.model.components, emission)
    features, _ = two_moons_of_four(40)
    result = fitted(StructuredGuide(model, made.recognition), CrowdData(features), epochs=2)
    assert np.isfinite(result.elbo)
