"""Draws of components and rates from answers about pairs, against a sum over all assignments."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import betaln, gammaln, multigammaln
from torch.nn.functional import one_hot

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import GradedPairs, TwoCoin
from pyro_crowdclust.inference import PairChains
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import (
    DirichletWeights,
    GaussianComponents,
    MixtureDraws,
    StickBreakingWeights,
)

ANSWERS = pd.DataFrame(
    [(0, 1, 1), (0, 2, 0), (1, 2, 0), (0, 1, 1), (2, 3, 1), (0, 3, 1)],
    columns=["left", "right", "label"],
).assign(worker=[0, 0, 0, 1, 1, 1])
# The last item has no answers.
X = np.array([[-1.0], [-0.4], [0.8], [0.1], [1.2]])
TRUST = (3.0, 1.5)
PRIOR = np.array([[0.5, 0.2, 0.3], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
PRIOR = np.vstack([PRIOR, [0.2, 0.2, 0.6]])
PAIRS = [(0, 1), (0, 3), (2, 4)]


def of_answers(cluster):
    """``p(L | z)`` with the rates integrated out, and the mean sensitivities given z."""
    same = cluster[ANSWERS["left"]] == cluster[ANSWERS["right"]]
    right = same == ANSWERS["label"]
    log_p, sensitivity = 0.0, []
    for worker, relation in product(range(2), (True, False)):
        own = right[(ANSWERS["worker"] == worker) & (same == relation)]
        found = TRUST[0] + own.sum(), TRUST[1] + (~own).sum()
        log_p += betaln(*found) - betaln(*TRUST)
        if relation:
            sensitivity.append(found[0] / sum(found))
    return np.exp(log_p), sensitivity


def by_hand(weight_of, number, owner=None):
    """Mean sensitivities, and the probabilities that pairs share a cluster."""
    found, total = np.zeros(2 + len(PAIRS)), 0.0
    for assigned in product(range(number), repeat=len(X)):
        component = np.array(assigned)
        cluster = component if owner is None else owner.numpy()[component]
        likelihood, sensitivity = of_answers(cluster)
        weight = likelihood * weight_of(component)
        total += weight
        found += weight * np.array([*sensitivity, *(cluster[i] == cluster[j] for i, j in PAIRS)])
    return found / total


def by_draws(chains, owner, steps=120):
    """The same from draws after the first thirty."""
    found = []
    for step in range(steps):
        rates = 1 + chains.step()["sensitivity"]
        if step < 30:
            continue
        mean = (rates[..., 0] / rates.sum(-1)).mean(0)
        cluster = owner[chains.component]
        same = torch.stack([(cluster[:, i] == cluster[:, j]).double().mean() for i, j in PAIRS])
        found.append(torch.cat([mean, same]).numpy())
    return np.mean(found, 0)


def batch_of(answers=ANSWERS, **options):
    data = CrowdData(X, answers, item_ids=range(5), **options)
    return full_batch(data).to(None, torch.float64)


@pytest.fixture(autouse=True)
def own_random_numbers():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("owner", [(0, 1, 2), (0, 0, 2)])
def test_draws_have_the_posterior_of_components_and_rates(owner):
    batch, owner = batch_of(), torch.tensor(owner)
    prior = torch.from_numpy(PRIOR)[batch.items]
    owners = one_hot(owner, 3).double()
    workers = TwoCoin(2, TRUST, TRUST)
    chains = PairChains(workers, batch, prior.log(), prior, 300, owners)
    expected = by_hand(lambda z: PRIOR[np.arange(5), z].prod(), 3, owner)
    np.testing.assert_allclose(by_draws(chains, owner), expected, atol=0.01)


def test_grades_of_two_are_two_coins():
    batch = batch_of(grades=[0, 1])
    prior = torch.from_numpy(PRIOR)[batch.items]
    workers = GradedPairs(2, 2, TRUST, unsure=False)
    chains = PairChains(workers, batch, prior.log(), prior, 300)
    step = chains.step
    chains.step = lambda: {"sensitivity": step()["if_same"].flip(-1)}
    expected = by_hand(lambda z: PRIOR[np.arange(5), z].prod(), 3)
    np.testing.assert_allclose(by_draws(chains, torch.arange(3)), expected, atol=0.01)


def log_normal_inverse_wishart(prior, x):
    """log p(x) of numbers, with the mean and the variance integrated out."""
    location, strength, scale, degrees = (float(part.squeeze()) for part in prior)
    count = len(x)
    middle = x.mean() if count else 0.0
    scatter = ((x - middle) ** 2).sum()
    scatter += strength * count / (strength + count) * (middle - location) ** 2
    return (
        multigammaln((degrees + count) / 2, 1)
        - multigammaln(degrees / 2, 1)
        + degrees / 2 * np.log(scale)
        - (degrees + count) / 2 * np.log(scale + scatter)
        + (np.log(strength) - np.log(strength + count)) / 2
        - count / 2 * np.log(np.pi)
    )


def log_dirichlet(counts):
    return gammaln(counts + 0.5).sum()


def log_sticks(counts):
    """``beta ~ Beta(1, 1)``: the share of the first of two."""
    return betaln(1 + counts[0], 1 + counts[1])


@pytest.mark.parametrize(
    ("weights", "log_shares"),
    [(DirichletWeights(2, 0.5), log_dirichlet), (StickBreakingWeights(2), log_sticks)],
)
def test_draws_of_a_mixture_have_its_posterior(weights, log_shares):
    batch, components = batch_of(), GaussianComponents(2, 1)
    eta = components.prior.natural_parameters[0]
    prior = components.family.standard(eta)

    def weight_of(component):
        counts = np.bincount(component, minlength=2)
        groups = [X[component == one, 0] for one in range(2)]
        log_features = sum(log_normal_inverse_wishart(prior, group) for group in groups)
        return np.exp(log_shares(counts) + log_features)

    mixture = MixtureDraws(weights, components, batch.features, torch.arange(2))
    start = torch.full((5, 2), 0.5, dtype=torch.float64)
    workers = TwoCoin(2, TRUST, TRUST)
    chains = PairChains(workers, batch, start.log(), start, 400, mixture=mixture)
    found = by_draws(chains, torch.arange(2))
    np.testing.assert_allclose(found, by_hand(weight_of, 2), atol=0.015)
