"""The bound of the deep latent mixture against loops, its steps against closed forms."""

from __future__ import annotations

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

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.distributions import Rows
from pyro_crowdclust.families import IndependentMoments
from pyro_crowdclust.guides import StructuredGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.mixture import DiagonalGaussianComponents
from pyro_crowdclust.supervision import HiddenMarkovField
from pyro_crowdclust.training import NaturalGradient, RobbinsMonro

from ..deep_problems import (
    COMPONENTS,
    DIM,
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
    sites = {"weights": torch.tensor(weights).log(), "components": guide.mean_globals().components}
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
