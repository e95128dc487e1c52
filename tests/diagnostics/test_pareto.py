"""Importance weights of a fit, against an exact posterior, wrong ones and the evidence."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import pareto_k
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import ClassTable

from ..crowds import plain_mixture, quiet_fit
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


def test_points_have_no_weights(fits):
    with pytest.raises(ValueError, match="points"):
        pareto_k(fits["amortized"])


def test_bad_input(plain):
    with pytest.raises(ValueError, match="at least 30"):
        pareto_k(plain, 10)
    with pytest.raises(ValueError, match=r"\['nobody'\] are not random global sites.*weights"):
        pareto_k(plain, 30, sites=["nobody"])
