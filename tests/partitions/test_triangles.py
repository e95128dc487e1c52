"""What the compared pairs say of how they were chosen, and which of them test each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

from pyro_crowdclust.partitions import AskedPairs, closes_triangles, share_tested

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
