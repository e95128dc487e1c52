"""Every component family and every kind of weights, by the traces alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.diagnostics import pareto_k, to_arviz
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.diagnostics.item_likelihood import item_log_likelihood
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import quiet_fit
from ..mixture_parts import (
    CLUSTERS,
    COMPONENTS,
    SUPERVISION,
    WEIGHTS,
    guide_of,
    mixture,
    simulated,
)
from .exports import one_chain


@pytest.mark.parametrize(("weights", "components"), [*zip(itertools.cycle(WEIGHTS), COMPONENTS)])
def test_posterior_likelihood_and_weights(weights, components):
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


@pytest.mark.parametrize("components", COMPONENTS)
def test_components_that_clusters_own_are_exported_by_component(components):
    supervision = "links, labels and owners"
    model = mixture("dirichlet", components, supervision=supervision)
    data = SUPERVISION[supervision].helped(*simulated(model))
    result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=0.5, epochs=2)
    posterior = to_arviz(result, 5, log_likelihood=False)["posterior"]
    of_components = {n: v for n, v in posterior.data_vars.items() if n.startswith("component")}
    assert all(variable.dims[2] == "component" for variable in of_components.values())
    assert all(len(variable["component"]) == CLUSTERS for variable in of_components.values())
    value = global_value(result, "components")
    if isinstance(value, torch.Tensor):
        assert [*of_components] == ["component_parameter"]
        assert of_components["component_parameter"].shape[2:] == value.shape


def global_value(result: Fitted, name: str) -> Any:
    """Theta of a site at one draw."""
    with result.inside():
        value = global_draws(result, 1).sites[name].value
    return value[0] if isinstance(value, torch.Tensor) else value


def test_summed_out_assignments_change_nothing():
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
