"""Clusters of a fit that are in another order are put back into that of the first."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch

from pyro_crowdclust.diagnostics import aligned_order, arviz, to_arviz


def test_clusters_in_another_order_are_put_back(plain):
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
