"""Components in at most so many clusters: against all partitions there are."""

from __future__ import annotations

import itertools

import pytest
import torch

from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.inference.bounded_owners import within_bound
from pyro_crowdclust.inference.owners import best_near
from pyro_crowdclust.mixture import Ownership


def random_gain(size: int, seed: int) -> torch.Tensor:
    """Answers that mostly say that components are different."""
    half = torch.randn(size, size, generator=torch.Generator().manual_seed(seed)).double()
    return (3 * (half + half.mT) - 4).fill_diagonal_(0)


def gained(gain: torch.Tensor, prior: torch.Tensor, cluster: torch.Tensor) -> float:
    same = cluster == cluster.unsqueeze(1)
    return float((gain * same).triu(1).sum() + prior.gather(1, cluster[:, None]).sum())


def alone(number: int) -> torch.Tensor:
    return torch.eye(number, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_costs_little_more_than_it_must(seed):
    gain, prior = random_gain(5, seed), Ownership(5).prior.natural_parameters
    bounded, start = within_bound(gain, prior, alone(5), 2)
    cluster = best_near(PairOwners(gain), bounded, start).argmax(1)
    partitions = map(torch.tensor, itertools.product(range(5), repeat=5))
    allowed = [one for one in partitions if len(one.unique()) <= 2]
    gains = sorted((gained(gain, prior, one) for one in allowed), reverse=True)
    assert len(cluster.unique()) <= 2
    assert gained(gain, prior, cluster) >= gains[len(gains) // 20]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_only_so_many_clusters_are_possible(most):
    gain, prior = random_gain(9, most), Ownership(9).prior.natural_parameters
    bounded, start = within_bound(gain, prior, alone(9), most)
    owners = best_near(PairOwners(gain), bounded, start).softmax(1)
    assert int((owners > 0).any(0).sum()) <= most
    torch.testing.assert_close(owners.sum(1), torch.ones(9, dtype=torch.float64))


def test_clusters_within_the_bound_stay():
    gain, prior = random_gain(6, 0), Ownership(6).prior.natural_parameters
    owners = alone(6)[[0, 0, 2, 2, 0, 2]]
    bounded, start = within_bound(gain, prior, owners, 3)
    assert start is owners
    possible = (bounded == prior).all(0)
    assert possible[[0, 2]].all()
    assert possible.sum() == 3


def test_the_component_that_is_tied_least_may_be_alone():
    gain = torch.full((4, 4), 5.0).double()
    gain[3] = gain[:, 3] = -5.0
    prior = torch.zeros(4, 4).double()
    bounded, _ = within_bound(gain, prior, alone(4)[[0, 0, 0, 0]], 2)
    assert (bounded == prior).all(0).tolist() == [True, False, False, True]


def test_where_answers_say_nothing_the_prior_joins():
    near = torch.full((4, 4), -9.0).double().fill_diagonal_(-1.0)
    near[3, 1] = -2.0
    _, start = within_bound(torch.zeros(4, 4), near, alone(4), 3)
    assert start.argmax(1).tolist() == [0, 1, 2, 1]
