"""Pyro's own ELBO of the semi-crowdsourced mixture and its conjugate guide is the paper's bound."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pyro
import pytest
import scipy.special
import scipy.stats
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceEnum_ELBO
from torch import Tensor

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.emissions import Emission, Identity
from pyro_crowdclust.families import Beta, Moments
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalConditionals, LocalSolver
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.training import NaturalGradient

from ..looped_twin import (
    BetaTwin,
    DirichletTwin,
    Globals,
    LoopedTwin,
    NormalInverseWishartTwin,
    kl_divergence,
)
from ..oracles import random_natural
from ..problems import (
    DIM,
    NUM_CLUSTERS,
    bernoulli_problem,
    mixture_problem,
    normal_problem,
    some_model,
    weighted,
    without_answers,
)

ELBOS = [
    Trace_ELBO(max_plate_nesting=1),
    TraceEnum_ELBO(max_plate_nesting=1, strict_enumeration_warning=False),
]
every_elbo = pytest.mark.parametrize("objective", ELBOS, ids=["Trace_ELBO", "TraceEnum_ELBO"])
every_batch = pytest.mark.parametrize(
    "change",
    [lambda batch: batch, weighted, without_answers],
    ids=["full", "weighted", "without answers"],
)


def elbo(guide: MessagePassingGuide, batch: Batch, objective: Trace_ELBO = ELBOS[0]) -> float:
    """Pyro's ELBO, leaving the gradients of its negative in every parameter."""
    for parameter in guide.parameters():
        parameter.grad = None
    loss = objective.differentiable_loss(guide.model, guide, batch)
    loss.backward()
    return -loss.item()


def assert_natural_gradients(guide: MessagePassingGuide, expected: dict[str, np.ndarray]) -> None:
    assert set(guide.posteriors) == set(expected)
    for name, posterior in guide.posteriors.items():
        ours = -posterior.natural_parameters.grad
        torch.testing.assert_close(ours, torch.tensor(expected[name]), rtol=1e-9, atol=1e-9)


@every_elbo
@every_batch
def test_mixture_equals_the_looped_twin(objective, change):
    guide, batch = mixture_problem()
    batch = change(batch)
    twin = LoopedTwin.read(guide, batch)
    assert elbo(guide, batch, objective) == pytest.approx(twin.elbo(), rel=1e-9)
    assert_natural_gradients(guide, twin.natural_gradients())


def log_emission(emission: Emission, x: Tensor, features: Tensor) -> np.ndarray:
    """log p(o | x) of every item, by scipy, feature by feature."""
    total = np.zeros(len(features))
    distribution = emission(x)
    distribution = getattr(distribution, "base_dist", distribution)
    for i, j in itertools.product(*map(range, features.shape)):
        value = features[i, j].item()
        if isinstance(distribution, pyro.distributions.Normal):
            loc, scale = distribution.loc[i, j].item(), distribution.scale[i, j].item()
            total[i] += scipy.stats.norm.logpdf(value, loc, scale)
        else:
            chance = scipy.special.expit(distribution.logits[i, j].item())
            total[i] += scipy.stats.bernoulli.logpmf(value, chance)
    return total


@every_elbo
@every_batch
@pytest.mark.parametrize("problem", [normal_problem, bernoulli_problem])
def test_deep_mixture_equals_the_looped_twin_at_the_same_draw(problem, objective, change):
    guide, batch = problem()
    batch = change(batch)
    twin = LoopedTwin.read(guide, batch)
    latent = guide.infer(batch).latent
    torch.manual_seed(11)
    noise = torch.randn(5, DIM)
    draw = latent.mean + (latent.root @ noise.unsqueeze(-1)).squeeze(-1)
    with torch.no_grad():
        expected = twin.elbo(log_emission(guide.model.emission, draw, batch.features))
    torch.manual_seed(11)
    assert elbo(guide, batch, objective) == pytest.approx(expected, rel=1e-9)
    assert_natural_gradients(guide, twin.natural_gradients())


def directional_derivative(guide: MessagePassingGuide, batch: Batch, parameters: list) -> tuple:
    """Of the ELBO along a random direction: by autograd, and by central differences."""
    directions = [torch.randn_like(parameter) for parameter in parameters]

    def at(step: float) -> float:
        torch.manual_seed(5)
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter += step * direction
        value = elbo(guide, batch)
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter -= step * direction
        return value

    numeric = (at(1e-5) - at(-1e-5)) / 2e-5
    at(0.0)
    pairs = zip(parameters, directions, strict=True)
    return -sum((p.grad * direction).sum().item() for p, direction in pairs), numeric


@pytest.mark.parametrize("problem", [normal_problem, bernoulli_problem])
def test_gradient_of_the_emission_network(problem):
    guide, batch = problem()
    ours, numeric = directional_derivative(
        guide, weighted(batch), list(guide.model.emission.parameters())
    )
    assert ours == pytest.approx(numeric, rel=1e-6)


@pytest.mark.parametrize("problem", [normal_problem, bernoulli_problem])
def test_gradient_of_the_recognition_network(problem):
    """Where q(z) is certain, the rounds that carry no gradient have none to carry."""
    guide, batch = problem()
    guide.posteriors["weights"].set_natural_parameters(torch.tensor([1e4, 1e-2, 1e-2]) - 1)
    assert guide.infer(batch).assignments[:, 0].min() > 1 - 1e-12
    ours, numeric = directional_derivative(
        guide, weighted(batch), list(guide.recognition.parameters())
    )
    assert ours == pytest.approx(numeric, rel=1e-6)


def expected_rate_terms(guide: MessagePassingGuide, worker: int, label: float) -> tuple:
    """E[log p(L | same)] and E[log p(L | different)]."""
    sensitivity, specificity = (
        BetaTwin(torch.stack(guide.posteriors[name].standard(), -1)[worker].numpy()).mean()
        for name in ("sensitivity", "specificity")
    )
    return (sensitivity[0], specificity[1]) if label else (sensitivity[1], specificity[0])


def test_answers_term_is_the_expectation_over_all_assignments():
    guide, batch = mixture_problem()
    q = guide.infer(batch).assignments.numpy()
    expected = 0.0
    for z in itertools.product(range(NUM_CLUSTERS), repeat=5):
        probability = math.prod(q[i, k] for i, k in enumerate(z))
        for i, j, worker, label in zip(
            batch.left, batch.right, batch.worker, batch.label, strict=True
        ):
            if_same, if_different = expected_rate_terms(guide, worker, label)
            expected += probability * (if_same if z[i] == z[j] else if_different)
    guide_trace = poutine.trace(guide).get_trace(batch)
    trace = poutine.trace(poutine.replay(guide.model, trace=guide_trace)).get_trace(batch)
    trace.compute_log_prob()
    assert trace.nodes["label"]["log_prob_sum"].item() == pytest.approx(expected, rel=1e-10)
    assert LoopedTwin.read(guide, batch).answers() == pytest.approx(expected, rel=1e-10)


def given_assignments(prior: Globals, batch: Batch, z: tuple[int, ...]) -> tuple[float, Globals]:
    """``log p(x, L, z)`` with all global parameters integrated out, and their exact posterior."""
    x, z = batch.features.numpy(), np.array(z)
    weights = DirichletTwin(prior.weights.alpha + np.bincount(z, minlength=NUM_CLUSTERS))
    components = [
        given_points(component, x[z == k]) for k, component in enumerate(prior.components)
    ]
    counts = {name: np.zeros((batch.num_workers, 2)) for name in ("sensitivity", "specificity")}
    for i, j, worker, label in zip(batch.left, batch.right, batch.worker, batch.label, strict=True):
        same = z[i] == z[j]
        counts["sensitivity" if same else "specificity"][worker, int(bool(label) != same)] += 1
    rates = {
        name: [
            BetaTwin(rate.alpha + count)
            for rate, count in zip(getattr(prior, name), of_workers, strict=True)
        ]
        for name, of_workers in counts.items()
    }
    posterior = Globals(weights, components, **rates)
    pairs = zip(posterior.rows().values(), prior.rows().values(), strict=True)
    joint = sum(
        after.log_normalizer() - before.log_normalizer()
        for rows in pairs
        for after, before in zip(*rows, strict=True)
    )
    return joint - x.size / 2 * math.log(2 * math.pi), posterior


def given_points(prior: NormalInverseWishartTwin, x: np.ndarray) -> NormalInverseWishartTwin:
    """The posterior of one component, point after point."""
    m, kappa, scale, nu = prior.location, prior.kappa, prior.scale, prior.nu
    for row in x:
        scale = scale + kappa / (kappa + 1) * np.outer(row - m, row - m)
        m = (kappa * m + row) / (kappa + 1)
        kappa, nu = kappa + 1, nu + 1
    return NormalInverseWishartTwin(m, kappa, scale, nu)


def test_the_evidence_of_points_is_a_product_of_predictions():
    """Normalizers against one Student-t prediction after the other."""
    prior = LoopedTwin.read(*mixture_problem()).prior.components[0]
    x, total = np.random.default_rng(0).normal(size=(4, DIM)), 0.0
    for number, row in enumerate(x):
        seen = given_points(prior, x[:number])
        freedom = seen.nu - DIM + 1
        shape = seen.scale * (seen.kappa + 1) / (seen.kappa * freedom)
        total += scipy.stats.multivariate_t.logpdf(row, seen.location, shape, df=freedom)
    ours = given_points(prior, x).log_normalizer() - prior.log_normalizer()
    assert ours - x.size / 2 * math.log(2 * math.pi) == pytest.approx(total, rel=1e-10)


def evidence_and_bound(guide: MessagePassingGuide, batch: Batch) -> tuple[float, float]:
    """``log p(x, L)``, and what the ELBO must be at the guide's q, over all assignments.

    ``sum_z q(z) (log p(x, L, z) - log q(z) - KL(q(Theta) || p(Theta | x, L, z)))``
    """
    twin, terms, bound = LoopedTwin.read(guide, batch), [], 0.0
    posterior = twin.posterior.rows()
    for z in itertools.product(range(NUM_CLUSTERS), repeat=len(batch.items)):
        joint, exact = given_assignments(twin.prior, batch, z)
        terms.append(joint)
        q = math.prod(twin.assignments[i, k] for i, k in enumerate(z))
        if q > 0:
            pairs = zip(posterior.values(), exact.rows().values(), strict=True)
            away = sum(kl_divergence(*row) for rows in pairs for row in zip(*rows, strict=True))
            bound += q * (joint - math.log(q) - away)
    return scipy.special.logsumexp(terms), bound


@pytest.mark.parametrize("trial", range(2))
def test_elbo_is_a_bound_on_the_exact_log_evidence(trial):
    torch.manual_seed(trial)
    guide, batch = mixture_problem(solver=LocalSolver(exchanges=60, damping=0.6))
    evidence, expected = evidence_and_bound(guide, batch)
    assert elbo(guide, batch) == pytest.approx(expected, rel=1e-10)
    assert expected < evidence
    optimizer = NaturalGradient(guide.posteriors.values(), step_size=1.0)
    for _ in range(60):
        elbo(guide, batch)
        optimizer.step()
    _, reached = evidence_and_bound(guide, batch)
    assert elbo(guide, batch) == pytest.approx(reached, rel=1e-10)
    assert expected < reached < evidence


def test_full_gradient_adds_nothing_at_an_exact_local_optimum():
    """The second term of eq. 17 is the slope of the bound in q(z), which is zero there."""
    solver = LocalSolver(exchanges=400, damping=0.6)
    guide, batch = mixture_problem(solver=solver)
    elbo(guide, batch)
    without = {name: q.natural_parameters.grad.clone() for name, q in guide.posteriors.items()}
    guide.full_gradient = True
    elbo(guide, batch)
    for name, posterior in guide.posteriors.items():
        torch.testing.assert_close(
            posterior.natural_parameters.grad, without[name], rtol=1e-8, atol=1e-8
        )


def test_full_gradient_matters_where_a_network_makes_the_potentials():
    guide, batch = normal_problem()
    torch.manual_seed(2)
    elbo(guide, batch)
    without = {name: q.natural_parameters.grad.clone() for name, q in guide.posteriors.items()}
    guide.full_gradient = True
    torch.manual_seed(2)
    elbo(guide, batch)
    for name, posterior in guide.posteriors.items():
        assert (posterior.natural_parameters.grad - without[name]).abs().max() > 1e-3, name


@pytest.mark.parametrize("problem", [mixture_problem, normal_problem, bernoulli_problem])
@pytest.mark.parametrize("answers", [True, False])
def test_full_gradient_against_finite_differences(problem, answers, monkeypatch):
    """Every site's gradient in its mean, through the last round of the local fixed point.

    Earlier rounds carry no gradient, by design: they are held at what they found, so that the last
    one is all that moves.
    """
    guide, batch = problem(full_gradient=True)
    batch = weighted(batch) if answers else without_answers(batch)
    first = torch.randn(5, NUM_CLUSTERS)
    heard = torch.randn(batch.num_paired, NUM_CLUSTERS).softmax(-1)
    monkeypatch.setattr(LocalConditionals, "first_logits", lambda self: first)
    monkeypatch.setattr(LocalSolver, "exchange", lambda *_: (None, heard))

    def at(parameter: Tensor, move: Tensor, of: Callable[[], float | Tensor]) -> float | Tensor:
        before = parameter.detach().clone()
        torch.manual_seed(5)
        with torch.no_grad():
            parameter += move
        value = of()
        with torch.no_grad():
            parameter.copy_(before)
        return value

    torch.manual_seed(5)
    elbo(guide, batch)
    gradients = {name: -q.natural_parameters.grad.clone() for name, q in guide.posteriors.items()}
    guide.full_gradient = False
    torch.manual_seed(5)
    elbo(guide, batch)
    others = [-q.natural_parameters.grad for q in guide.posteriors.values()]
    guide.full_gradient = True
    for name, posterior in guide.posteriors.items():
        eta = posterior.natural_parameters
        plate = eta.shape[:-1]
        ends = (random_natural(posterior.family, *plate) for _ in range(2))
        step = 1e-6 * torch.sub(*ends)  # symmetric where the parameters are
        after, before = (at(eta, sign * step, lambda: elbo(guide, batch)) for sign in (1, -1))
        moved = at(eta, step, posterior.mean) - at(eta, -step, posterior.mean)
        ours = (gradients[name] * moved).sum().item()
        assert ours == pytest.approx(after - before, rel=1e-4, abs=1e-10), name
    # Without networks and answers the last round is the best q(z), where the slope is zero.
    same = map(torch.allclose, gradients.values(), others)
    assert all(same) == (problem is mixture_problem and not answers)


def simulate(model: SemiCrowdsourcedMixture, batch: Batch) -> poutine.Trace:
    """Run the model without a guide, features and answers drawn as well."""
    empty = dataclasses.replace(batch, features=None, label=None)
    trace = poutine.trace(model).get_trace(empty)
    trace.compute_log_prob()
    return trace


@pytest.mark.parametrize("problem", [mixture_problem, normal_problem, bernoulli_problem])
def test_model_simulates(problem):
    guide, batch = problem()
    trace = simulate(guide.model, batch)
    z = trace.nodes["_RETURN"]["value"]
    assert z.shape == (5, NUM_CLUSTERS)
    assert (z.sort(-1).values == torch.tensor([0.0, 0.0, 1.0])).all()
    label = trace.nodes["label"]["value"]
    assert label.shape == (6,)
    assert label.unique().tolist() in ([0.0], [1.0], [0.0, 1.0])
    assert trace.log_prob_sum().isfinite()
    if not isinstance(guide.model.emission, Identity):
        assert not Moments.of(trace.nodes["x"]["value"]).root.any()
        assert trace.nodes["o"]["value"].shape == batch.features.shape


def test_simulated_answers_and_items_have_the_right_frequencies():
    model = some_model(Identity())
    num_items, num_pairs = 400, 40_000
    weights = torch.tensor([0.5, 0.3, 0.2])
    alpha, beta = torch.tensor([0.9, 0.6]), torch.tensor([0.8, 0.95])
    theta = model.components.family.sample(model.components.prior.natural_parameters)
    values = {
        "weights": weights.log(),
        "components": model.components.family.sufficient_statistics(theta),
        "sensitivity": Beta().sufficient_statistics(alpha),
        "specificity": Beta().sufficient_statistics(beta),
    }
    left = torch.randint(num_items, (num_pairs,))
    batch = dataclasses.replace(
        full_batch(CrowdData(torch.zeros(num_items, DIM))),
        left=left,
        right=(left + torch.randint(1, num_items, (num_pairs,))) % num_items,
        worker=torch.randint(2, (num_pairs,)),
        label=torch.zeros(num_pairs),
        pair_weight=torch.ones(num_pairs),
        answers=torch.arange(num_pairs),
        num_paired=num_items,
    )
    trace = simulate(poutine.condition(model, data=values), batch)

    def assert_frequency(draws: Tensor, chance: float) -> None:
        error = math.sqrt(chance * (1 - chance) / len(draws))
        assert abs(draws.mean().item() - chance) < 6 * error

    z = trace.nodes["_RETURN"]["value"]
    for k in range(NUM_CLUSTERS):
        assert_frequency(z[:, k], weights[k].item())
        mean = trace.nodes["x"]["value"][z[:, k] == 1]
        error = (theta.covariance[k].diagonal() / len(mean)).sqrt()
        assert ((mean.mean(0) - theta.mean[k]).abs() < 6 * error).all()
    together = (z[batch.left] == z[batch.right]).all(-1)
    for worker in range(2):
        label = trace.nodes["label"]["value"][batch.worker == worker]
        same = together[batch.worker == worker]
        assert_frequency(label[same], alpha[worker].item())
        assert_frequency(label[~same], 1 - beta[worker].item())
