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
from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.families import GaussianParameters, IndependentNormals, Moments
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
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
    StickBreakingWeights,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP

from ..crowds import crowd, fit_plain, quiet_fit
from ..mixture_parts import CLUSTERS, COMPONENTS, CONJUGATE, WEIGHTS, guide_of, mixture, simulated
from ..oracles import log_marginal

every_components = pytest.mark.parametrize("make", COMPONENTS.values(), ids=COMPONENTS.keys())


def same(actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_components_in_other_units_have_the_density_of_the_features():
    location, scale, x = torch.tensor([3.0, -1.0]), torch.tensor([0.5, 4.0]), torch.randn(5, 2)
    covariance = torch.tensor([[2.0, 0.4], [0.4, 0.7]])
    full = GaussianParameters(torch.randn(2), covariance)
    independent = IndependentNormals(torch.randn(2), torch.tensor([0.3, 2.0]))
    normal = torch.distributions.MultivariateNormal
    moved = GaussianComponents(1, 2).in_units(full, location, scale)
    moved_alone = DiagonalGaussianComponents(1, 2).in_units(independent, location, scale)
    alone, after = (
        normal(one.mean, precision_matrix=one.precision.diag())
        for one in (independent, moved_alone)
    )
    for before, other in ((normal(*full), normal(*moved)), (alone, after)):
        expected = before.log_prob(x) - scale.log().sum()
        same(other.log_prob(location + scale * x), expected)


def test_a_covariance_is_the_mean_where_there_is_one_and_a_point_the_mode():
    components, spread = GaussianComponents(1, 2), torch.tensor([[2.0, 0.4], [0.4, 0.7]])
    for degrees, divisor in ((2.5, 5.5), (3.5, 0.5), (7.0, 4.0)):
        kappa, nu = torch.tensor([0.5]), torch.tensor([degrees])
        eta = components.family.natural(torch.zeros(1, 2), kappa, spread[None], nu)
        same(components.summary(eta).covariance[0], spread / divisor)
        same(components.point(eta).covariance[0], spread / (degrees + 3))


def test_a_learned_prior_counts_as_a_thousand_items_at_most():
    """The variance that it expects stays."""
    components = DiagonalGaussianComponents(1, 1)
    family, one = components.family, torch.ones(1)
    sharp = family.natural(0 * one, one, 1e5 * one, 3e5 * one)
    found = components.learned_prior(family.expected_statistics(sharp))
    _, _, shape, rate = family.standard(found)
    same(shape, 500 * one)
    same(rate / shape, 3 * one, 1e-3)
    full = GaussianComponents(1, 2)
    degrees = torch.tensor(1e5)
    sharp = full.family.natural(torch.zeros(2), torch.tensor(1.0), degrees * torch.eye(2), degrees)
    learned = full.learned_prior(full.family.expected_statistics(sharp))
    same(full.family.standard(learned).degrees, torch.tensor(1002.0))


def test_the_nearest_independent_components_have_the_variances():
    components = DiagonalGaussianComponents(2, 2)
    covariance = torch.tensor([[2.0, 0.4], [0.4, 0.7]]).expand(2, 2, 2)
    given = GaussianParameters(torch.randn(2, 2), covariance)
    mean, found = components.gaussian(components.from_gaussian(given))
    same(mean, given.mean)
    same(found, torch.diag(torch.tensor([2.0, 0.7])).expand(2, 2, 2))


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


def test_every_feature_of_mixed_components_has_the_same_say():
    """In coordinates a part of m features has variance m together; one item alone has none."""
    parts = [GaussianComponents(2, 2), PoissonComponents(2, 1)]
    components = MixedComponents(parts)
    features = torch.cat([70 * torch.randn(50, 2), torch.poisson(torch.full((50, 1), 9.0))], 1)
    found = components.coordinates(features).var(0)
    same(torch.stack([found[:2].sum(), found[2]]), torch.tensor([2.0, 1.0]))
    one = features[:1]
    same(components.coordinates(one), torch.cat([one[:, :2], parts[1].coordinates(one[:, 2:])], 1))


def test_mixed_components_name_the_column_of_the_data():
    inner = MixedComponents(
        [BernoulliComponents(3, 1), PoissonComponents(3, 1)], columns=[[1], [0]]
    )
    components = MixedComponents([GaussianComponents(3, 1), inner], columns=[[1], [2, 0]])
    good = torch.tensor([[1.0, -0.3, 7.0]])
    components.check(good)
    for column, bad, what in [(0, 0.5, "Bernoulli"), (2, -1.0, "Poisson")]:
        features = good.clone()
        features[0, column] = bad
        with pytest.raises(ValueError, match=f"row 10, column {column} of .*, but {what}"):
            components.check(features, first_row=10)
    assert components.column_labels(["a", "b", "c"]) == ["b", "a", "c"]
    same(components.features(components.observe(good)), good)


@pytest.mark.parametrize(
    ("parts", "columns", "message"),
    [
        ([], None, r"parts have \[\] clusters"),
        ([(3, 1), (4, 1)], None, r"parts have \[3, 4\] clusters: give"),
        ([(3, 1), (3, 2)], [[0], [1]], r"the parts take \[1, 2\] columns: give every column"),
        ([(3, 1), (3, 2)], [[0], [0, 1]], "give every column from 0 to 2 to one part"),
    ],
)
def test_mixed_components_that_do_not_fit(parts, columns, message):
    with pytest.raises(ValueError, match=message):
        MixedComponents([BernoulliComponents(*part) for part in parts], columns)


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


def one_dimensional(components: Components, deep: bool) -> SemiCrowdsourcedMixture:
    emission = NormalEmission(SkipMLP((1, 4, 3)), 3) if deep else Identity()
    return SemiCrowdsourcedMixture(StickBreakingWeights(3), components, emission)


@pytest.mark.parametrize("deep", [False, True], ids=["features", "latents"])
def test_in_one_dimension_diagonal_and_full_components_are_the_same(deep):
    """All of a fit: bounds, assignments, posteriors."""
    torch.manual_seed(0)
    data, results = CrowdData(torch.randn(40, 3 if deep else 1)), []
    for components in (GaussianComponents(3, 1), DiagonalGaussianComponents(3, 1)):
        model = one_dimensional(components, deep)
        recognition = GaussianRecognition(SkipMLP((3, 4, 2)), 1) if deep else None
        guide = MessagePassingGuide(model, recognition)
        results.append(quiet_fit(model, guide, data, epochs=3, step_size=0.5))
    full, diagonal = results
    np.testing.assert_allclose(diagonal.history["elbo"], full.history["elbo"], rtol=1e-9)
    np.testing.assert_allclose(diagonal.probabilities, full.probabilities, atol=1e-9)
    a, b = full.guide.mixture(), diagonal.guide.mixture()
    same(b.location, a.location)
    same(b.covariance, a.covariance.squeeze(-1))


def test_diagonal_components_on_latents_score_as_on_features():
    """The embedding in the layout of the full Gaussian, at known latents."""
    components = DiagonalGaussianComponents(CLUSTERS, 3)
    eta = components.prior.natural_parameters + torch.rand(CLUSTERS, 12)
    statistics = components.family.expected_statistics(eta)
    x = torch.randn(6, 3)
    on_features = components.family.observation_statistics(x) @ statistics.mT
    family = components.latent_family
    moments = Moments.point(x).flat()
    on_latents = (
        family.observation_statistics(moments) @ components.latent_statistics(statistics).mT
    )
    same(on_latents, on_features)


def test_variances_have_a_mean_or_else_a_mode():
    """Of Gamma(a, b) precisions: b / (a - 1) for a above 1, else b / (a + 1)."""
    components = DiagonalGaussianComponents(2, 1)
    shape, rate = torch.tensor([[3.0], [0.5]]), torch.tensor([[4.0], [6.0]])
    ones = torch.ones(2, 1)
    eta = components.family.natural(0 * ones, ones, shape, rate)
    assert components.summary(eta).covariance.flatten().tolist() == [2.0, 4.0]
    # A point estimate starts at the mode of every variance.
    variance = 1 / components.point(eta).precision.flatten()
    assert variance.tolist() == pytest.approx([1.0, 4.0])


def test_discrete_components_have_no_latents():
    with pytest.raises(NotImplementedError, match="PoissonComponents cannot be on latents"):
        PoissonComponents(3, 2).latent_statistics(torch.zeros(3, 4))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("components", [GaussianComponents, DiagonalGaussianComponents])
def test_point_estimates_of_any_weights_and_gaussian_components(weights, components):
    """SCDC starts at the posterior means, learns, merges, and reads back what it holds."""
    data = crowd()
    model = SemiCrowdsourcedMixture(
        WEIGHTS[weights](),
        components(CLUSTERS, 2),
        NormalEmission(SkipMLP((2, 5, 4)), 4),
    )
    data = CrowdData(data.features)
    guide = AmortizedGuide(model, AmortizedRecognition((4, 5, 5), 2, CLUSTERS))
    result = quiet_fit(model, guide, data, epochs=2, callbacks=[MergeMoves()])
    mixture = result.guide.mixture()
    assert mixture.weights.sum().item() == pytest.approx(1)
    assert mixture.location.shape == (CLUSTERS, 2)
    torch.linalg.cholesky(mixture.covariance)
    assert math.isfinite(result.elbo)
    assert result.components.shape == (CLUSTERS, 2)
    before = mixture.weights
    first, second = 1, 3
    total = (before[first] + before[second]).item()
    empty = result.guide.merge(first, second)
    after = result.guide.mixture()
    kept = first + second - empty
    assert after.weights[kept].item() == pytest.approx(total, abs=1e-5)
    share = before[[first, second]] / total
    center = share @ mixture.location[[first, second]]
    torch.testing.assert_close(after.location[kept], center)
    if components is DiagonalGaussianComponents:
        off_diagonal = after.covariance - after.covariance.diagonal(dim1=-2, dim2=-1).diag_embed()
        assert not off_diagonal.any()


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
