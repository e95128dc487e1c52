from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np
import pyro
import pytest
import scipy.special
import torch
from pyro.infer import Trace_ELBO
from torch import Tensor, nn

from pyro_crowdclust.distributions import (
    Assignment,
    ComponentObservation,
    ConjugatePosterior,
    ConjugatePrior,
    TwoCoinAnswer,
)
from pyro_crowdclust.families import (
    REGISTRY,
    Beta,
    Dirichlet,
    ExponentialFamily,
    Gaussian,
    NormalInverseWishart,
)
from pyro_crowdclust.training import NaturalGradient, RobbinsMonro, natural_gradient

from ..comparisons import same
from ..oracles import is_conjugate_prior, log_marginal, random_natural

# Without redundant coordinates (a matrix of one row has none) the Fisher information is regular.
REGULAR = [Dirichlet(4), Beta(), Gaussian(1), NormalInverseWishart(1)]


def gradients(family: ExponentialFamily) -> tuple[Tensor, Tensor, Tensor]:
    """Natural gradient of some function of the mean, its plain gradient, Fisher information."""
    eta = random_natural(family)
    slope, curvature = torch.randn(2, family.size)

    def function(mean: Tensor) -> Tensor:
        return slope @ mean + (curvature * mean).sin().sum()

    natural, plain = eta.clone().requires_grad_(), eta.clone().requires_grad_()
    function(family.natural_gradient_mean(natural)).backward()
    function(family.expected_statistics(plain)).backward()
    fisher = torch.autograd.functional.hessian(family.log_normalizer, eta)
    return natural.grad, plain.grad, fisher


@pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY.keys())
def test_fisher_information_maps_the_natural_gradient_to_the_plain_one(family):
    natural, plain, fisher = gradients(family)
    assert (natural - plain).abs().max() > 1e-3
    # Redundant coordinates, such as the two halves of a symmetric matrix, carry no information;
    # what a plain gradient says of their difference depends on how the matrix is read.
    informative = fisher @ torch.linalg.pinv(fisher, hermitian=True)
    same(fisher @ natural, informative @ plain, 1e-9)


@pytest.mark.parametrize("family", REGULAR, ids=str)
def test_natural_gradient_is_inverse_fisher_times_the_plain_one(family):
    natural, plain, fisher = gradients(family)
    same(natural, torch.linalg.solve(fisher, plain), 1e-8)


@pytest.mark.parametrize("family", REGISTRY.values(), ids=REGISTRY.keys())
def test_natural_gradient_mean_is_the_mean(family):
    eta = random_natural(family, 3)
    same(family.natural_gradient_mean(eta), family.expected_statistics(eta))


class ConjugateProblem:
    """One conjugate prior, its likelihood as a Pyro model of fixed data, and its posterior.

    ``posterior`` and ``evidence`` are the textbook's, in standard parameters and scipy's functions.
    """

    def __init__(
        self,
        prior: ConjugatePrior,
        observe: Callable[[Tensor], None],
        posterior: Tensor,
        evidence: float,
    ) -> None:
        self.prior, self.observe = prior, observe
        self.posterior, self.evidence = posterior, evidence
        self.guide = ConjugatePosterior(prior)
        self.guide.set_natural_parameters(random_natural(prior.family, *posterior.shape[:-1]))
        self.eta = self.guide.natural_parameters

    def _plate(self) -> AbstractContextManager:
        size = self.prior.plate_size
        return nullcontext() if size is None else pyro.plate("plate", size)

    def model(self) -> None:
        with self._plate():
            theta = pyro.sample("theta", self.prior.distribution())
        self.observe(theta)

    def sample(self) -> None:
        with self._plate():
            pyro.sample("theta", self.guide.distribution())

    def elbo(self) -> float:
        """The ELBO, leaving its negative's gradient in ``eta.grad``."""
        self.eta.grad = None
        loss = Trace_ELBO().differentiable_loss(self.model, self.sample)
        loss.backward()
        return -loss.item()


def dirichlet_categorical() -> ConjugateProblem:
    alpha = torch.tensor([0.3, 1.0, 2.5])
    z = torch.tensor([0, 2, 2, 1, 0, 2, 2])
    counts = torch.tensor([2.0, 1.0, 4.0])

    def observe(theta: Tensor) -> None:
        with pyro.plate("items", len(z)):
            pyro.sample("z", Assignment(theta), obs=nn.functional.one_hot(z, 3).double())

    evidence = scipy.special.loggamma([2.3, 2.0, 6.5]) - scipy.special.loggamma([0.3, 1.0, 2.5])
    evidence = evidence.sum() + scipy.special.loggamma(3.8) - scipy.special.loggamma(10.8)
    family = Dirichlet(3)
    prior = ConjugatePrior(family, family.natural(alpha))
    return ConjugateProblem(prior, observe, family.natural(alpha + counts), evidence)


def beta_bernoulli() -> ConjugateProblem:
    """Two workers: the sensitivity of pairs that are surely in the same cluster."""
    worker = torch.tensor([0, 0, 1, 0, 1, 1, 1])
    label = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    yes, no = torch.tensor([2.0, 3.0]), torch.tensor([1.0, 1.0])
    unused = torch.zeros(7, 2)

    def observe(theta: Tensor) -> None:
        with pyro.plate("pairs", 7):
            pyro.sample("label", TwoCoinAnswer(torch.ones(7), theta[worker], unused), obs=label)

    evidence = scipy.special.betaln(0.7 + yes.numpy(), 1.9 + no.numpy())
    evidence = evidence.sum() - 2 * scipy.special.betaln(0.7, 1.9)
    family = Beta()
    prior = ConjugatePrior(family, family.natural(torch.tensor(0.7), torch.tensor(1.9)), 2)
    exact = family.natural(0.7 + yes, 1.9 + no)
    return ConjugateProblem(prior, observe, exact, evidence)


def niw_gaussian() -> ConjugateProblem:
    """Three clusters, one of them empty, with Murphy's posterior (2007, section 9)."""
    dim, kappa, degrees = 2, 0.4, 3.5
    location, scale = torch.tensor([0.5, -1.0]), torch.tensor([[2.0, 0.3], [0.3, 1.0]])
    z = torch.tensor([0, 0, 2, 0, 2])
    x = torch.randn(5, dim) * 2

    family = NormalInverseWishart(dim)
    one_hot = nn.functional.one_hot(z, 3).double()

    def observe(theta: Tensor) -> None:
        with pyro.plate("items", 5):
            likelihood = ComponentObservation(family, theta, one_hot, family.observation_size)
            pyro.sample("x", likelihood, obs=x)

    rows, evidence = [], 0.0
    for k in range(3):
        own = x[z == k]
        count = len(own)
        mean = own.mean(0) if count else location
        scatter = sum((torch.outer(row - mean, row - mean) for row in own), torch.zeros(dim, dim))
        shift = torch.outer(mean - location, mean - location)
        kappa_n, degrees_n = kappa + count, degrees + count
        scale_n = scale + scatter + kappa * count / kappa_n * shift
        location_n = (kappa * location + count * mean) / kappa_n
        rows.append(
            family.natural(
                location_n, torch.tensor(kappa_n), scale_n, torch.tensor(degrees_n).double()
            )
        )
        evidence += (
            -count * dim / 2 * math.log(math.pi)
            + scipy.special.multigammaln(degrees_n / 2, dim)
            - scipy.special.multigammaln(degrees / 2, dim)
            + degrees / 2 * np.linalg.slogdet(scale)[1]
            - degrees_n / 2 * np.linalg.slogdet(scale_n)[1]
            + dim / 2 * math.log(kappa / kappa_n)
        )
    eta = family.natural(location, torch.tensor(kappa), scale, torch.tensor(degrees))
    return ConjugateProblem(ConjugatePrior(family, eta, 3), observe, torch.stack(rows), evidence)


def mixture_of(family: ExponentialFamily) -> ConjugateProblem:
    """Three clusters, one of them empty, of any family; evidence by the chain rule."""
    eta = random_natural(family)
    statistics = family.sufficient_statistics(family.sample(eta.expand(5, -1)))
    x, z = family.sample_observation(statistics), torch.tensor([0, 0, 2, 0, 2])
    one_hot = nn.functional.one_hot(z, 3).double()

    def observe(theta: Tensor) -> None:
        with pyro.plate("items", 5):
            likelihood = ComponentObservation(family, theta, one_hot, family.observation_size)
            pyro.sample("x", likelihood, obs=x)

    posterior, evidence = eta.repeat(3, 1), 0.0
    for row, k in zip(x, z.tolist(), strict=True):
        evidence += log_marginal(family, posterior[k], row)
        posterior[k] += family.observation_statistics(row)
    return ConjugateProblem(ConjugatePrior(family, eta, 3), observe, posterior, evidence)


MIXTURES = {
    name: family
    for name, family in REGISTRY.items()
    if is_conjugate_prior(family) and name not in ("beta", "dirichlet")
}
every_problem = pytest.mark.parametrize(
    "make",
    [dirichlet_categorical, beta_bernoulli, niw_gaussian]
    + [pytest.param(partial(mixture_of, family), id=name) for name, family in MIXTURES.items()],
)


@every_problem
def test_one_step_at_rate_one_is_the_exact_posterior(make):
    problem = make()
    before = problem.elbo()
    NaturalGradient([problem.guide], step_size=1.0).step()
    same(problem.eta.detach(), problem.posterior)
    after = problem.elbo()
    same(problem.eta.grad, torch.zeros_like(problem.eta))
    assert before < after
    # At the exact posterior the bound is tight: constants count.
    assert after == pytest.approx(problem.evidence, abs=1e-10)


@every_problem
def test_a_step_is_a_convex_combination(make):
    problem = make()
    start = problem.eta.detach().clone()
    optimizer = NaturalGradient([problem.guide], step_size=1.0)
    optimizer.set_step_size(0.3)
    problem.elbo()
    optimizer.step()
    same(problem.eta.detach(), 0.7 * start + 0.3 * problem.posterior)
    assert optimizer.num_halvings == 0


@every_problem
def test_gradient_of_the_guide_is_the_whole_natural_gradient(make):
    """Nothing may flow into eta beside the mean, e.g. from the log-density of the guide."""
    problem = make()
    problem.elbo()
    same(problem.eta.grad, problem.eta.detach() - problem.posterior)


def beta_rows(*pseudo_counts: tuple[float, float]) -> ConjugatePosterior:
    family = Beta()
    tau = torch.tensor(pseudo_counts)
    prior = ConjugatePrior(family, family.natural(tau[:, 0], tau[:, 1]), len(tau))
    return ConjugatePosterior(prior)


def test_guard_halves_row_by_row_until_the_row_is_valid():
    posterior = beta_rows((1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0))
    # Pseudo-counts 1 - rate 5 are positive from rate 1/8 on, 1 - rate 1.5 from 1/2 on.
    posterior.natural_parameters.grad = torch.tensor(
        [[0.5, -0.5], [5.0, 1.0], [0.2, 1.5], [-3.0, -4.0]]
    )
    optimizer = NaturalGradient([posterior], step_size=1.0)
    optimizer.step()
    expected = torch.tensor(
        [[0.5, 1.5], [1 - 5 / 8, 1 - 1 / 8], [1 - 0.2 / 2, 1 - 1.5 / 2], [4.0, 5.0]]
    )
    same(torch.stack(posterior.standard(), -1), expected)
    assert optimizer.num_halvings == 3


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_guard_keeps_a_row_that_cannot_be_repaired(bad):
    posterior = beta_rows((1.0, 2.0), (1.0, 2.0))
    posterior.natural_parameters.grad = torch.tensor([[bad, 0.1], [0.5, -0.5]])
    NaturalGradient([posterior], step_size=1.0).step()
    same(torch.stack(posterior.standard(), -1), torch.tensor([[1.0, 2.0], [0.5, 2.5]]))


def test_guard_gives_up_after_many_halvings(monkeypatch):
    monkeypatch.setattr(natural_gradient, "_MAX_HALVINGS", 2)
    posterior = beta_rows((1.0, 1.0), (1.0, 1.0))
    posterior.natural_parameters.grad = torch.tensor([[5.0, 1.0], [1.5, 1.0]])
    NaturalGradient([posterior], step_size=1.0).step()
    same(torch.stack(posterior.standard(), -1), torch.tensor([[1.0, 1.0], [0.25, 0.5]]))


def test_guard_keeps_matrices_positive_definite():
    family = NormalInverseWishart(2)
    prior = ConjugatePrior(family, random_natural(family, 3), 3)
    posterior = ConjugatePosterior(prior)
    before = posterior.natural_parameters.detach().clone()
    gradient = torch.zeros(3, family.size)
    gradient[1, 2:6] = 20 * torch.eye(2).flatten()
    posterior.natural_parameters.grad = gradient
    NaturalGradient([posterior], step_size=1.0).step()
    after = posterior.natural_parameters.detach()
    assert family.in_domain(after).all()
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not torch.equal(after[1], before[1])


def test_a_posterior_without_gradient_stays():
    posterior = beta_rows((1.0, 2.0))
    NaturalGradient([posterior], step_size=1.0).step()
    same(torch.stack(posterior.standard(), -1), torch.tensor([[1.0, 2.0]]))


def test_an_optimizer_needs_posteriors():
    with pytest.raises(ValueError, match="posteriors is empty"):
        NaturalGradient([])


def test_posteriors_and_priors_refuse_parameters_outside_the_domain():
    family = Beta()
    outside = torch.tensor([-1.0, 0.0])
    with pytest.raises(ValueError, match="outside the domain"):
        ConjugatePrior(family, outside)
    with pytest.raises(ValueError, match="outside the domain"):
        beta_rows((1.0, 1.0)).set_natural_parameters(outside)


def test_robbins_monro():
    steps = [RobbinsMonro(0.5, delay=4.0, forgetting=0.6)(step) for step in range(2000)]
    assert steps[0] == 0.5
    assert steps[4] == pytest.approx(0.5 * 2**-0.6)
    assert all(later < earlier for earlier, later in itertools.pairwise(steps))
    # Only the product of log-rate and exponent decides how the tail falls: t^(-0.6).
    assert math.log(steps[1999] / steps[999]) / math.log(2003 / 1003) == pytest.approx(-0.6)
    assert RobbinsMonro(0.1, forgetting=0.0)(10**6) == 0.1


@pytest.mark.parametrize(
    "arguments",
    [
        {"initial": 0.0},
        {"initial": 1.1},
        {"delay": 0.0},
        {"forgetting": -0.1},
        {"forgetting": 1.1},
    ],
)
def test_robbins_monro_refuses_what_cannot_converge(arguments):
    with pytest.raises(ValueError, match="needs 0 < initial"):
        RobbinsMonro(**arguments)
