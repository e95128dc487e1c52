"""Known labels in exports: their likelihood by the formula, and labels drawn anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.supervision import ClassTable

from ..crowds import quiet_fit
from .exports import one_chain

RNG = np.random.default_rng(0)
TRUTH = np.arange(60) % 2
FEATURES = RNG.normal(size=(60, 2)) + 3 * TRUTH[:, None]
KNOWN = ["ab"[truth] if row % 3 == 0 else None for row, truth in enumerate(TRUTH)]


@pytest.fixture(scope="module")
def tree():
    data = CrowdData(FEATURES, known=KNOWN)
    parts = DirichletWeights(3), GaussianComponents(3, 2), Identity()
    table = ClassTable.of(data, 3, concentration=2.0)
    model = SemiCrowdsourcedMixture(*parts, supervision=table)
    options = {"epochs": 20, "batch_size": None, "step_size": 0.5, "dtype": torch.float64}
    return to_arviz(quiet_fit(model, MessagePassingGuide(model), data, **options), 20)


def test_likelihoods_are_those_of_the_formula(tree):
    weights, mean, covariance, table = (
        one_chain(tree, "posterior", name)
        for name in ("weights", "component_mean", "component_covariance", "class_table")
    )
    found = one_chain(tree, "log_likelihood", "known")
    assert tree["log_likelihood"]["known_item"].values.tolist() == [*range(0, 60, 3)]
    for draw in range(len(found)):
        log_joint = np.stack(
            [
                np.log(weights[draw, k])
                + multivariate_normal(mean[draw, k], covariance[draw, k]).logpdf(FEATURES[::3])
                for k in range(3)
            ]
        )
        q = np.exp(log_joint - logsumexp(log_joint, axis=0))
        expected = np.log((q * table[draw][:, TRUTH[::3]]).sum(0))
        np.testing.assert_allclose(found[draw], expected, rtol=1e-6)


def test_labels_are_drawn_anew(tree):
    drawn = one_chain(tree, "posterior_predictive", "known")
    given = tree["observed_data"]["known"].values
    assert given.tolist() == TRUTH[::3].tolist()
    assert drawn.shape == (20, 20)
    assert {*drawn.ravel()} == {0, 1}
    assert (drawn == given).mean() > 0.8
