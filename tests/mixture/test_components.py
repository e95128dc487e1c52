from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import scipy.special
import torch
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import (
    BernoulliComponents,
    CategoricalComponents,
    Components,
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    HurdleGaussianComponents,
    MixedComponents,
    MultinomialComponents,
    PoissonComponents,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..comparisons import same
from ..crowds import fit_plain, quiet_fit
from ..mixture_parts import CLUSTERS, COMPONENTS, CONJUGATE, WEIGHTS, guide_of, mixture, simulated
from ..oracles import log_marginal

every_components = pytest.mark.parametrize("make", COMPONENTS.values(), ids=COMPONENTS.keys())


def test_coordinates_of_counts():
    """Roots of shares, whose distance is Hellinger's; Anscombe's, of deviation 1 at any rate."""
    words = torch.tensor([[4.0, 0.0], [9.0, 16.0], [0.0, 0.0]])
    found = MultinomialComponents(2, 2).coordinates(words)
    same(found, torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 0.0]]))
    poisson = PoissonComponents(2, 3)
    same(poisson.coordinates(torch.zeros(1, 3)), torch.full((1, 3), 1.5).sqrt())
    drawn = torch.poisson(torch.tensor([5.0, 20.0, 80.0]).expand(20_000, 3))
    same(poisson.coordinates(drawn).std(0), torch.ones(3), 0.04)


@every_components
def test_features_make_the_round_trip(make):
    components = make()
    model = SemiCrowdsourcedMixture(DirichletWeights(CLUSTERS), components, Identity())
    features, _ = simulated(model, 7)
    assert features.shape == (7, components.num_features)
    components.check(features)
    observed = components.observe(features.float())
    assert observed.dtype == torch.float64
    same(components.features(observed), features, 1e-6)


def log_evidence_of_component(components: Components, observed: Tensor) -> float:
    """By the chain rule, one textbook prediction after the other."""
    family, eta, total = components.family, components.prior.natural_parameters[0], 0.0
    for x in observed:
        total += log_marginal(family, eta, x)
        eta = eta + family.observation_statistics(x)
    return total


@pytest.mark.long
@pytest.mark.parametrize(("weights", "components"), [*itertools.product(WEIGHTS, CONJUGATE)])
def test_elbo_is_a_bound_on_the_exact_log_evidence(weights, components):
    """Every assignment in turn, with weights and components integrated out."""
    model = mixture(weights, components)
    features, _ = simulated(model, 4)
    observed, prior = model.components.observe(features), model.weights.prior
    own = {
        chosen: log_evidence_of_component(model.components, observed[list(chosen)])
        for size in range(5)
        for chosen in itertools.combinations(range(4), size)
    }
    result = fit_plain(model, guide_of(model), CrowdData(features), epochs=30)
    guide = result.guide
    q_z = torch.as_tensor(result.guide.infer(full_batch(result.data)).assignments)
    statistics = model.components.family.observation_statistics(observed)
    terms, expected = [], 0.0
    for z in itertools.product(range(CLUSTERS), repeat=4):
        one_hot = torch.eye(CLUSTERS)[list(z)]
        exact = {
            "weights": prior.natural_parameters + model.weights.count_statistics(one_hot.sum(0)),
            "components": model.components.prior.natural_parameters + one_hot.mT @ statistics,
        }
        pair = torch.stack([exact["weights"], prior.natural_parameters])
        after, before = prior.family.log_normalizer(pair).reshape(2, -1).sum(-1)
        terms.append(float(after - before))
        for k in range(CLUSTERS):
            terms[-1] += own[tuple(i for i in range(4) if z[i] == k)]
        q = float(torch.stack([q_z[i, k] for i, k in enumerate(z)]).prod())
        if q:
            away = sum(
                float(
                    guide.posteriors[name]
                    .family.kl_divergence(guide.posteriors[name].natural_parameters.detach(), eta)
                    .sum()
                )
                for name, eta in exact.items()
            )
            expected += q * (terms[-1] - math.log(q) - away)
    evidence = scipy.special.logsumexp(terms)
    # Below the evidence by exactly what q is away from the posterior.
    assert result.elbo == pytest.approx(expected, rel=1e-9)
    assert result.elbo < evidence


ONE_CLUSTER = {
    "gaussian": lambda: GaussianComponents(1, 2),
    "diagonal gaussian": lambda: DiagonalGaussianComponents(1, 2, degrees=3.0),
    "categorical": lambda: CategoricalComponents(1, (3, 2, 4)),
    "multinomial": lambda: MultinomialComponents(1, 6, length=20),
    "bernoulli": lambda: BernoulliComponents(1, 6),
    "poisson": lambda: PoissonComponents(1, 3),
    "hurdle": lambda: HurdleGaussianComponents(1, 2),
    "mixed": lambda: MixedComponents([PoissonComponents(1, 1), GaussianComponents(1, 1)]),
}


@pytest.mark.parametrize("name", ONE_CLUSTER)
def test_the_elbo_of_one_cluster_is_the_log_evidence(name):
    """No approximation is left, so every constant of the base measure counts."""
    components = ONE_CLUSTER[name]()
    model = SemiCrowdsourcedMixture(DirichletWeights(1), components, Identity())
    features, _ = simulated(model, 9)
    result = fit_plain(model, MessagePassingGuide(model), CrowdData(features), epochs=2)
    expected = log_evidence_of_component(components, components.observe(features))
    assert result.elbo == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "bad", "remedy"),
    [
        (
            lambda: CategoricalComponents(3, (3, 2, 4)),
            2.0,
            "codes 0, 1, .* \\(3, 2, 4\\): recode the column",
        ),
        (lambda: CategoricalComponents(3, (3, 2, 4)), -1.0, "with pandas.factorize"),
        (lambda: CategoricalComponents(3, (3, 3, 4)), 1.5, "categorical components need codes"),
        (lambda: MultinomialComponents(3, 3), 0.25, "multinomial components need counts .*tf-idf"),
        (lambda: MultinomialComponents(3, 3), -2.0, "multinomial components need counts"),
        (lambda: BernoulliComponents(3, 3), 0.5, "Bernoulli components need 0 or 1: threshold"),
        (lambda: BernoulliComponents(3, 3), 2.0, "BernoulliEmission, which accepts all of"),
        (lambda: PoissonComponents(3, 3), 1.5, "Poisson components need counts 0, 1, 2"),
        (lambda: PoissonComponents(3, 3), -1.0, "Poisson components need counts 0, 1, 2"),
    ],
)
@pytest.mark.parametrize("row", [0, 4999])
def test_features_outside_the_support_are_named(make, bad, remedy, row):
    components = make()
    features = np.zeros((5000, 3))
    features[row, 1] = bad
    model = SemiCrowdsourcedMixture(DirichletWeights(3), components, Identity())
    message = rf"row {row}, column 1 of the features is {re.escape(f'{bad:g}')}, but .*{remedy}"
    with pytest.raises(ValueError, match=message):
        quiet_fit(model, MessagePassingGuide(model), CrowdData(features))


@pytest.mark.parametrize("num_categories", [(), (2, 0)])
def test_columns_without_categories(num_categories):
    with pytest.raises(ValueError, match="must give a number of categories, 1 or more"):
        CategoricalComponents(3, num_categories)


def test_components_of_another_number_of_features():
    model = SemiCrowdsourcedMixture(DirichletWeights(3), PoissonComponents(3, 4), Identity())
    with pytest.raises(ValueError, match="7 features, .*build PoissonComponents for 7 features"):
        quiet_fit(model, MessagePassingGuide(model), CrowdData(np.eye(7)))


CLEAR = {
    "gaussian": (lambda: GaussianComponents(4, 2), lambda z: 6 * CORNERS[z] + torch.randn(90, 2)),
    "diagonal gaussian": (
        # A feature on another scale, which would drown the other in Euclidean distances.
        lambda: DiagonalGaussianComponents(4, 2, scale=torch.tensor([1.5, 1.5 * 40**2])),
        lambda z: torch.tensor([1.0, 40.0]) * (6 * CORNERS[z] + torch.randn(90, 2)),
    ),
    "categorical": (
        lambda: CategoricalComponents(4, (3,) * 8),
        lambda z: torch.where(torch.rand(90, 8) < 0.8, z[:, None], torch.randint(3, (90, 8))),
    ),
    "multinomial": (
        lambda: MultinomialComponents(4, 12),
        # Documents of very different lengths.
        lambda z: torch.stack(
            [
                torch.distributions.Multinomial(int(n), TOPICS[k]).sample()
                for k, n in zip(z.tolist(), torch.randint(20, 300, (90,)), strict=True)
            ]
        ),
    ),
    "bernoulli": (
        lambda: BernoulliComponents(4, 15),
        lambda z: torch.bernoulli(0.1 + 0.8 * (torch.arange(15) % 3 == z[:, None])),
    ),
    "poisson": (
        lambda: PoissonComponents(4, 4),
        lambda z: torch.poisson(torch.tensor([2.0, 12.0, 60.0])[z][:, None].expand(90, 4)),
    ),
    "mixed": (
        lambda: MixedComponents(
            [DiagonalGaussianComponents(4, 1), BernoulliComponents(4, 6), PoissonComponents(4, 2)]
        ),
        lambda z: torch.cat(
            [
                6 * CORNERS[z][:, :1] + torch.randn(90, 1),
                torch.bernoulli(0.1 + 0.8 * (z[:, None] == 2).expand(90, 6)),
                torch.poisson(torch.tensor([20.0, 20.0, 60.0])[z][:, None].expand(90, 2)),
            ],
            -1,
        ),
    ),
}


CORNERS = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


TOPICS = torch.eye(3).repeat_interleave(4, 1) + 0.2


@pytest.mark.parametrize("name", CLEAR)
def test_the_default_start_finds_clear_clusters(name):
    """With room for four, a fit from the default start keeps the three that there are."""
    make, draw = CLEAR[name]
    clusters = torch.arange(90) % 3
    features = draw(clusters).double()
    model = SemiCrowdsourcedMixture(DirichletWeights(4, 0.1), make(), Identity())
    data = CrowdData(features)
    fits = [
        fit_plain(model, MessagePassingGuide(model), data, epochs=25, seed=seed)
        for seed in range(3)
    ]
    best = max(fits, key=lambda result: result.elbo)
    assert clustering_accuracy(clusters, best.assignments) > 0.9


def test_a_summary_is_the_mean_of_the_items():
    """With many items the prior has no say."""
    clusters = torch.arange(3000) % 3
    parts = [
        GaussianComponents(3, 2),
        DiagonalGaussianComponents(3, 1),
        CategoricalComponents(3, (2, 3)),
        BernoulliComponents(3, 1),
        PoissonComponents(3, 1),
        MultinomialComponents(3, 2),
    ]
    features = torch.cat(
        [
            torch.randn(3000, 3) + clusters[:, None],
            torch.randint(2, (3000, 1)),
            torch.randint(3, (3000, 1)),
            torch.bernoulli((1 + clusters[:, None]) / 5),
            torch.poisson((1.0 + clusters[:, None]) * 3),
            torch.randint(5, (3000, 2)),
        ],
        -1,
    ).double()
    components = MixedComponents(parts)
    counts = torch.eye(3)[clusters].mT
    statistics = components.family.observation_statistics(components.observe(features))
    eta = components.prior.natural_parameters + counts @ statistics
    location, covariance = components.summary(eta)
    assert covariance is None
    labels = components.column_labels([*"abcdefghi"])
    assert labels == ["a", "b", "c", "d=0", "d=1", "e=0", "e=1", "e=2", "f", "g", "h", "i"]
    for k in range(3):
        own = features[clusters == k]
        one_hot = [own[:, [3]] == torch.arange(2), own[:, [4]] == torch.arange(3)]
        shares = own[:, 7:].sum(0) / own[:, 7:].sum()
        expected = torch.cat(
            [own[:, :3].mean(0), *(part.double().mean(0) for part in one_hot), own[:, 5:7].mean(0)]
        )
        torch.testing.assert_close(location[k], torch.cat([expected, shares]), rtol=2e-3, atol=2e-3)
    own_eta = components.family.split(eta)
    spread = [parts[i].summary(own_eta[i]).covariance for i in range(2)]
    for k in range(3):
        own = features[clusters == k]
        torch.testing.assert_close(spread[0][k], own[:, :2].mT.cov(), rtol=0.02, atol=0.02)
        torch.testing.assert_close(spread[1][k], own[:, 2:3].var(0), rtol=0.02, atol=0.02)


def test_the_table_of_components():
    features = torch.cat([torch.bernoulli(torch.full((30, 1), 0.5)), torch.randn(30, 1)], -1)
    components = MixedComponents(
        [GaussianComponents(3, 1), CategoricalComponents(3, (2,))], columns=[[1], [0]]
    )
    model = SemiCrowdsourcedMixture(DirichletWeights(3), components, Identity())
    result = fit_plain(model, MessagePassingGuide(model), CrowdData(features))
    assert result.components.columns.tolist() == [1, "0=0", "0=1"]
    np.testing.assert_allclose(result.components[["0=0", "0=1"]].sum(axis=1), 1)


def test_discrete_components_have_no_latents():
    with pytest.raises(NotImplementedError, match="PoissonComponents cannot be on latents"):
        PoissonComponents(3, 2).latent_statistics(torch.zeros(3, 4))


def test_a_step_at_rate_one_is_the_exact_posterior_given_assignments():
    """Whatever the components: eta = eta0 + sum_n q(z_n) u(x_n), and then the gradient is zero."""
    for name in CONJUGATE:
        model = mixture("dirichlet", name)
        features, _ = simulated(model, 12)
        guide, data = guide_of(model), CrowdData(features)
        before = fit_plain(model, guide, data, epochs=1).guide
        batch = full_batch(data)
        q = before.infer(batch).assignments
        after = fit_plain(before.model, before, data, epochs=1, initialize=None).guide
        statistics = model.components.family.observation_statistics(
            model.components.observe(batch.features)
        )
        expected = model.components.prior.natural_parameters + q.mT @ statistics
        same(after.posteriors["components"].natural_parameters.detach(), expected)
