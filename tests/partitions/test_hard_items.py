"""Items that are hard to recognize: their density, and draws against the exact posterior."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, HardItems, num_hard_ends, sweep_hard

from .partitions import complete_pairs

FOUR = complete_pairs(4)
EVERY = [torch.tensor(states) for states in product(range(2), repeat=4)]


def test_density_sums_to_one():
    hard = HardItems(FOUR)
    assert sum(float(hard.log_prob(h).exp()) for h in EVERY) == pytest.approx(1, abs=1e-12)


def test_draws_have_the_exact_probabilities():
    torch.manual_seed(0)
    said = 0.7 * torch.randn(FOUR.num_pairs, 3)
    said[:, 1:] += 0.5
    pair = torch.arange(FOUR.num_pairs)
    log_joint = [
        HardItems(FOUR).log_prob(h) + said[pair, num_hard_ends(h, FOUR)].sum() for h in EVERY
    ]
    exact = torch.stack(log_joint).softmax(0)
    hard, counts = EVERY[0], torch.zeros(len(EVERY), dtype=torch.float64)
    sweeps, places = 3000, torch.tensor([8, 4, 2, 1])
    for _ in range(sweeps):
        hard = sweep_hard(hard, FOUR, said)
        counts[int((hard * places).sum())] += 1
    np.testing.assert_allclose(counts / sweeps, exact, atol=0.03)
    assert exact.max() < 0.5  # else there would be little to find out


def test_who_was_not_asked_about_is_not_hard():
    pairs = AskedPairs.of(torch.tensor([[0, 1]]), num_items=3)
    sure = torch.tensor([[0.0, 50.0, 100.0]], dtype=torch.float64)
    assert sweep_hard(torch.zeros(3, dtype=torch.int64), pairs, sure).tolist() == [1, 1, 0]
    torch.manual_seed(0)
    assert all(int(HardItems(pairs).sample()[2]) == 0 for _ in range(50))


@pytest.mark.parametrize(("side", "expected"), [(1 - 1e-9, [1, 1]), (1 + 1e-9, [0, 0])])
def test_an_item_is_hard_where_chance_is_below_its_probability(side, expected, monkeypatch):
    """Of the first of two; that of the second is higher if the first is hard, and else the same."""
    pairs = AskedPairs.of(torch.tensor([[0, 1]]), num_items=2)
    joint = [HardItems(pairs).log_prob(torch.tensor(h)).exp() for h in ([1, 0], [0, 0])]
    chance = side * joint[0] / sum(joint)
    monkeypatch.setattr(torch, "rand", lambda *shape, **options: chance.repeat(2))
    found = sweep_hard(torch.zeros(2, dtype=torch.int64), pairs, torch.zeros(1, 3))
    assert found.tolist() == expected
