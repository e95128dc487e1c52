"""Which components answers about pairs call one cluster, from the gains of any two."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.annotators.pair_owners import PairOwners, best_owners
from pyro_crowdclust.inference.owners import owners_bound
from pyro_crowdclust.mixture import Ownership


def random_gain(seed: int) -> torch.Tensor:
    half = torch.randn(5, 5, generator=torch.Generator().manual_seed(seed)).double()
    return 0.5 * (half + half.mT).fill_diagonal_(0)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_owners_are_stationary(seed):
    gain, prior = random_gain(seed), Ownership(5).prior.natural_parameters
    owners = torch.eye(5).double()
    for _ in range(50):
        logits = best_owners(gain, prior, owners)
        owners = logits.softmax(1)
    torch.testing.assert_close((prior + gain @ owners).softmax(1), owners, atol=1e-5, rtol=1e-4)
    at_best = owners_bound(PairOwners(gain), logits, prior)
    noise = torch.randn(5, 5, generator=torch.Generator().manual_seed(seed)).double()
    assert owners_bound(PairOwners(gain), logits + 0.1 * noise, prior) < at_best


def test_the_diagonal_of_the_gains_is_not_read():
    gain = torch.randn(6, 6)
    gain = gain + gain.mT
    other = gain + torch.diag(torch.linspace(-50.0, 50.0, 6))
    prior = torch.randn(6, 6)
    same = best_owners(other, prior, prior.softmax(-1)), best_owners(gain, prior, prior.softmax(-1))
    assert torch.equal(*same)


def test_gains_may_be_of_thousands_of_answers():
    found = best_owners(5_000 * torch.ones(3, 3), torch.eye(3), torch.eye(3)).softmax(-1)
    assert found.isfinite().all()
    assert (found.max(1).values > 0.999).all()
