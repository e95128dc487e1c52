"""The deep latent mixture: its bound against loops, its parts against closed forms."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from pyro import poutine
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.distributions import Rows
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.inference import LabelTerm
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.mixture import DiagonalGaussianComponents, StickBreakingWeights
from pyro_crowdclust.models import DeepLatentMixture
from pyro_crowdclust.networks import ClusterMLP, ClusterRecognition, CodedMLP, SkipMLP
from pyro_crowdclust.supervision import ClassTable, HiddenMarkovField, KnownClusters
from pyro_crowdclust.training import NaturalGradient, RobbinsMonro

from ..crowds import added_to_loss
from ..deep_problems import (
    COMPONENTS,
    DIM,
    EMISSIONS,
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
from ..looped_twin import BetaTwin
from ..mixture_parts import CLUSTERS, WEIGHTS
from ..networks.test_per_cluster import NETWORKS, alone
from ..problems import some_batch, weighted, without_answers


@pytest.mark.parametrize(
    "parts",
    [
        dict(zip(("weights", "components", "network"), names, strict=True))
        for names in itertools.product(WEIGHTS, COMPONENTS, NETWORKS)
    ],
    ids=lambda parts: "-".join(parts.values()),
)
@pytest.mark.parametrize(("emission", "num_layers"), [("bernoulli", 1), ("normal", 2)])
def test_elbo_and_assignments_equal_the_looped_twin(parts, emission, num_layers, known_noise):
    guide = make_guide(**parts, emission=emission, num_layers=num_layers, threshold=0.0)
    randomize(guide)
    batch = without_answers(weighted(some_batch(torch.rand(5, FEATURES).round())))
    twin = DeepTwin(guide, batch, alone)
    assignments = q_of(guide, batch)
    expected = twin.log_weights() + twin.log_ratios()
    np.testing.assert_allclose(assignments, scipy.special.softmax(expected, 1), atol=1e-12)
    assert elbo(guide, batch).item() == pytest.approx(twin.elbo(assignments), rel=1e-9)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_gradient_of_every_network_is_that_of_the_bound(num_layers, known_noise):
    """At the best q(z) its own part of the gradient vanishes, so finite differences see all."""
    guide = randomize(make_guide(num_layers=num_layers, threshold=0.0))
    batch = without_answers(weighted(some_batch(torch.randn(5, FEATURES))))
    elbo(guide, batch).backward()
    natural = {id(p) for p in guide.posteriors.parameters()}
    networks = {name: p for name, p in guide.named_parameters() if id(p) not in natural}
    for name, parameter in networks.items():
        direction, step = torch.randn_like(parameter), 1e-5
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter += sign * step * direction
                values.append(elbo(guide, batch).item())
                parameter -= sign * step * direction
        slope = (values[0] - values[1]) / (2 * step)
        assert (parameter.grad * direction).sum().item() == pytest.approx(slope, 1e-5, 1e-5), name


def test_elbo_of_sparse_assignments_is_a_lower_bound_of_that_of_all(known_noise):
    """The best q(z) without some clusters is worse than the best of all."""
    guide = randomize(make_guide(threshold=0.0))
    batch = without_answers(some_batch(torch.randn(5, FEATURES)))
    best = elbo(guide, batch).item()
    guide.threshold = 0.1
    sparse = q_of(guide, batch)
    assert ((sparse == 0) | (sparse >= 0.1)).all()
    assert (sparse == 0).any()
    assert elbo(guide, batch).item() < best
    twin = DeepTwin(guide, batch, alone)
    assert elbo(guide, batch).item() == pytest.approx(twin.elbo(sparse), rel=1e-9)


def test_answers_add_the_terms_of_the_workers(known_noise):
    guide = make_guide(annotators=TwoCoin(2, (2.0, 1.0), (1.5, 0.7)), threshold=0.0)
    randomize(guide)
    batch = weighted(some_batch(torch.randn(5, FEATURES)))
    q = q_of(guide, batch)
    expected = DeepTwin(guide, batch, alone).elbo(q)
    prior = guide.model.priors()
    for name in ("sensitivity", "specificity"):
        eta = prior[name].natural_parameters
        for ours, theirs in zip(
            zip(*guide.posteriors[name].standard(), strict=True),
            zip(*prior[name].family.standard(eta), strict=True),
            strict=True,
        ):
            one, two = (BetaTwin(np.array([float(v) for v in row])) for row in (ours, theirs))
            expected -= (one.natural() - two.natural()) @ one.mean()
            expected += one.log_normalizer() - two.log_normalizer()
    rates = {name: guide.posteriors[name].mean().numpy() for name in guide.posteriors}
    rows = (batch.left, batch.right, batch.worker, batch.label, batch.pair_weight)
    for i, j, m, label, weight in zip(*(row.tolist() for row in rows), strict=True):
        same, answer = q[i] @ q[j], np.array([label, 1 - label])
        expected += weight * same * (rates["sensitivity"][m] @ answer)
        expected += weight * (1 - same) * (rates["specificity"][m] @ answer[::-1])
    assert elbo(guide, batch).item() == pytest.approx(expected, rel=1e-9)
    alone_q = q_of(guide, without_answers(batch))
    assert not np.allclose(q, alone_q)


def test_a_field_adds_what_neighbours_say_of_each_other(known_noise):
    """Its factor, at the q(z) of the guide: of the labels 0, 0 and 1, 1, pair by pair."""
    field = HiddenMarkovField(CLUSTERS, 5, strength=0.7)
    potential = torch.rand(CLUSTERS, CLUSTERS).triu(1)
    field.divergence.copy_(potential + potential.mT)
    guide = randomize(make_guide(supervision=field, threshold=0.0))
    batch = full_batch(CrowdData(torch.randn(5, FEATURES), known=[0, 0, None, 1, 1]))
    trace = poutine.trace(guide).get_trace(batch)
    q, bounds = trace.nodes["z"]["value"][batch.items.argsort()].detach(), []
    for field.strength in (0.0, 0.7):
        model = poutine.replay(guide.model, trace=trace)
        bounds.append(poutine.trace(model).get_trace(batch).log_prob_sum().item())
    pairs = q[0] @ field.divergence @ q[1] + q[3] @ field.divergence @ q[4]
    assert bounds[1] - bounds[0] == pytest.approx(-0.7 * pairs.item())


@torch.no_grad()
def table(guide: StructuredGuide, features: torch.Tensor, **options: Any) -> torch.Tensor:
    """Log ratios of all items and clusters."""
    seen, theta = guide.recognition.trunk(features), guide.posteriors["components"].mean()
    rows = Rows.every(len(features), CLUSTERS, features)
    return guide.log_ratios(theta, features, seen, rows, **options).view(-1, CLUSTERS)


def test_assignments_are_exact_where_everything_is_linear_and_gaussian(monkeypatch):
    """One deviation up and one down integrate a quadratic function exactly."""
    guide = linear_gaussian()
    features = 2 * torch.randn(6, FEATURES)
    batch = without_answers(full_batch(CrowdData(features)))
    ratios = []
    for sign in (1.0, -1.0):
        monkeypatch.setattr(
            IndependentMoments, "draw", lambda m, noise, s=sign: m.mean + s * m.scale
        )
        ratios.append(table(guide, features).numpy())
    expected = exact_log_likelihoods(guide, features)
    np.testing.assert_allclose(np.mean(ratios, 0), expected, atol=1e-6)
    monkeypatch.undo()
    # Importance weights under the exact posterior do not depend on the draw.
    eta = guide.posteriors["weights"].natural_parameters.detach()
    weights = guide.model.weights.mean(eta).numpy()
    posterior = scipy.special.softmax(np.log(weights) + expected, 1)
    np.testing.assert_allclose(guide.infer(batch).assignments.numpy(), posterior, atol=1e-6)
    sites = {"weights": torch.tensor(weights).log(), "components": guide.mean_globals()[1]}
    evidence = scipy.special.logsumexp(np.log(weights) + expected, 1)
    found = guide.item_log_likelihood(sites, batch, 3)
    np.testing.assert_allclose(found.numpy(), evidence, atol=1e-6)


@pytest.mark.long
def test_more_importance_weights_come_nearer_to_the_likelihood_from_below():
    guide = linear_gaussian()
    with torch.no_grad():
        guide.recognition.head.skip_bias[:, 0, 1] += 0.6  # a wider q(h | o)
    features = 2 * torch.randn(3, FEATURES)
    exact = exact_log_likelihoods(guide, features)
    draws = torch.stack([table(guide, features, noise=torch.randn_like) for _ in range(1000)])
    by_ten = (draws.unflatten(0, (100, 10)).logsumexp(1) - np.log(10)).mean(0).numpy()
    by_one = draws.mean(0).numpy()
    assert (by_one < by_ten).all()
    assert (by_ten < exact + 0.02).all()
    np.testing.assert_allclose(draws.logsumexp(0) - np.log(1000), exact, atol=0.1)


def natural_step(guide: StructuredGuide, batch: Batch) -> None:
    """One natural step at rate 1 on all data."""
    elbo(guide, batch).neg().backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()


def sigma_points(guide: StructuredGuide, batch: Batch, q: np.ndarray) -> tuple:
    """Points with exactly the moments of q(h | o_n, k), and their weights in every cluster."""
    rows = Rows.of(torch.ones(len(batch.items), CLUSTERS))
    (top,) = guide.recognition.latents(guide.recognition.trunk(batch.features), rows)
    mean, scale = (part.detach().numpy() for part in top)
    points, responsibilities = [], []
    for row, (n, k) in enumerate(zip(rows.item.tolist(), rows.cluster.tolist(), strict=True)):
        for j, sign in itertools.product(range(DIM), (-1, 1)):
            away = np.zeros(DIM)
            away[j] = sign * np.sqrt(DIM) * scale[row, j]
            points.append(mean[row] + away)
            responsibilities.append(q[n, k] / (2 * DIM) * np.eye(CLUSTERS)[k])
    return np.array(points), np.array(responsibilities)


def test_top_layer_update_is_the_maximization_step_of_sklearn(known_noise):
    """Full covariances and a conjugate prior: ``BayesianGaussianMixture``."""
    guide = randomize(make_guide(components="full", weights="dirichlet", threshold=0.0))
    batch = without_answers(some_batch(torch.randn(5, FEATURES)))
    points, responsibilities = sigma_points(guide, batch, q_of(guide, batch))
    natural_step(guide, batch)
    prior = guide.model.components.prior
    location, kappa, scale, degrees = (
        part[0].numpy() for part in prior.family.standard(prior.natural_parameters)
    )
    theirs = BayesianGaussianMixture(
        n_components=CLUSTERS,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=1.0,
        mean_prior=location,
        mean_precision_prior=float(kappa),
        covariance_prior=scale,
        degrees_of_freedom_prior=float(degrees),
        reg_covar=0.0,
    )
    theirs._check_parameters(points)
    theirs._m_step(points, np.log(np.maximum(responsibilities, 1e-300)))
    ours = guide.posteriors["components"].standard()
    np.testing.assert_allclose(ours.location, theirs.means_, rtol=1e-6)
    np.testing.assert_allclose(ours.concentration, theirs.mean_precision_, rtol=1e-6)
    np.testing.assert_allclose(ours.degrees, theirs.degrees_of_freedom_, rtol=1e-6)
    covariance = ours.scale / ours.degrees[:, None, None]
    np.testing.assert_allclose(covariance, theirs.covariances_, rtol=1e-6)
    alpha = guide.posteriors["weights"].standard().concentration
    np.testing.assert_allclose(alpha, theirs.weight_concentration_, rtol=1e-6)


def test_without_a_prior_the_top_layer_update_is_that_of_the_paper(known_noise):
    """Eq. 7 and 8, the M-step of an ordinary Gaussian mixture, and eq. 3 and 4 of the sticks."""
    guide = make_guide(threshold=0.0)
    components = DiagonalGaussianComponents(
        CLUSTERS, DIM, concentration=1e-9, scale=1e-9, degrees=1e-9
    )
    guide.model.components = components
    randomize(guide)
    batch = without_answers(some_batch(torch.randn(5, FEATURES)))
    q = q_of(guide, batch)
    points, responsibilities = sigma_points(guide, batch, q)
    natural_step(guide, batch)
    theirs = GaussianMixture(n_components=CLUSTERS, covariance_type="diag", reg_covar=0.0)
    theirs._m_step(points, np.log(np.maximum(responsibilities, 1e-300)))
    location, _, shape, rate = guide.posteriors["components"].standard()
    np.testing.assert_allclose(location, theirs.means_, rtol=1e-5)
    np.testing.assert_allclose(rate / shape, theirs.covariances_, rtol=1e-5)
    counts = q.sum(0)
    first, second = guide.posteriors["weights"].standard()
    np.testing.assert_allclose(first, 1 + counts[:-1])
    np.testing.assert_allclose(second, 2.0 + counts[::-1].cumsum()[::-1][1:])


@pytest.mark.long
def test_minibatches_reach_the_elbo_of_full_data():
    features, cluster = two_moons_of_four()
    data = CrowdData(features)
    per_item = []
    for options in (
        {"batch_size": None, "step_size": 1.0, "epochs": 500},
        {"batch_size": 60, "step_size": RobbinsMonro(0.5, 40.0, 0.7), "epochs": 250},
    ):
        optim = partial(torch.optim.Adam, lr=1e-2)
        result = fitted(make_guide(), data, optim=optim, **options)
        assert clustering_accuracy(cluster, result.assignments) > 0.97
        # Every estimate has draws of its own.
        per_item.append(result.history["elbo"].tail(50).mean() / data.num_items)
    assert per_item[0] == pytest.approx(per_item[1], abs=0.1)


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
