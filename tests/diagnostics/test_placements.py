"""Placements in exports: left out in turn, by sums over states and homes, and drawn anew."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import SortedPages
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.diagnostics.placements import left_out_placements
from pyro_crowdclust.distributions.pages import GroupPlacement
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_placements

from ..crowds import quiet_fit
from .exports import one_chain

TRUTH = np.arange(60) % 3
FEATURES = 6 * np.eye(3)[TRUTH] + np.random.default_rng(0).normal(size=(60, 3))
ACCURACY = [0.95, 0.6]


@pytest.fixture(scope="module")
def tree():
    table = simulate_placements(TRUTH, ACCURACY, pages_per_worker=8, page_size=12, seed=0)
    data = CrowdData(FEATURES, placements=table)
    parts = DirichletWeights(3), GaussianComponents(3, 3), Identity(), SortedPages(2)
    model = SemiCrowdsourcedMixture(*parts)
    options = {"epochs": 30, "batch_size": None, "step_size": 0.5, "dtype": torch.float64}
    result = quiet_fit(model, MessagePassingGuide(model), data, **options)
    return to_arviz(result, 30, max_answers=150)


@pytest.mark.parametrize("seed", range(3))
def test_left_out_placements_are_sums_over_states_and_homes(seed):
    """Of ``1 / p``, by the distribution of the model at every value of state and home."""
    generator = torch.Generator().manual_seed(seed)
    at_home, states, right = (
        torch.rand(*shape, generator=generator, dtype=torch.float64)
        for shape in ((4, 2), (4, 3), (4, 1))
    )
    states = states / states.sum(1, keepdim=True)
    accuracy, num_groups = torch.cat([right, 1 - right], 1).log(), torch.tensor([1, 2, 3, 5])
    inverse = torch.zeros(4, dtype=torch.float64)
    for state in range(3):
        attentive = torch.eye(3, dtype=torch.float64)[[state] * 4, :2]
        share = at_home[:, state] if state < 2 else torch.ones(4)
        for lies_at_home, weight in ((1.0, share), (0.0, 1 - share)):
            placed = GroupPlacement(
                lies_at_home * attentive, accuracy, attentive, num_groups, lambda: None
            )
            log_probability = placed.log_prob(torch.zeros(4, dtype=torch.long))
            inverse += states[:, state] * weight * (-log_probability).exp()
    found = left_out_placements(at_home, states, accuracy, num_groups)
    torch.testing.assert_close(found, -inverse.log())


def test_exports_have_placements_of_some_rows(tree):
    found = one_chain(tree, "log_likelihood", "groups")
    assert found.shape == (30, 150)
    assert (found < 0).all()
    of_worker = tree["constant_data"]["worker_of_placement"].values
    # Who is mostly right is predicted better than by chance among three groups and an empty one.
    assert found[:, of_worker == 0].mean() > found[:, of_worker == 1].mean()
    assert found[:, of_worker == 0].mean() > -np.log(4)


def test_groups_are_drawn_anew(tree):
    drawn = one_chain(tree, "posterior_predictive", "groups")
    agrees = (drawn == tree["observed_data"]["groups"].values).mean(0)
    of_worker = tree["constant_data"]["worker_of_placement"].values
    for worker, accuracy in enumerate(ACCURACY):
        # Drawn and given placements both lie at home, or now and then elsewhere together.
        expected = accuracy**2 + (1 - accuracy) ** 2 / 3
        assert agrees[of_worker == worker].mean() == pytest.approx(expected, abs=0.12)
