"""Draws, likelihoods and importance weights of a fit, against scipy, sums and integrals."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import itertools
import math
import sys
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormal
from scipy.special import logsumexp

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.diagnostics import aligned_order, arviz, check_workers, pareto_k, to_arviz
from pyro_crowdclust.diagnostics.arviz_adapter import pareto_shape
from pyro_crowdclust.diagnostics.draws import global_draws, local_plates
from pyro_crowdclust.diagnostics.likelihood import item_log_likelihood, left_out_answers
from pyro_crowdclust.diagnostics.predictive import replicated_answers, same_cluster_draws
from pyro_crowdclust.emissions import NormalEmission, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP
from pyro_crowdclust.simulation import simulate_pages

from ..crowds import (
    NUM_CLUSTERS,
    NUM_FEATURES,
    NUM_WORKERS,
    amortized_pair,
    crowd,
    in_double,
    message_passing_pair,
    plain_mixture,
    plain_pair,
    quiet_fit,
)
from ..mixture_parts import COMPONENTS, WEIGHTS, guide_of, mixture, simulated

NUM_ITEMS = 40
IDS = [f"item-{(7 * i) % NUM_ITEMS:02d}" for i in range(NUM_ITEMS)]
MAKERS = {
    "plain": partial(plain_pair),
    "deep": message_passing_pair,
    "amortized": amortized_pair,
}
DRAWS = 40


@pytest.fixture(scope="module")
def fits() -> dict[str, Fitted]:
    data = crowd(NUM_ITEMS, item_ids=IDS)
    options = {
        "plain": {"batch_size": None, "step_size": 0.5, "epochs": 20},
        "deep": {"batch_size": None, "step_size": 0.5, "epochs": 15},
    }
    return in_double(
        lambda: {
            name: quiet_fit(*make(), data, **{"epochs": 5, **options.get(name, {})})
            for name, make in MAKERS.items()
        }
    )


@pytest.fixture(scope="module")
def plain(fits) -> Fitted:
    return fits["plain"]


@pytest.fixture(scope="module")
def tree(plain):
    return to_arviz(plain, DRAWS)


def one_chain(tree, group: str, name: str) -> np.ndarray:
    values = tree[group][name]
    assert values.sizes["chain"] == 1
    return values.values[0]


def separated(num_items: int = 60) -> CrowdData:
    """Clouds so far apart that z is known."""
    rng = np.random.default_rng(1)
    centers = np.array([[-60.0, 0.0], [60.0, 0.0], [0.0, 90.0]])
    return CrowdData(centers[np.arange(num_items) % 3] + rng.standard_normal((num_items, 2)))


@pytest.fixture(scope="module")
def known() -> Fitted:
    """A fit whose q is the exact posterior, but for clusters changing places."""
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3, 1.0), GaussianComponents(3, 2), plain_mixture().emission
    )
    return in_double(
        lambda: quiet_fit(
            model, MessagePassingGuide(model), separated(), batch_size=None, step_size=1.0, epochs=9
        )
    )


class TestPosterior:
    def test_draws_are_of_the_guide(self, plain):
        with plain.inside():
            draws = global_draws(plain, 4000)
        assert set(draws.sites) == {"weights", "components", "sensitivity", "specificity"}
        for name, site in draws.sites.items():
            mean = plain.guide.posteriors[name].mean()
            error = site.statistics.std(0) / np.sqrt(4000)
            assert ((site.statistics.mean(0) - mean).abs() < 5 * error + 1e-9).all()
            density = plain.guide.posteriors[name].distribution().log_prob(site.statistics)
            assert torch.isfinite(density).all()

    def test_names_dimensions_and_ids(self, tree):
        posterior = tree["posterior"]
        dims = {name: values.dims[2:] for name, values in posterior.data_vars.items()}
        assert dims == {
            "weights": ("cluster",),
            "component_mean": ("cluster", "dim"),
            "component_covariance": ("cluster", "dim", "dim_other"),
            "sensitivity": ("worker",),
            "specificity": ("worker",),
        }
        assert posterior["worker"].values.tolist() == [0, 1, 2]
        assert tree["log_likelihood"]["item"].values.tolist() == IDS
        assert posterior.sizes["draw"] == DRAWS
        np.testing.assert_allclose(one_chain(tree, "posterior", "weights").sum(1), 1.0)
        covariance = one_chain(tree, "posterior", "component_covariance")
        assert (np.linalg.eigvalsh(covariance) > 0).all()

    def test_points_do_not_vary(self, fits):
        tree = to_arviz(fits["amortized"], 3, log_likelihood=False)
        mixture = fits["amortized"].guide.mixture()
        for draw in range(3):
            drawn = one_chain(tree, "posterior", "component_covariance")[draw]
            order = fits["amortized"].cluster_order
            np.testing.assert_allclose(drawn, mixture.covariance[order])

    def test_the_same_seed_draws_the_same(self, plain, tree):
        again = to_arviz(plain, DRAWS)
        other = to_arviz(plain, DRAWS, log_likelihood=False, seed=7)
        for name in tree["posterior"].data_vars:
            np.testing.assert_array_equal(tree["posterior"][name], again["posterior"][name])
            assert not np.array_equal(tree["posterior"][name], other["posterior"][name])

    def test_it_is_a_method_of_the_result(self, plain):
        found = plain.to_arviz(4, log_likelihood=False)
        expected = to_arviz(plain, 4, log_likelihood=False)
        np.testing.assert_array_equal(
            found["posterior"]["weights"], expected["posterior"]["weights"]
        )


class TestOtherGroups:
    def test_data_by_the_users_ids(self, plain, tree):
        pairs, constant = plain.data.pairs, tree["constant_data"]
        assert constant["left"].values.tolist() == pairs["left"].tolist()
        assert constant["right"].values.tolist() == pairs["right"].tolist()
        assert constant["worker_of_answer"].values.tolist() == pairs["worker"].tolist()
        observed = tree["observed_data"]
        assert observed["answers"].values.tolist() == pairs["label"].tolist()
        np.testing.assert_array_equal(observed["features"], plain.data.features)
        np.testing.assert_allclose(constant["probabilities"][0], plain.probabilities)

    def test_history_and_attributes(self, plain, tree):
        np.testing.assert_array_equal(tree["sample_stats"]["elbo"][0], plain.history["elbo"])
        assert tree["sample_stats"]["epoch"].values.tolist() == list(range(1, 21))
        assert tree.attrs["inference_library"] == "pyro_crowdclust"
        assert tree["posterior"].attrs["seed"] == [0]
        assert tree["posterior"].attrs["guide"] == "MessagePassingGuide"

    def test_log_guide_is_the_density_of_the_draws(self, plain, tree):
        posteriors = plain.guide.posteriors
        sensitivity, specificity = (
            scipy.stats.beta(*(part.numpy() for part in posteriors[name].standard()))
            .logpdf(one_chain(tree, "posterior", name))
            .sum(1)
            for name in ("sensitivity", "specificity")
        )
        order = plain.cluster_order
        concentration = posteriors["weights"].standard().concentration.numpy()
        weights = scipy.stats.dirichlet(concentration[order])
        of_weights = weights.logpdf(one_chain(tree, "posterior", "weights").T)
        location, concentration, scale, degrees = (
            part.numpy()[order] for part in posteriors["components"].standard()
        )
        means, covariances = (
            one_chain(tree, "posterior", f"component_{name}") for name in ("mean", "covariance")
        )
        of_components = [
            sum(
                scipy.stats.multivariate_normal(location[k], cov[k] / concentration[k]).logpdf(
                    mean[k]
                )
                + scipy.stats.invwishart(degrees[k], scale[k]).logpdf(cov[k])
                for k in range(NUM_CLUSTERS)
            )
            for mean, cov in zip(means, covariances, strict=True)
        ]
        ours = one_chain(tree, "sample_stats", "log_guide")
        scipys = sensitivity + specificity + of_weights + of_components
        # Densities of theta and of t(theta) differ in the base measure: that of the rates and
        # weights is 1 here, that of a covariance |Sigma|^-(d + 2) from the convention's offsets.
        offset = ours - scipys
        log_determinants = np.linalg.slogdet(covariances)[1].sum(1)
        slope, constant = np.polyfit(log_determinants, offset, 1)
        np.testing.assert_allclose(offset, slope * log_determinants + constant, atol=1e-6)

    def test_a_part_of_many_items_and_answers(self, plain):
        tree = to_arviz(plain, 3, max_items=21, max_answers=5)
        likelihood = tree["log_likelihood"]
        assert likelihood.sizes["item"] == 21
        assert likelihood.sizes["answer"] == 5
        full = to_arviz(plain, 3)["log_likelihood"]["features"]
        np.testing.assert_allclose(
            likelihood["features"], full.sel(item=likelihood["item"].values), rtol=1e-10
        )


class TestLikelihood:
    def test_items_against_scipy(self, plain, tree):
        features = plain.data.features
        weights, means, covariances = (
            one_chain(tree, "posterior", name)
            for name in ("weights", "component_mean", "component_covariance")
        )
        for draw in (0, DRAWS - 1):
            terms = [
                np.log(weights[draw, k])
                + scipy.stats.multivariate_normal(means[draw, k], covariances[draw, k]).logpdf(
                    features
                )
                for k in range(NUM_CLUSTERS)
            ]
            found = one_chain(tree, "log_likelihood", "features")[draw]
            np.testing.assert_allclose(found, logsumexp(terms, axis=0), rtol=1e-8)

    def test_items_with_a_latent_against_an_integral(self):
        torch.manual_seed(3)
        emission = NormalEmission(SkipMLP((1, 5, 2)), 2)
        model = SemiCrowdsourcedMixture(
            DirichletWeights(2, 1.0), GaussianComponents(2, 1), emission
        )
        guide = MessagePassingGuide(
            model, GaussianRecognition(SkipMLP((2, 5, 2)), 1, initial_precision=0.5)
        )
        result = quiet_fit(model, guide, CrowdData(np.random.default_rng(0).normal(size=(12, 2))))
        with result.inside():
            draws = global_draws(result, 2)
            # Every item a hundred times, each with draws of its own.
            many = torch.arange(12).repeat(100)
            found = item_log_likelihood(result, draws, many, latent_draws=40).view(2, 100, 12)
            found = found.logsumexp(1) - math.log(100)
            grid = torch.linspace(-30, 30, 3_001)
            emitted = result.model.emission(grid[:, None])
            features = torch.as_tensor(result.data.features)
            of_features = torch.stack([emitted.log_prob(row) for row in features])
        for draw in range(2):
            weights = draws.sites["weights"].value[draw]
            mean, covariance = (part[draw] for part in draws.sites["components"].value)
            prior = sum(
                weights[k]
                * torch.distributions.Normal(mean[k, 0], covariance[k, 0, 0].sqrt())
                .log_prob(grid)
                .exp()
                for k in range(2)
            )
            integral = torch.trapezoid(of_features.exp() * prior, grid).log()
            torch.testing.assert_close(found[draw], integral, atol=0.05, rtol=0)

    def test_answers_against_a_sum_over_both_ends(self, plain, tree):
        pairs, q = plain.data.pairs, plain.probabilities
        sensitivity, specificity = (
            one_chain(tree, "posterior", name) for name in ("sensitivity", "specificity")
        )
        found = one_chain(tree, "log_likelihood", "answers")
        for row in (0, 17, 40):
            i, j = plain.data.item_positions(pairs.iloc[row][["left", "right"]])
            worker, label = pairs.iloc[row]["worker"], pairs.iloc[row]["label"]
            alpha, beta = sensitivity[:, worker], specificity[:, worker]
            inverse = 0.0
            for k in range(NUM_CLUSTERS):
                for other in range(NUM_CLUSTERS):
                    yes = alpha if k == other else 1 - beta
                    inverse += q[i, k] * q[j, other] / (yes if label else 1 - yes)
            np.testing.assert_allclose(found[:, row], -np.log(inverse), rtol=1e-9)

    def test_leaving_an_answer_out_by_bayes(self):
        # Prior of "same" 0.3, and one answer "yes": p(same | yes) back to p(yes).
        yes_if_same, yes_if_different = 0.9, 0.2
        evidence = 0.3 * yes_if_same + 0.7 * yes_if_different
        same = np.array([0.3 * yes_if_same / evidence])
        logs = [torch.tensor([[np.log(p)]]) for p in (yes_if_same, yes_if_different)]
        assert float(left_out_answers(*logs, same)) == pytest.approx(np.log(evidence))

    def test_replicated_answers_follow_the_rates(self, plain):
        answers = torch.arange(plain.data.num_pairs)
        with plain.inside():
            same = same_cluster_draws(plain, answers, 4000)
            yes = [torch.full_like(same, rate) for rate in (0.9, 0.2)]
            log_shares = [torch.stack([1 - one, one], 1).log() for one in yes]
            replicated = replicated_answers(same, *log_shares).numpy()
        pairs = plain.data.pairs
        expected = plain.same_cluster_probability(pairs["left"].tolist(), pairs["right"].tolist())
        error = 5 * 0.5 / np.sqrt(4000)
        np.testing.assert_allclose(same.mean(0), expected, atol=error)
        np.testing.assert_allclose(replicated.mean(0), 0.2 + 0.7 * expected, atol=error)
        # Both ends are drawn once for all answers about them: agreement is transitive.
        columns = {(i, j): c for c, (i, j) in enumerate(zip(pairs.left, pairs.right, strict=True))}
        triples = [
            (columns[i, j], columns[j, k], columns[i, k])
            for i, j in columns
            for k in IDS
            if (j, k) in columns and (i, k) in columns
        ]
        assert triples
        for one, two, three in triples:
            assert not ((same[:, one] == 1) & (same[:, two] == 1) & (same[:, three] == 0)).any()

    def test_replicated_features_are_those_of_the_cluster(self, known):
        """Clouds far apart: the mean and spread of every cloud, in the units of the data."""
        location, scale = np.array([5.0, -3.0]), np.array([10.0, 0.1])
        features = location + scale * known.data.features
        emission = Standardized(torch.tensor(location), torch.tensor(scale))
        model = SemiCrowdsourcedMixture(
            DirichletWeights(3, 1.0), GaussianComponents(3, 2), emission
        )
        result = quiet_fit(
            model, MessagePassingGuide(model), CrowdData(features), batch_size=None, step_size=1.0,
            epochs=9,
        )  # fmt: skip
        drawn = one_chain(to_arviz(result, 300), "posterior_predictive", "features")
        mean, concentration, spread, degrees = (
            part.numpy() for part in result.guide.posteriors["components"].standard()
        )
        for k in range(3):
            cloud = drawn[:, result.assignments == k].reshape(-1, 2)
            # The predictive density of a NIW posterior is Student's t.
            covariance = spread[k] * (1 + 1 / concentration[k]) / (degrees[k] - 3)
            standardized = (cloud - location) / scale
            np.testing.assert_allclose(standardized.mean(0), mean[k], atol=0.3)
            np.testing.assert_allclose(np.cov(standardized.T), covariance, atol=0.15, rtol=0.15)

    @pytest.mark.parametrize("name", MAKERS)
    def test_replicated_features_of_networks_have_the_shape_of_the_data(self, fits, name):
        drawn = one_chain(to_arviz(fits[name], 6), "posterior_predictive", "features")
        assert drawn.shape == (6, NUM_ITEMS, NUM_FEATURES)
        given = fits[name].data.features
        assert np.abs(drawn.mean((0, 1)) - given.mean(0)).max() < 3 * given.std(0).max()

    def test_networks_of_single_precision_simulate(self):
        torch.set_default_dtype(torch.float32)
        result = quiet_fit(*message_passing_pair(), crowd(NUM_ITEMS), dtype=torch.float32)
        tree = to_arviz(result, 3)
        assert tree["posterior_predictive"]["features"].dtype == np.float32
        assert np.isfinite(tree["posterior_predictive"]["features"]).all()

    def test_features_of_many_numbers_are_drawn_of_fewer_items(self, plain, monkeypatch):
        monkeypatch.setattr("pyro_crowdclust.diagnostics.exported_data._MOST_REPLICATED", 200)
        tree = to_arviz(plain, 5)
        replicated = tree["posterior_predictive"]["features"]
        assert replicated.sizes["item"] == 200 // (5 * NUM_FEATURES)
        assert set(replicated["item"].values) <= set(IDS)
        assert tree["log_likelihood"].sizes["item"] == NUM_ITEMS

    def test_exported_replicates(self, tree):
        predicted = one_chain(tree, "posterior_predictive", "answers")
        assert set(np.unique(predicted)) == {0, 1}
        assert predicted.shape == one_chain(tree, "log_likelihood", "answers").shape

    @pytest.mark.parametrize("name", ["plain", "deep"])
    def test_arviz_leaves_out_items_and_answers(self, fits, name):
        tree = to_arviz(fits[name], 200)
        for variable in ("features", "answers"):
            with warnings.catch_warnings():
                # A small sample: some tails are heavy, and ArviZ says so.
                warnings.filterwarnings("ignore", "Estimated shape parameter", UserWarning)
                loo = arviz().loo(tree, var_name=variable, pointwise=True)
            plain_mean = logsumexp(tree["log_likelihood"][variable].values[0], axis=0).sum()
            plain_mean -= tree["log_likelihood"].sizes[DIMENSION[variable]] * np.log(200)
            found = float(loo["elpd_loo"] if hasattr(loo, "elpd_loo") else loo.elpd)
            # What is left out is predicted worse than what was fitted, but not by much.
            assert plain_mean - 0.3 * abs(plain_mean) < found < plain_mean


DIMENSION = {"features": "item", "answers": "answer"}


class TestParetoK:
    def test_the_sign_of_the_log_ratios(self):
        # q = N(0, 1) misses the tails of p = N(0, 2): k is near 0.75. With the sign turned the
        # weights are bounded.
        q = torch.randn(4000).numpy()
        log_ratios = scipy.stats.norm(0, 2).logpdf(q) - scipy.stats.norm(0, 1).logpdf(q)
        assert 0.5 < pareto_shape(log_ratios) < 1.0
        assert pareto_shape(-log_ratios) < 0

    def test_equal_weights_have_no_tail(self):
        assert pareto_shape(np.zeros(100)) == -np.inf
        assert pareto_shape(np.append(np.zeros(99), -1.0)) == -np.inf

    def test_an_exact_posterior_has_equal_weights(self, known):
        found = pareto_k(known, 50)
        assert np.ptp(found.log_weights) < 1e-6
        assert found.log_weights.mean() == pytest.approx(known.elbo, abs=1e-6)
        assert found.sites == ("weights", "components")

    def test_draws_are_those_of_the_export(self, plain, tree):
        found = pareto_k(plain, DRAWS)
        np.testing.assert_allclose(found.log_guide, one_chain(tree, "sample_stats", "log_guide"))

    def test_a_guide_that_is_too_sure_is_found_at_its_site(self, known):
        sure = copy.deepcopy(known.guide)
        eta = sure.posteriors["weights"].natural_parameters
        with torch.no_grad():
            eta.copy_(20 * (eta + 1) - 1)
        wrong = dataclasses.replace(known, guide=sure)
        assert pareto_k(wrong, 500, sites=["weights"]).k > 0.7
        assert np.ptp(pareto_k(wrong, 50, sites=["components"]).log_weights) < 1e-6

    def test_weights_average_to_the_evidence(self):
        # One component's worth of data: the evidence by summing over all assignments.
        rng = np.random.default_rng(0)
        features = np.concatenate([rng.normal(-2, 1, (3, 1)), rng.normal(2, 1, (3, 1))])
        model = SemiCrowdsourcedMixture(
            DirichletWeights(2, 2.0), GaussianComponents(2, 1), plain_mixture().emission
        )
        result = quiet_fit(
            model, MessagePassingGuide(model), CrowdData(features), batch_size=None, epochs=1
        )
        # The prior as q covers both orders of the clusters; weights are then likelihoods.
        for name, posterior in result.guide.posteriors.items():
            posterior.set_natural_parameters(model.priors()[name].natural_parameters)
        weights = pareto_k(result, 1200).log_weights
        average = logsumexp(weights) - np.log(1200)
        error = np.exp(weights - average).std() / np.sqrt(1200)
        assert error < 0.2
        assert average == pytest.approx(exact_evidence(model, features), abs=4 * error)

    def test_points_have_no_weights(self, fits):
        with pytest.raises(ValueError, match="points"):
            pareto_k(fits["amortized"])

    def test_bad_input(self, plain):
        with pytest.raises(ValueError, match="at least 30"):
            pareto_k(plain, 10)
        with pytest.raises(ValueError, match=r"\['nobody'\] are not random global sites.*weights"):
            pareto_k(plain, 30, sites=["nobody"])


def exact_evidence(model, features: np.ndarray) -> float:
    """log p(features): Dirichlet-multinomial times NIW marginals, over all assignments."""
    family, prior = model.components.family, model.priors()
    weights = prior["weights"]
    eta = prior["components"].natural_parameters
    x = torch.as_tensor(features)
    statistics = family.observation_statistics(family.observed(x))
    terms = []
    for code in range(2 ** len(x)):
        z = torch.tensor([(code >> i) & 1 for i in range(len(x))])
        one_hot = torch.nn.functional.one_hot(z, 2).double()
        counts = weights.natural_parameters + one_hot.sum(0)
        term = weights.family.log_normalizer(counts) - weights.log_normalizer
        posterior = eta + one_hot.mT @ statistics
        term = term + (family.log_normalizer(posterior) - family.log_normalizer(eta)).sum()
        terms.append(float(term + len(x) * family.log_base_measure(x)))
    return float(logsumexp(terms))


class TestRestarts:
    def test_clusters_in_another_order_are_put_back(self, plain):
        order = torch.tensor([2, 0, 1])
        moved = copy.deepcopy(plain.guide)
        with torch.no_grad():
            for name in ("weights", "components"):
                eta = moved.posteriors[name].natural_parameters
                eta.copy_(eta[order].clone())
        by_size = dataclasses.replace(plain, guide=moved)
        np.testing.assert_allclose(plain.probabilities, by_size.probabilities)
        # Of two fits that differ the second follows the first.
        other = dataclasses.replace(plain, guide=moved)
        other.__dict__["cluster_order"] = by_size.cluster_order[[1, 2, 0]]
        assert aligned_order(plain.probabilities, other.probabilities).tolist() == [2, 0, 1]
        tree = to_arviz([plain, other], 400, log_likelihood=False)
        first, second = tree["posterior"]["component_mean"].values
        spread = first.std(0) / np.sqrt(400)
        assert (np.abs(first.mean(0) - second.mean(0)) < 8 * spread).all()
        rhat = arviz().rhat(tree, var_names=["component_mean", "weights"])
        values = rhat["component_mean"].values
        assert values.max() < 1.05
        np.testing.assert_allclose(
            tree["constant_data"]["probabilities"][0], tree["constant_data"]["probabilities"][1]
        )

    def test_fits_that_disagree_show(self, plain):
        moved = copy.deepcopy(plain.guide)
        with torch.no_grad():
            eta = moved.posteriors["components"].natural_parameters
            eta[0] = eta[1]
        tree = to_arviz([plain, dataclasses.replace(plain, guide=moved)], 100, log_likelihood=False)
        assert arviz().rhat(tree, var_names=["component_mean"])["component_mean"].max() > 1.5

    def test_histories_of_different_length(self, plain):
        shorter = dataclasses.replace(plain, history=plain.history.iloc[:5])
        elbo = to_arviz([shorter, plain], 3, log_likelihood=False)["sample_stats"]["elbo"]
        assert elbo.sizes["epoch"] == 20
        assert np.isnan(elbo.values[0, 5:]).all()
        np.testing.assert_array_equal(elbo.values[1], plain.history["elbo"])

    def test_bad_input(self, plain, known):
        with pytest.raises(ValueError, match="list is empty"):
            to_arviz([])
        with pytest.raises(ValueError, match="num_draws is 0"):
            to_arviz(plain, 0)
        with pytest.raises(ValueError, match="fit 1 is of CrowdData.*same data"):
            to_arviz([plain, known])
        with pytest.raises(ValueError, match="same number of clusters"):
            aligned_order(np.ones((4, 2)), np.ones((4, 3)))


class TestAnyPyroModel:
    @staticmethod
    def heights(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        sd = pyro.sample("sd", dist.LogNormal(0.0, 1.0))
        with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
            pyro.sample("o", dist.Normal(mean, sd), obs=batch.features[:, 0])

    @pytest.fixture
    def fitted(self) -> Fitted:
        measured = 3 + 2 * np.random.default_rng(0).standard_normal((50, 1))
        return quiet_fit(
            self.heights, AutoNormal(self.heights), CrowdData(measured), epochs=300,
            batch_size=None, optim=partial(torch.optim.Adam, lr=0.05),
        )  # fmt: skip

    def test_posterior_and_likelihood(self, fitted):
        tree = to_arviz(fitted, 60)
        assert set(tree["posterior"].data_vars) == {"mean", "sd"}
        mean, sd = (one_chain(tree, "posterior", name) for name in ("mean", "sd"))
        expected = scipy.stats.norm(mean[:, None], sd[:, None]).logpdf(fitted.data.features[:, 0])
        found = one_chain(tree, "log_likelihood", "features")
        np.testing.assert_allclose(found, expected, rtol=1e-8)
        assert mean.mean() == pytest.approx(fitted.data.features.mean(), abs=0.3)

    def test_pareto_k(self, fitted):
        # A normal posterior of a mean and a log deviation, from 50 points: nearly normal itself.
        assert pareto_k(fitted, 400).k < 0.7
        with pytest.raises(ValueError, match="together"):
            pareto_k(fitted, 30, sites=["mean"])

    def test_delta_guides_are_points(self):
        data = CrowdData(np.random.default_rng(0).normal(size=(9, 1)))
        fitted = quiet_fit(self.heights, AutoDelta(self.heights), data, batch_size=None)
        with pytest.raises(ValueError, match="points"):
            pareto_k(fitted)

    def test_a_model_written_out_in_an_example(self, monkeypatch):
        path = Path(__file__).resolve().parents[2] / "examples" / "minimal.py"
        spec = importlib.util.spec_from_file_location("minimal_example", path)
        minimal = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "minimal_example", minimal)
        spec.loader.exec_module(minimal)
        features = np.random.default_rng(0).normal(size=(30, 2))
        pairs = {"left": [0, 1, 2], "right": [3, 4, 5], "worker": [0, 1, 19], "label": [1, 0, 1]}
        pairs = pd.concat([pd.DataFrame(pairs)] + [
            pd.DataFrame({"left": [6], "right": [7], "worker": [w], "label": [1]})
            for w in range(2, 19)
        ])  # fmt: skip
        fitted = quiet_fit(
            minimal.model, minimal.Guide(), CrowdData(features, pairs), batch_size=None, epochs=3,
            initialize=minimal.k_means_start,
        )  # fmt: skip
        tree = to_arviz(fitted, 30)
        assert tree["posterior"]["components_mean"].dims[2] == "cluster"
        assert tree["posterior"]["sensitivity"].dims[2] == "worker"
        rates = one_chain(tree, "posterior", "sensitivity")[:, 0]
        wrong = one_chain(tree, "posterior", "specificity")[:, 0]
        same = fitted.same_cluster_probability(0, 3)
        expected = -np.log(same / rates + (1 - same) / (1 - wrong))
        np.testing.assert_allclose(one_chain(tree, "log_likelihood", "answers")[:, 0], expected)
        assert np.isfinite(tree["log_likelihood"]["features"]).all()
        assert np.isfinite(pareto_k(fitted, 30).k)

    def test_local_plates_are_those_that_grow(self, plain):
        with plain.inside():
            assert local_plates(plain) == {"items"}


class TestAnyMixture:
    """Every component family and every kind of weights, by the traces alone."""

    @pytest.mark.parametrize(
        ("weights", "components"), [*zip(itertools.cycle(WEIGHTS), COMPONENTS)]
    )
    def test_posterior_likelihood_and_weights(self, weights, components):
        model = mixture(weights, components)
        features, _ = simulated(model)
        result = quiet_fit(
            model, guide_of(model), CrowdData(features), batch_size=None, step_size=1.0, epochs=4
        )
        tree = to_arviz(result, 25)
        drawn = one_chain(tree, "posterior", "weights")
        np.testing.assert_allclose(drawn.sum(1), 1, rtol=1e-6)
        named = {name: v.dims[2:] for name, v in tree["posterior"].data_vars.items()}
        assert all(dims[0] == "cluster" for dims in named.values())
        assert any(name.startswith("component") for name in named)
        # log sum_k pi_k p(o | theta_k), with p in its exponential-family form if it has one.
        family = model.components.family
        with result.inside():
            draws = global_draws(result, 25)
        observed = model.components.observe(features)
        for draw in (0, 24):
            statistics = draws.sites["components"].statistics[draw]
            if model.components.is_linear:
                scores = family.observation_statistics(observed) @ statistics.mT
            else:
                density, _ = model.components.of_rows(statistics, has_gaps=False)
                scores = density.log_likelihoods(statistics, observed)
            scores = scores[:, result.cluster_order] + torch.as_tensor(drawn[draw]).log()
            scores = scores + torch.as_tensor(family.log_base_measure(observed)).reshape(-1, 1)
            found = one_chain(tree, "log_likelihood", "features")[draw]
            np.testing.assert_allclose(found, scores.logsumexp(1), rtol=1e-6)
        assert np.isfinite(pareto_k(result, 30).k)
        replicated = one_chain(tree, "posterior_predictive", "features")
        assert replicated.shape == (25, *features.shape)
        for drawn in replicated[[0, 24]]:
            model.components.check(torch.as_tensor(drawn))  # of the support, in the same columns

    def test_summed_out_assignments_change_nothing(self):
        spelled_out = mixture("dirichlet", "gaussian")
        features, _ = simulated(spelled_out)
        parts = spelled_out.weights, spelled_out.components, spelled_out.emission
        summed_out = SemiCrowdsourcedMixture(*parts, sum_out_assignments=torch.float64)
        options = {"batch_size": None, "step_size": 1.0, "epochs": 4}
        results = [
            quiet_fit(model, guide_of(model), CrowdData(features), **options)
            for model in (spelled_out, summed_out)
        ]
        with results[0].inside():
            draws = global_draws(results[0], 5)
        one, other = (
            item_log_likelihood(result, draws, torch.arange(len(features))) for result in results
        )
        torch.testing.assert_close(one, other, rtol=1e-8, atol=0)
        replicated = one_chain(to_arviz(results[1], 5), "posterior_predictive", "features")
        assert replicated.shape == (5, *features.shape)
        # With the same data and q the weights of importance have the same mean.
        one, other = (pareto_k(result, 200).log_weights for result in results)
        assert abs(one.mean() - other.mean()) < 5 * (one.std() + other.std()) / np.sqrt(200)

    def test_a_poisson_mixture_against_scipy(self):
        model = mixture("dirichlet", "poisson")
        features, _ = simulated(model)
        result = quiet_fit(
            model, guide_of(model), CrowdData(features), batch_size=None, step_size=1.0, epochs=4
        )
        tree = to_arviz(result, 3)
        weights, rates = (one_chain(tree, "posterior", n) for n in ("weights", "component"))
        for draw in range(3):
            terms = [
                np.log(weight) + scipy.stats.poisson(rate).logpmf(features).sum(1)
                for weight, rate in zip(weights[draw], rates[draw], strict=True)
            ]
            found = one_chain(tree, "log_likelihood", "features")[draw]
            np.testing.assert_allclose(found, logsumexp(terms, axis=0), rtol=1e-8)


class TestWorkerChecks:
    def test_errors_in_bursts_show_on_the_worst_page(self):
        rng = np.random.default_rng(0)
        truth = np.arange(60) % NUM_CLUSTERS
        features = 8.0 * np.eye(NUM_CLUSTERS, NUM_FEATURES)[truth]
        features = features + 0.3 * rng.standard_normal(features.shape)
        rates = [0.9] * NUM_WORKERS
        pairs = simulate_pages(
            truth, rates, rates, pages_per_worker=12, page_size=5, items=range(60), seed=2
        )
        pairs = pairs[pairs["left"] != pairs["right"]]
        # Worker 0 errs as often as before, but all on one page.
        right = (truth[pairs["left"]] == truth[pairs["right"]]).astype(int)
        of_first = pairs["worker"] == 0
        pairs.loc[of_first, "label"] = right[of_first]
        page = pairs.loc[of_first, "page"].iloc[0]
        burst = of_first & (pairs["page"] == page)
        pairs.loc[burst, "label"] = 1 - right[burst]
        model = plain_mixture()
        result = quiet_fit(
            model, MessagePassingGuide(model), CrowdData(features, pairs), batch_size=None,
            step_size=0.5, epochs=25,
        )  # fmt: skip
        table = check_workers(result, 60)
        assert table.index.tolist() == [0, 1, 2]
        assert table.loc[0, "worst_page_p"] < 0.05
        assert (table.loc[[1, 2], "worst_page_p"] > 0.02).all()
        assert table["agreement_p"].between(0.01, 0.99).all()
        assert table.loc[0, "agreement"] == pytest.approx(
            (of_first & ~burst).sum() / of_first.sum()
        )
        assert (table["agreement_lower"] <= table["agreement_upper"]).all()
        given = result.data.pairs.groupby("worker")["label"].mean()
        np.testing.assert_allclose(table["said_same"], given)

    def test_ties_count_half(self):
        """Of a worker with one answer, said_same is the answer, drawn anew it is often the same."""
        pairs = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": [0, 1, 2], "label": [1, 0, 1]}
        model = plain_mixture()
        features = np.random.default_rng(0).standard_normal((6, NUM_FEATURES))
        result = quiet_fit(
            model, MessagePassingGuide(model), CrowdData(features, pairs), batch_size=None
        )
        table = check_workers(result, 200)
        said, drawn = table["said_same"], table["said_same_replicated"]
        assert said.tolist() == [1, 0, 1]
        expected = np.where(said == 1, 1 - drawn / 2, (1 - drawn) / 2)
        np.testing.assert_allclose(table["said_same_p"], expected)
        assert drawn.between(0.05, 0.95).all()

    def test_one_cluster_agrees_with_every_same(self):
        pairs = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": [0, 0, 0], "label": [1, 0, 1]}
        parts = DirichletWeights(1), GaussianComponents(1, 2), plain_mixture().emission, TwoCoin(1)
        model = SemiCrowdsourcedMixture(*parts)
        data = CrowdData(np.random.default_rng(0).standard_normal((6, 2)), pairs)
        result = quiet_fit(model, MessagePassingGuide(model), data, batch_size=None)
        assert check_workers(result, 20).loc[0, "agreement"] == pytest.approx(2 / 3)
        with pytest.raises(ValueError, match="num_draws is 0, but must be at least 1"):
            check_workers(result, 0)
        with pytest.raises(ValueError, match="num_draws is '9', but must be a whole number"):
            check_workers(result, "9")

    def test_without_answers(self, known):
        with pytest.raises(ValueError, match="no answers"):
            check_workers(known)


def test_a_loaded_fit_says_no_more_than_that_it_has_no_features(plain, tmp_path):
    plain.save(tmp_path / "fit.safetensors")
    with pytest.raises(ValueError, match=r"as load\(path, data=CrowdData\(features, ...\)\)$"):
        to_arviz(load(tmp_path / "fit.safetensors"), 3)


def test_version_one_gets_a_data_tree(plain, monkeypatch):
    import xarray

    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__="1.3.0"))
    tree = to_arviz(plain, 3)
    assert isinstance(tree, xarray.DataTree)
    assert tree["posterior"]["weights"].sizes["draw"] == 3
    assert tree.attrs["inference_library"] == "pyro_crowdclust"


def test_version_one_reads_what_was_written(plain, tree, tmp_path):
    """Everything else in this file runs under both, too; this is what only 1.x has."""
    module = arviz()
    if module.__version__.startswith("0."):
        pytest.skip(f"ArviZ {module.__version__} is installed: `make arviz1` runs this with 1.x")
    import xarray

    result = to_arviz(plain, 60)
    importance = pareto_k(plain, 60)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter", UserWarning)
        loo = module.loo_approximate_posterior(
            result, log_p=importance.log_joint, log_q=importance.log_guide, var_name="features"
        )
    assert np.isfinite(loo.elpd)
    assert module.summary(result, var_names=["sensitivity"]).shape[0] == NUM_WORKERS
    tree.to_netcdf(tmp_path / "fit.nc")
    with xarray.open_datatree(tmp_path / "fit.nc") as again:
        xarray.testing.assert_equal(again["posterior"].dataset, tree["posterior"].dataset)
        assert again.attrs["inference_library"] == "pyro_crowdclust"


def test_exporting_uses_no_generator_of_the_caller(plain):
    before = torch.get_rng_state()
    to_arviz(plain, 3)
    pareto_k(plain, 30)
    assert torch.equal(before, torch.get_rng_state())
    assert full_batch(plain.data).num_items == NUM_ITEMS


@pytest.mark.parametrize("has_gaps", [False, True])
def test_likelihoods_are_of_features_whatever_the_components_are_on(has_gaps):
    """By the mixture of the drawn Gaussians, which are in the units of the features."""
    features = np.random.default_rng(0).normal(size=(30, 2)) * [50.0, 0.1] + [7.0, 2.0]
    if has_gaps:
        features[::3, 1] = np.nan
    units = torch.tensor([7.0, 2.0]), torch.tensor([50.0, 0.1])
    model = SemiCrowdsourcedMixture(
        DirichletWeights(2), GaussianComponents(2, 2), Standardized(*units)
    )
    options = {"batch_size": None, "step_size": 1.0, "epochs": 3, "dtype": torch.float64}
    result = quiet_fit(model, guide_of(model), CrowdData(features), **options)
    tree = to_arviz(result, 2)
    weights, means, covariances = (
        one_chain(tree, "posterior", name)[1]
        for name in ("weights", "component_mean", "component_covariance")
    )
    for row, found in zip(features, one_chain(tree, "log_likelihood", "features")[1], strict=True):
        seen = ~np.isnan(row)
        density = sum(
            weight
            * scipy.stats.multivariate_normal.pdf(row[seen], mean[seen], cov[np.ix_(seen, seen)])
            for weight, mean, cov in zip(weights, means, covariances, strict=True)
        )
        assert found == pytest.approx(np.log(density))
