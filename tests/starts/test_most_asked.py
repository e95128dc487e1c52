"""Items with many answers among themselves, against a loop that counts them anew every time."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.simulation import simulate_placements
from pyro_crowdclust.starts import most_asked


def asked(left: np.ndarray, right: np.ndarray, num_items: int) -> CrowdData:
    pairs = {"left": left, "right": right, "worker": [0] * len(left), "label": [1] * len(left)}
    return CrowdData(np.zeros((num_items, 1)), pairs)


def answers_within(data: CrowdData, kept: np.ndarray) -> int:
    return int((kept[data.answers.left] & kept[data.answers.right]).sum())


def by_counting(question: np.ndarray, item: np.ndarray, number: int, num_items: int) -> np.ndarray:
    """The same items, by the counts of all that are left before each one is left out."""

    def counts(kept: np.ndarray) -> np.ndarray:
        here = kept[item]
        is_shared = np.bincount(question[here], minlength=question.max() + 1)[question] > 1
        return np.bincount(item[here & is_shared], minlength=num_items)

    kept = np.ones(num_items, dtype=bool)
    kept = counts(kept) > 0
    while kept.sum() > number:
        kept[np.where(kept, counts(kept), np.inf).argmin()] = False
    return counts(kept) > 0


def test_as_many_items_are_kept_as_allowed_where_all_have_equally_many_answers():
    """Of a ring an arc is kept, of many small rings a few whole ones."""
    one = np.arange(400)
    ring = asked(one, (one + 1) % 400, 400)
    kept = most_asked(ring, 100).numpy()
    assert kept.sum() == 100
    assert answers_within(ring, kept) == 99
    rings = asked(one, one // 4 * 4 + (one + 1) % 4, 400)
    kept = most_asked(rings, 100).numpy()
    assert kept.sum() == answers_within(rings, kept) == 100


@pytest.mark.parametrize("number", [2, 17, 30, 100])
def test_pairs_are_left_out_as_by_counting(number):
    left, right = np.random.default_rng(0).integers(0, 60, (2, 90))
    left, right = left[left != right], right[left != right]
    kept = most_asked(asked(left, right, 60), number).numpy()
    question = np.tile(np.arange(len(left)), 2)
    expected = by_counting(question, np.concatenate([left, right]), number, 60)
    assert kept.tolist() == expected.tolist()
    assert kept.sum() <= number


@pytest.mark.parametrize("number", [10, 25, 100])
def test_pages_are_left_out_as_by_counting(number):
    rng = np.random.default_rng(0)
    kinds, sizes = rng.integers(3, size=40), {"pages_per_worker": 2, "page_size": 5}
    pages = simulate_placements(kinds, [0.9] * 6, **sizes, seed=0)
    data = CrowdData(np.zeros((40, 1)), placements=pages)
    of = data.placements
    expected = by_counting(of.page.numpy(), of.item.numpy(), number, data.num_items)
    assert most_asked(data, number).tolist() == expected.tolist()


def test_items_without_answers_about_others_are_never_kept():
    data = CrowdData(np.zeros((4, 1)))
    assert not most_asked(data, 3).any()
    assert most_asked(asked(np.array([2]), np.array([0]), 4), 3).tolist() == [True, False] * 2
