"""Placements in exports: left out in turn, by sums over states and homes, and drawn anew."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import SortedPages
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.diagnostics.placements import left_out_placements
from pyro_crowdclust.distributions.pages import GroupPlacement, PageHomes, placement_scores
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches.pages import BatchPages
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


def log_density_of_a_page(z, group, rows, accuracy, habits):
    """``log p`` of some placements of a page, summed over its states and homes by brute force."""
    num_clusters, num_groups = int(z.max()) + 1, torch.tensor(int(group.max()) + 1)
    home, other = placement_scores(accuracy[0], num_groups)
    terms = [habits[0, 2] - len(rows) * torch.log1p(num_groups)]
    for state in range(2):
        for homes in itertools.product(range(int(num_groups) + 1), repeat=num_clusters):
            value = torch.nn.functional.one_hot(torch.tensor(homes), int(num_groups) + 1).double()
            one_hot = torch.eye(3, dtype=torch.float64)[[state]]
            prior = PageHomes(one_hot, num_groups[None], num_clusters, None)
            log_density = habits[0, state] + prior.log_prob(value.expand(1, 2, -1, -1))[0]
            lies_at_home = torch.tensor(homes)[z[rows]] - 1 == group[rows]
            log_density += torch.where(lies_at_home, home[state], other[state]).sum()
            terms.append(log_density)
    return torch.stack(terms).logsumexp(0)


def test_left_out_placements_are_those_of_the_exact_posterior_on_a_clear_page():
    """At known z and rates, where q of the page's state and homes is nearly the posterior."""
    z, group = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2]), torch.tensor([0, 0, 0, 1, 1, 1, 2, 1])
    accuracy = torch.tensor([[0.85, 0.15]], dtype=torch.float64).log()
    habits = torch.tensor([[0.75, 0.15, 0.1]], dtype=torch.float64).log()
    rows, one = torch.arange(8), torch.ones(1, dtype=torch.float64)
    first = torch.zeros_like(one, dtype=torch.long)
    pages = BatchPages(rows, torch.zeros_like(rows), group, first, torch.tensor([3]), one)
    assignments = torch.eye(3, dtype=torch.float64)[z]
    rates = {"accuracy": accuracy, "habits": habits}
    q = SortedPages(1).posterior(rates, assignments, pages)
    at_home = q.offered[0][:, z, group + 1].mT
    many = (8, -1)
    found = left_out_placements(
        at_home, q.states.expand(many), accuracy.expand(many), torch.full((8,), 3)
    )
    whole = log_density_of_a_page(z, group, rows, accuracy, habits)
    others = [log_density_of_a_page(z, group, rows[rows != a], accuracy, habits) for a in rows]
    np.testing.assert_allclose(found, whole - torch.stack(others), atol=0.01)


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
