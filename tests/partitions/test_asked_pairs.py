"""The graph of asked pairs against loops over all items and answers."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs

ITEMS = 14
ASKED = torch.tensor([[3, 1], [1, 3], [4, 1], [5, 6], [7, 8], [8, 9], [9, 5], [12, 11], [3, 4]])
PAIRS = AskedPairs.of(ASKED, ITEMS)


def neighbors_of(item: int) -> set[int]:
    return {int(sum(row) - item) for row in ASKED if item in row}


def reachable(item: int) -> set[int]:
    found, new = {item}, {item}
    while new:
        new = {other for one in new for other in neighbors_of(one)} - found
        found |= new
    return found


@pytest.mark.parametrize("number", [1, 2, 3])
def test_clusters_are_split_where_no_chain_of_pairs_connects_them(number):
    labels = torch.arange(ITEMS) // 2 % number
    parts = PAIRS.split(labels)
    for i in range(ITEMS):
        for j in range(ITEMS):
            expected = labels[i] == labels[j] and j in reachable(i)
            assert bool(parts[i] == parts[j]) == bool(expected)
    assert sorted(set(parts.tolist())) == list(range(int(parts.max()) + 1))


def test_every_item_has_its_neighbors_and_their_numbers():
    said = torch.randn(len(ASKED))
    of_pair = PAIRS.total(said)
    by_item = PAIRS.by_item(of_pair)
    assert len(PAIRS.neighbors) == len(by_item) == ITEMS
    for i, (others, numbers) in enumerate(zip(PAIRS.neighbors, by_item, strict=True)):
        assert sorted(others) == sorted(neighbors_of(i))
        for j, number in zip(others, numbers, strict=True):
            about = [k for k, row in enumerate(ASKED.tolist()) if sorted(row) == sorted((i, j))]
            assert number == pytest.approx(float(said[about].sum()))
    assert int(PAIRS.num_answers.sum()) == len(ASKED)
    assert PAIRS.num_answers.max() == 2


def test_candidates_are_pairs_without_answers():
    candidates = torch.tensor([[1, 3], [0, 2], [9, 8], [12, 0]])
    pairs = AskedPairs.of(ASKED, ITEMS, candidates)
    assert pairs.num_pairs == PAIRS.num_pairs + 2
    assert len(pairs.pair) == len(ASKED)
    ends = torch.stack([pairs.left, pairs.right], 1)
    assert torch.equal(ends[pairs.pair], ASKED.sort(dim=1).values)
    places, is_there = pairs.places(torch.cat([candidates, torch.tensor([[0, 1], [13, 12]])]))
    assert is_there.tolist() == [True] * 4 + [False] * 2
    assert torch.equal(ends[places], candidates.sort(dim=1).values)
    assert pairs.num_answers[places].tolist() == [2.0, 0.0, 1.0, 0.0]


def test_nothing_is_among_no_pairs():
    none = AskedPairs.of(torch.empty(0, 2, dtype=torch.int64), ITEMS)
    places, is_there = none.places(torch.tensor([[0, 1], [13, 12]]))
    assert (len(places), is_there.tolist()) == (0, [False] * 2)
    assert not len(none.items_in_pairs)
