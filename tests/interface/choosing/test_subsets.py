"""Which of the items a choice is tried on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import normalized_mutual_info_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import some_items
from pyro_crowdclust.interface import choice_for, cluster
from pyro_crowdclust.interface.choosing.subsets import (
    connected_items,
    distinct_items,
    without_near_copies,
)
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.metrics import clustering_accuracy

from ..small_choices import answered, small


@pytest.fixture(autouse=True, scope="module")
def _short_searches(_few_draws):
    """Not here, where candidates have to find the same clusters again."""


def test_copies_of_rows_are_no_clusters():
    rng = np.random.default_rng(0)
    features = np.repeat([[0.0, 0.0], [9.0, 0.0]], 20, axis=0) + rng.normal(size=(40, 2))
    copies = CrowdData(features[rng.integers(0, 40, 300)])
    result = small(copies, 2, 13, forms=1).fit(num_starts=1, progress=False)
    assert result.chosen.winner.endswith("2 components")
    # Whole numbers repeat of themselves.
    counts = CrowdData(rng.poisson(3, size=(300, 2)).astype(float))
    assert distinct_items(counts) is counts


def test_answers_about_copies_are_about_one_row():
    features = np.array([[0.1, np.nan], [3.7, 2.0], [0.1, np.nan], [8.3, 5.0], [3.7, 2.0]])
    said = {"left": [0, 2, 1, 4], "right": [1, 0, 3, 3], "worker": list("abac"), "label": [0] * 4}
    distinct = distinct_items(CrowdData(features, said))
    assert distinct.item_ids.tolist() == [0, 1, 3]
    assert distinct.pairs[["left", "right", "worker"]].to_numpy().tolist() == [
        [0, 1, "a"],
        [1, 3, "a"],
        [1, 3, "c"],
    ]


@pytest.mark.long
def test_all_copies_count_where_few_rows_are_different_and_people_were_asked():
    """Of three rows answers tell nothing but that they differ, as chance knows."""
    kinds = np.arange(60) % 3
    rows = np.array([[0.0, 1.0], [5.0, 5.0], [9.0, 2.0]])[kinds]
    said = answered(rows, kinds)
    assert distinct_items(said) is said
    result = small(said, 3, forms=1).fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) == 1
    assert result.chosen.uses_answers
    # Without answers, and among as many rows as can tell each other, each counts once.
    assert distinct_items(CrowdData(rows)).num_items == 3
    others = np.repeat(np.random.default_rng(0).normal(size=(20, 2)), 3, axis=0)
    assert distinct_items(answered(others, kinds)).num_items == 20


def test_placements_of_copies_are_of_one_row_once_a_page():
    rows = np.random.default_rng(0).normal(size=(3, 2))[[0, 1, 0, 2, 1]]
    pages = pd.DataFrame(
        {
            "page": [0, 0, 0, 1, 1],
            "item": [0, 2, 3, 4, 3],
            "worker": [7] * 5,
            "group": ["a", "b", "b", "a", "b"],
        }
    )
    kept = distinct_items(CrowdData(rows, placements=pages, item_ids=range(5))).placements
    assert kept.item.tolist() == [0, 2, 1, 2]
    assert kept.page.tolist() == [0, 0, 1, 1]
    assert kept.group.tolist() == [0, 1, 0, 1]


@pytest.mark.long
def test_copies_of_rows_are_found_where_they_would_be_alone():
    rng, kinds = np.random.default_rng(3), np.arange(60) % 3
    rows = 6 * np.eye(3)[kinds] + rng.normal(size=(60, 3))
    often = rng.integers(2, 6, 60)
    result = cluster(np.repeat(rows, often, axis=0), progress=False)
    assert normalized_mutual_info_score(np.repeat(kinds, often), result.assignments) == 1


def near_copies(centers: np.ndarray, each: int, noise: float = 0.01) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.repeat(centers, each, 0) + noise * rng.normal(size=(len(centers) * each, 3))


def test_near_copies_of_rows_are_no_clusters():
    kinds = np.arange(60) % 3
    rows = 6 * np.eye(3)[kinds] + np.random.default_rng(3).normal(size=(60, 3))
    data = CrowdData(near_copies(rows, 5))
    result = small(data, 3, 25, forms=1).fit(num_starts=1, progress=False)
    assert normalized_mutual_info_score(np.repeat(kinds, 5), result.assignments) == 1
    assert result.chosen.reason.endswith("; 240 near-copies of items were left out")


def test_near_copies_are_clusters_where_there_are_no_others():
    data = CrowdData(near_copies(np.random.default_rng(3).normal(size=(60, 3)), 4))
    result = small(data, 1, 13, forms=1).fit(num_starts=1, progress=False)
    assert len(np.unique(result.assignments)) == 13
    assert result.chosen.reason.startswith(
        "without near-copies there is one cluster, so they are kept: "
    )


def test_groups_that_may_be_clusters_are_no_near_copies():
    data = CrowdData(near_copies(np.random.default_rng(3).normal(size=(60, 3)), 4))
    assert Candidates(choice_for(data), 0, progress=False).num_near_copies == 180
    assert Candidates(choice_for(data, num_clusters=60), 0, progress=False).num_near_copies == 0


def test_answers_about_near_copies_are_about_one_row():
    rows = near_copies(np.random.default_rng(0).normal(size=(60, 3)), 2, noise=1e-4)
    said = {"left": [0, 1, 3], "right": [1, 2, 5], "worker": list("aba"), "label": [1, 0, 0]}
    unlike = without_near_copies(CrowdData(rows, said))
    assert unlike.item_ids.tolist() == list(range(0, 120, 2))
    assert unlike.pairs[["left", "right"]].to_numpy().tolist() == [[0, 2], [2, 4]]


def test_rows_that_differ_in_any_other_column_are_no_near_copies():
    rows = near_copies(np.random.default_rng(0).normal(size=(60, 3)), 4, noise=1e-4)
    town = ["Rome", "Bari", "Rome", "Lecce"] * 60
    table = pd.DataFrame(rows, columns=["a", "b", "c"])
    assert without_near_copies(CrowdData(table)).num_items == 60
    assert without_near_copies(CrowdData(table.assign(town=town))).num_items == 180
    assert without_near_copies(CrowdData(table.assign(rooms=[1, 2, 1, 3] * 60))).num_items == 180
    gaps = CrowdData(table.mask(table > 2))
    assert without_near_copies(gaps) is gaps


def test_parts_of_data_hold_answers_that_are_connected():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 3000, (2, 3000))
    ends = ends[:, ends[0] != ends[1]]
    pairs = {"left": ends[0], "right": ends[1], "worker": [0] * ends.shape[1]}
    data = CrowdData(rng.normal(size=(4000, 1)), pairs | {"label": [1] * ends.shape[1]})
    items = connected_items(data, 400, torch.Generator().manual_seed(0))
    assert len(items) == 400
    assert (items.diff() > 0).all()
    assert some_items(data, items).num_pairs > 250


def test_what_is_known_of_copies_is_known_of_the_first():
    rows = np.random.default_rng(0).normal(size=(6, 2))
    rows[3], rows[5] = rows[1], rows[1]
    data = CrowdData(
        rows,
        known=["a", None, None, "b", None, "b"],
        must_link={"left": [3, 1], "right": [4, 5]},
        cannot_link={"left": [0], "right": [5]},
    )
    distinct = distinct_items(data)
    assert distinct.item_ids.tolist() == [0, 1, 2, 4]
    assert distinct.known_ids[distinct.known[:2].numpy()].tolist() == ["a", "b"]
    links = distinct.links
    found = zip(links.left.tolist(), links.right.tolist(), links.must.tolist(), strict=True)
    assert sorted(found) == [(0, 1, False), (1, 3, True)]


def test_items_that_much_is_said_of_come_first():
    known = pd.Series("a", index=[3, 70])
    links = {"left": [11, 12], "right": [50, 60]}
    data = CrowdData(np.zeros((100, 1)), known=known, must_link=links)
    items = connected_items(data, 8, torch.Generator().manual_seed(0))
    assert {3, 11, 12, 50, 60, 70} <= set(items.tolist())


def test_copies_of_rounded_rows_are_such_if_hardly_any_two_could_be_alike_by_chance():
    """Thirteen rounded measurements tell an item; four do not, nor do the zeros of many columns."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 13)).round(1)
    copies = np.concatenate([rows, rows[:30]])
    assert distinct_items(CrowdData(copies)).num_items == 90
    few = CrowdData(copies[:, :2])
    assert distinct_items(few) is few
    grades = CrowdData(copies.round(0))
    assert distinct_items(grades) is grades
    spent = np.where(rng.random((90, 8)) < 0.7, 0.0, rng.lognormal(size=(90, 8)))
    number = (spent > 0).sum(1)
    kept = distinct_items(CrowdData(np.concatenate([spent, spent[:60]]))).features
    zeros = (number == 0).sum() + (number[:60] == 0).sum()
    assert ((kept > 0).sum(1) == 0).sum() == zeros > (number == 0).sum() > 4
    assert ((kept > 0).sum(1) > 3).sum() == (number > 3).sum() > 10


@pytest.mark.parametrize("times", [2, 3])
def test_a_table_that_is_repeated_as_a_whole_counts_once(times):
    """Whatever its steps, as by a join; rows that were alike before are there as often."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(60, 3)).round(1)
    rows[50:] = rows[:10]
    order = rng.permutation(np.repeat(np.arange(60), times))
    kept = distinct_items(CrowdData(rows[order])).features.numpy()
    assert sorted(map(tuple, kept)) == sorted(map(tuple, rows))
    once_more = CrowdData(np.concatenate([rows[order], rows[:1]]))
    assert distinct_items(once_more) is once_more
    few = CrowdData(np.repeat(rows[:9], times, axis=0))
    assert distinct_items(few) is few


def test_what_is_said_of_a_repeated_table_is_said_of_its_rows():
    """Answers, known labels and links about any copy; between copies of one row none is left."""
    rows = np.random.default_rng(1).normal(size=(20, 3)).round(1)
    said = {"left": [0, 21, 5], "right": [22, 3, 25], "worker": list("abc"), "label": [0, 1, 1]}
    known = pd.Series(["x", "y"], index=[24, 6])
    links = {"left": [27], "right": [8]}
    data = CrowdData(np.concatenate([rows, rows]), said, known=known, must_link=links)
    kept = distinct_items(data)
    assert kept.num_items == 20
    assert kept.pairs[["left", "right", "worker"]].to_numpy().tolist() == [
        [0, 2, "a"],
        [1, 3, "b"],
    ]
    assert kept.known[[4, 6]].tolist() == [0, 1]
    assert kept.links.left.tolist() + kept.links.right.tolist() == [7, 8]


def test_more_copies_than_chance_has_are_copies():
    """Rows of five measurements: two alike may be so by chance, sixty of ninety may not."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 5)).round(2)
    few = CrowdData(np.concatenate([rows, rows[:1]]))
    assert distinct_items(few) is few
    assert distinct_items(CrowdData(np.concatenate([rows, rows[:60]]))).num_items == 90


@pytest.mark.long
def test_copies_have_no_part_in_the_fit_that_is_kept():
    """Not even in that of many, of whom each is a copy: the same clusters as without."""
    rng = np.random.default_rng(0)
    kinds = np.arange(90) % 3
    rows = rng.normal(3.0 * kinds[:, None], 1.0, (90, 8)).round(2)
    copied = np.concatenate([np.arange(90), rng.integers(0, 90, 60)])
    alone = cluster(rows, num_starts=1, progress=False)
    among = cluster(rows[copied], num_starts=1, progress=False)
    assert len(among.assignments) == 150
    assert clustering_accuracy(kinds[copied], among.assignments) > 0.95
    assert len(set(among.assignments)) == len(set(alone.assignments)) == 3
    of_copies, of_rows = (one.components.sort_values(0).to_numpy() for one in (among, alone))
    np.testing.assert_allclose(of_copies, of_rows, atol=1e-6)
