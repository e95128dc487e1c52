"""What the compared pairs say of how they were chosen, and which of them test each other."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

from pyro_crowdclust.partitions import AskedPairs, closes_triangles, share_tested, triangles

EVERY = torch.combinations(torch.arange(80))


@pytest.mark.parametrize("number", [20, 300, 2000])
def test_random_pairs_close_as_many_as_chance(number):
    for seed in range(20):
        chosen = torch.randperm(len(EVERY), generator=torch.Generator().manual_seed(seed))
        assert not closes_triangles(AskedPairs.of(EVERY[chosen[:number]], 80))


def test_pairs_that_look_alike_close_more():
    place = np.random.default_rng(0).normal(size=(80, 3))
    alike = EVERY[torch.from_numpy(pdist(place)).argsort()[:300]]
    assert closes_triangles(AskedPairs.of(alike, 80))


def test_records_of_two_sources_close_none():
    left, right = torch.arange(40).repeat(5), 40 + torch.arange(200) * 7 % 40
    assert not closes_triangles(AskedPairs.of(torch.stack([left, right], 1), 80))


@pytest.mark.parametrize("seed", range(5))
def test_answers_are_tested_by_others_about_the_same_pair_and_by_thirds(seed):
    generator = torch.Generator().manual_seed(seed)
    said = EVERY[torch.randint(len(EVERY), (300,), generator=generator)]
    pairs = {frozenset(pair) for pair in said.tolist()}
    again = [said.tolist().count(pair) > 1 for pair in said.tolist()]
    thirds = [
        any({frozenset((i, third)), frozenset((third, j))} <= pairs for third in range(80))
        for i, j in said.tolist()
    ]
    asked = AskedPairs.of(said, 80)
    assert share_tested(asked) == pytest.approx(np.mean(np.array(again) | thirds))
    assert share_tested(asked, by_thirds=False) == pytest.approx(np.mean(again))


def test_an_item_that_was_compared_with_all_others_takes_no_square():
    """A star of 2,000 pairs, one of which is in a triangle."""
    star = torch.stack([torch.zeros(2000, dtype=torch.long), torch.arange(1, 2001)], 1)
    asked = AskedPairs.of(torch.cat([star, torch.tensor([[5, 9]])]), 2001)
    tracemalloc.start()
    share = share_tested(asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert share == pytest.approx(3 / 2001)
    assert peak < 2000**2


def test_triangles_around_much_compared_items_are_counted(monkeypatch):
    """Ends of the same and of other degrees, in parts of a few pairs, against ``trace(A^3)``."""
    monkeypatch.setattr(triangles, "_PAIRS", 7)
    rng = np.random.default_rng(0)
    ends = np.minimum(rng.geometric(0.08, size=(400, 2)), 60) - 1
    ends = ends[ends[:, 0] != ends[:, 1]]
    asked = AskedPairs.of(torch.from_numpy(ends), 60)
    graph = np.zeros((60, 60), dtype=int)
    graph[ends[:, 0], ends[:, 1]] = graph[ends[:, 1], ends[:, 0]] = 1
    expected = (graph @ graph)[asked.left, asked.right]
    assert triangles._common_neighbors(asked).tolist() == expected.tolist()
    assert expected.max() > 5
