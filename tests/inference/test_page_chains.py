"""Draws of clusters and rates of a page, against a sum over everything that can be."""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from scipy.special import betaln

from pyro_crowdclust.annotators import SortedPages
from pyro_crowdclust.distributions.pages import log_home_normalizer
from pyro_crowdclust.families import Beta
from pyro_crowdclust.inference import PageChains
from pyro_crowdclust.minibatches import BatchPages

GROUP = np.array([0, 0, 1, 1])
PRIOR = np.array([[0.8, 0.2], [0.6, 0.4], [0.5, 0.5], [0.3, 0.7]])
OVERLAP, RIGHT, SLIP, HABITS = 0.01, 4.0, 1.0, np.array([8.0, 2.0, 2.0])


def explained(clusters, homes, state):
    """``p(h, g | z, s)`` with the accuracy integrated out, and its posterior mean times that."""
    if state == 2:
        return np.array([1.0, RIGHT / (RIGHT + SLIP)]) / 9 / 3 ** len(GROUP)
    overlap = (OVERLAP, 1.0)[state]
    shared = overlap if homes[0] == homes[1] > 0 else 1.0
    weight = shared / np.exp(log_home_normalizer(2, 2, np.log(overlap)))
    at_home = np.array(homes)[list(clusters)] == GROUP + 1
    total = np.zeros(2)
    # On a lumped page an item at home may be there by chance.
    for meant in product([True, False], repeat=int(at_home.sum())) if state else [()]:
        number = sum(meant) if state else int(at_home.sum())
        slips = len(GROUP) - number
        right, wrong = RIGHT + number, SLIP + slips
        evidence = np.exp(betaln(right, wrong) - betaln(RIGHT, SLIP)) / (3 if state else 2) ** slips
        total += evidence * np.array([1.0, right / (right + wrong)])
    return weight * total


def by_hand():
    """``E[a]``, ``p(z_0 = z_1)``, and the probabilities of the states of the page."""
    found, total = np.zeros(5), 0.0
    all_clusters, all_homes = product([0, 1], repeat=4), list(product(range(3), repeat=2))
    for clusters, homes, state in product(all_clusters, all_homes, range(3)):
        prior = PRIOR[np.arange(4), clusters].prod() * HABITS[state] / HABITS.sum()
        weight, accuracy = prior * explained(clusters, homes, state)
        same, states = weight * (clusters[0] == clusters[1]), weight * np.eye(3)[state]
        total += weight
        found += np.array([accuracy, same, *states])
    return found / total


def test_draws_have_the_posterior_of_a_page():
    annotators = SortedPages(1, (RIGHT, SLIP), tuple(HABITS))
    one = torch.zeros(1, dtype=torch.long)
    placed = torch.arange(4), torch.zeros(4, dtype=torch.long), torch.from_numpy(GROUP)
    pages = BatchPages(*placed, one, one + 2, torch.ones(1, dtype=torch.float64))
    start, rng = torch.from_numpy(PRIOR), np.random.default_rng(0)
    chains = PageChains(annotators, np.array([0.8]), start.log(), start, pages, 400, rng)
    drawn = []
    for step in range(150):
        natural = chains.step()["accuracy"]
        if step < 30:
            continue
        same = (chains.cluster[:, 0] == chains.cluster[:, 1]).double().mean()
        states = torch.nn.functional.one_hot(chains.state[:, 0], 3).double().mean(0)
        mean = Beta().share_moments(natural)[0].mean()
        drawn.append(torch.stack([mean, same, *states]).numpy())
    np.testing.assert_allclose(np.mean(drawn, 0), by_hand(), atol=0.01)
