"""Which components are one cluster: against all partitions there are."""

from __future__ import annotations

import itertools

import pytest
import torch

from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.inference.owners import join, owners_bound
from pyro_crowdclust.mixture import Ownership


def random_gain(size: int, seed: int, spread: float = 3.0) -> torch.Tensor:
    half = torch.randn(size, size, generator=torch.Generator().manual_seed(seed)).double()
    return spread * (half + half.mT).fill_diagonal_(0)


def gained(gain: torch.Tensor, group: torch.Tensor) -> float:
    same = group == group.unsqueeze(1)
    return float((gain * same).triu(1).sum())


def best_gain(gain: torch.Tensor) -> float:
    partitions = itertools.product(range(len(gain)), repeat=len(gain))
    return max(gained(gain, torch.tensor(groups)) for groups in partitions)


@pytest.mark.parametrize("seed", range(6))
def test_joining_is_as_good_as_the_best_of_all_partitions_or_nearly(seed):
    gain = random_gain(5, seed)
    assert gained(gain, join(gain)) > 0.9 * best_gain(gain)


@pytest.mark.parametrize("seed", range(3))
def test_no_component_gains_by_moving_alone(seed):
    gain = random_gain(12, seed)
    group = join(gain)
    reached = gained(gain, group)
    for one, other in itertools.product(range(12), repeat=2):
        moved = group.clone()
        moved[one] = other
        assert gained(gain, moved) <= reached + 1e-9


def greedy(gain: torch.Tensor) -> set[frozenset[int]]:
    """The two groups that gain most are joined while they gain; then components move alone."""
    groups = [{one} for one in range(len(gain))]

    def between(left: set[int], right: set[int]) -> float:
        return sum(float(gain[k, m]) for k in left for m in right if k != m)

    while len(groups) > 1:
        left, right = max(itertools.combinations(groups, 2), key=lambda two: between(*two))
        if between(left, right) <= 0:
            break
        groups.remove(right)
        left |= right
    moved = True
    while moved:
        moved = False
        for one in range(len(gain)):
            here = next(group for group in groups if one in group)
            best = max([*groups, set()], key=lambda group: between({one}, group))
            if between({one}, best) > between({one}, here) + 1e-9:
                here.remove(one)
                if not best:
                    groups.append(best)
                best.add(one)
                moved = True
    return {frozenset(group) for group in groups if group}


@pytest.mark.parametrize("seed", [0, 1, 2, 18, 24, 26, 28])  # of four components move
def test_joins_and_moves_are_those_of_the_plain_algorithm(seed):
    gain = random_gain(12, seed)
    named = join(gain).tolist()
    members = [{one for one in range(12) if named[one] == name} for name in set(named)]
    assert {frozenset(group) for group in members} == greedy(gain)
    assert all(named[name] == name for name in named)


def test_a_clear_partition_is_found_and_named_by_its_own():
    kinds = torch.tensor([0, 1, 0, 2, 1, 0])
    gain = torch.where(kinds == kinds.unsqueeze(1), 2.0, -1.0)
    assert join(gain).tolist() == [0, 1, 0, 3, 1, 0]


def test_the_objective_is_the_bound():
    """Summed over all owners: the answers, the prior, and minus log q."""
    gain, prior = random_gain(3, 0), Ownership(3).prior.natural_parameters
    logits = torch.randn(3, 3, generator=torch.Generator().manual_seed(1)).double()
    q, expected = logits.log_softmax(1), 0.0
    for groups in itertools.product(range(3), repeat=3):
        log_q = sum(q[k, c] for k, c in enumerate(groups))
        log_p = gained(gain, torch.tensor(groups)) + sum(prior[k, c] for k, c in enumerate(groups))
        expected += float(log_q.exp() * (log_p - log_q))
    assert owners_bound(PairOwners(gain), logits, prior) == pytest.approx(expected)


def test_the_diagonal_of_the_gains_is_not_read():
    gain = torch.randn(6, 6)
    gain = gain + gain.mT
    other = gain + torch.diag(torch.linspace(-50.0, 50.0, 6))
    assert torch.equal(join(other), join(gain))
