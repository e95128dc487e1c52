"""Importance weights of a fit, against an exact posterior, wrong ones and the evidence."""

from __future__ import annotations

import copy
import dataclasses
import itertools

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from scipy.special import logsumexp

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import pareto_k
from pyro_crowdclust.guides import EnumeratedGuide, MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import ClassTable

from ..crowds import plain_mixture, quiet_fit
from ..plain_mixtures import adam, fit_mixture, normal_guide, two_clouds, with_answers
from .exports import DRAWS, one_chain


def test_an_exact_posterior_has_equal_weights(known):
    found = pareto_k(known, 50)
    assert np.ptp(found.log_weights) < 1e-6
    assert found.log_weights.mean() == pytest.approx(known.elbo, abs=1e-6)
    assert found.sites == ("weights", "components")


def test_items_count_with_the_weight_that_they_have_in_the_bound(known):
    """Of clear clusters q is next to exact, of items that count a tenth as well."""
    labels = np.where(np.arange(60) < 6, np.arange(60) % 3, -1)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3, 1.0),
        GaussianComponents(3, 2),
        plain_mixture().emission,
        supervision=ClassTable(3, 3, unlabeled_weight=0.1),
    )
    data = CrowdData(known.data.features, known=labels)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 9, "dtype": torch.float64}
    result = quiet_fit(model, MessagePassingGuide(model), data, **options)
    found = pareto_k(result, 30)
    assert found.log_weights.mean() == pytest.approx(result.elbo, abs=0.1)
    assert np.ptp(found.log_weights) < 1


def test_draws_are_those_of_the_export(plain, tree):
    found = pareto_k(plain, DRAWS)
    np.testing.assert_allclose(found.log_guide, one_chain(tree, "sample_stats", "log_guide"))


def test_a_guide_that_is_too_sure_is_found_at_its_site(known):
    sure = copy.deepcopy(known.guide)
    eta = sure.posteriors["weights"].natural_parameters
    with torch.no_grad():
        eta.copy_(20 * (eta + 1) - 1)
    wrong = dataclasses.replace(known, guide=sure)
    assert pareto_k(wrong, 500, sites=["weights"]).k > 0.7
    assert np.ptp(pareto_k(wrong, 50, sites=["components"]).log_weights) < 1e-6


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


@pytest.mark.long
def test_weights_average_to_the_evidence():
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


def test_enumerated_assignments_are_summed_out_at_the_draws_of_the_export():
    """Of a plain mixture whose guide has no z, by its formula."""
    result = fit_mixture(epochs=5)
    found, tree = pareto_k(result, DRAWS), result.to_arviz(DRAWS)
    weights, location = (one_chain(tree, "posterior", name) for name in ("weights", "location"))
    log_items = scipy.stats.norm(location[:, None], 1).logpdf(result.data.features)
    exact = logsumexp(log_items + np.log(weights)[:, None], axis=2).sum(1)
    exact += scipy.stats.norm(0, 10).logpdf(location).sum(1)
    exact += scipy.stats.dirichlet([2, 2]).logpdf(weights.T)
    np.testing.assert_allclose(found.log_joint, exact, rtol=1e-6)
    log_guide = one_chain(tree, "sample_stats", "log_guide")
    np.testing.assert_allclose(found.log_guide, log_guide, rtol=1e-6)


def test_sites_in_several_precisions_are_summed_in_the_widest():
    """Of a fit in one precision with priors in the other; Pyro's own bound refuses these."""
    data, found = two_clouds(60), []
    for dtype in (torch.float32, torch.float64):
        guide = normal_guide(narrow, "z")
        result = quiet_fit(narrow, guide, data, epochs=5, optim=adam, batch_size=None, dtype=dtype)
        found.append(pareto_k(result, DRAWS))
    one, other = found
    np.testing.assert_allclose(one.log_joint, other.log_joint, rtol=1e-4)


def narrow(batch):
    """Half of the items are in each cluster, which is said in float32."""
    with pyro.plate("cluster", 2):
        location = pyro.sample("location", dist.Normal(0.0, 10.0))
    with pyro.plate("items", batch.num_items, subsample=batch.items):
        half = dist.Categorical(torch.ones(2, dtype=torch.float32))
        z = pyro.sample("z", half, infer={"enumerate": "parallel"})
        pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])


def test_assignments_of_a_guide_that_hears_answers_are_summed_out():
    """It is a bound, and near where few answers tie few items: draws of z would stray above it."""
    pairs = {"left": [0, 0, 1], "right": [1, 2, 3], "worker": ["a"] * 3, "label": [1, 1, 0]}
    data = two_clouds(4, pairs)
    guide = EnumeratedGuide(with_answers, normal_guide(with_answers, "z", "same"))
    result = quiet_fit(with_answers, guide, data, epochs=2, batch_size=None, optim=adam)
    found, tree = pareto_k(result, DRAWS), result.to_arviz(DRAWS)
    location, right = (one_chain(tree, "posterior", name) for name in ("location", "right"))
    log_items = scipy.stats.norm(location[:, None], 1).logpdf(data.features) + np.log(0.5)
    log_prior = scipy.stats.norm(0, 10).logpdf(location).sum(1)
    log_prior += scipy.stats.beta(8, 2).logpdf(right)
    terms = []
    for z in map(np.array, itertools.product(range(2), repeat=4)):
        agree = (z[pairs["left"]] == z[pairs["right"]]) == np.array(pairs["label"])
        of_answers = np.where(agree, np.log(right)[:, None], np.log1p(-right)[:, None]).sum(1)
        terms.append(log_items[:, np.arange(4), z].sum(1) + of_answers)
    below = logsumexp(terms, axis=0) + log_prior - found.log_joint
    assert (below > 0).all()
    assert (below < 1).all()


def test_points_have_no_weights(fits):
    with pytest.raises(ValueError, match="point estimates"):
        pareto_k(fits["amortized"])


def test_bad_input(plain):
    with pytest.raises(ValueError, match="at least 30"):
        pareto_k(plain, 10)
    with pytest.raises(
        ValueError, match=r"\['nobody'\], which are not random global sites.*weights"
    ):
        pareto_k(plain, 30, sites=["nobody"])
