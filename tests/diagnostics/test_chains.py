"""What one fit is as a chain: its draws in the order of its clusters, the same for a seed."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust.callbacks import OwnershipMoves
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.diagnostics.chains import weight_draws

from ..crowds import crowd, owned_pair, quiet_fit
from ..plain_mixtures import fit_mixture
from .exports import DRAWS, one_chain


def test_points_do_not_vary(fits):
    tree = to_arviz(fits["amortized"], 3, log_likelihood=False)
    mixture = fits["amortized"].guide.mixture()
    for draw in range(3):
        drawn = one_chain(tree, "posterior", "component_covariance")[draw]
        order = fits["amortized"].cluster_order
        np.testing.assert_allclose(drawn, mixture.covariance[order])
    assert {*tree.attrs["equal_draws"].split(", ")} == {*tree["posterior"].data_vars}


def test_the_same_seed_draws_the_same(plain, tree):
    again = to_arviz(plain, DRAWS)
    other = to_arviz(plain, DRAWS, log_likelihood=False, seed=7)
    for name in tree["posterior"].data_vars:
        np.testing.assert_array_equal(tree["posterior"][name], again["posterior"][name])
        assert not np.array_equal(tree["posterior"][name], other["posterior"][name])


def test_exported_replicates(tree):
    predicted = one_chain(tree, "posterior_predictive", "answers")
    assert set(np.unique(predicted)) == {0, 1}
    assert predicted.shape == one_chain(tree, "log_likelihood", "answers").shape


def test_weights_of_a_plain_mixture_are_matched_between_fits_as_its_plates_are():
    """Of two fits that begin with the clusters in either order."""
    fits = [fit_mixture((-2.0, 2.0)), fit_mixture((2.0, -2.0))]
    posterior = to_arviz(fits, 100, log_likelihood=False)["posterior"]
    assert posterior["weights"].dims == posterior["location"].dims == ("chain", "draw", "cluster")
    weights, location = (posterior[name].mean("draw") for name in ("weights", "location"))
    assert (weights[:, 0] > weights[:, 1]).all()
    np.testing.assert_allclose(weights[0], weights[1], atol=0.1)
    np.testing.assert_allclose(location[0], location[1], atol=0.2)


def test_clusters_that_own_components_are_not_taken_for_these():
    """Of two fits whose components differ in order."""
    data = crowd()
    options = {"batch_size": None, "step_size": 0.5, "epochs": 25, "callbacks": [OwnershipMoves()]}
    fits = [quiet_fit(*owned_pair(), data, seed=seed, **options) for seed in (0, 1)]
    first = fits[0]
    posterior = to_arviz(fits, 400, log_likelihood=False)["posterior"]
    assert posterior["weights"].dims[2:] == ("component",)
    assert posterior["component_mean"].dims[2:] == ("component", "dim")
    assert posterior["owners"].dims[2:] == ("component", "cluster")
    means = posterior.mean("draw")
    np.testing.assert_allclose(means["owners"][0], first.owners, atol=0.1)
    weights = first.guide.mixture().weights
    np.testing.assert_allclose(means["weights"][0], weights, atol=0.02)
    large = weights.numpy() > 0.1
    location = means["component_mean"][:, large]
    np.testing.assert_allclose(location[0], first.guide.mixture().location[large], atol=0.2)
    np.testing.assert_allclose(location[0], location[1], atol=0.3)
    drawn = weight_draws(first, 400)
    np.testing.assert_allclose(drawn.mean(0), first.clusters["weight"], atol=0.02)
