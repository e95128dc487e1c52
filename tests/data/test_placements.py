from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.simulation import simulate_pages, simulate_partitions, simulate_placements

TABLE = pd.DataFrame(
    {
        "page": ["p2", "p2", "p1", "p1", "p1"],
        "item": ["ant", "cat", "bee", "ant", "cat"],
        "worker": ["eve", "eve", "bob", "bob", "bob"],
        "group": ["legs", "pets", 7, "x", 7],
    }
)


def answers(data):
    """What is said of each pair of items on each page."""
    pairs = data.as_pairs().pairs
    ends = pairs[["left", "right"]].apply(frozenset, axis=1)
    return dict(zip(zip(pairs["page"], ends, strict=True), pairs["label"], strict=True))


def test_placements_are_read_in_codes_and_come_back_in_ids():
    data = CrowdData(np.eye(3), placements=TABLE, item_ids=["ant", "bee", "cat"])
    assert len(data.placements) == 5
    assert data.placements.num_groups.tolist() == [2, 2]
    assert data.placements.num_pairs == 4
    assert data.annotated_items.tolist() == [0, 1, 2]
    assert data.answers_per_worker.tolist() == [3, 2]
    back = data.pages.groupby(["page", "group"])["item"].apply(set).tolist()
    assert sorted(map(sorted, back)) == [["ant"], ["ant"], ["bee", "cat"], ["cat"]]
    assert dict(zip(data.pages["page"], data.pages["worker"], strict=True)) == {
        "p1": "bob",
        "p2": "eve",
    }


def test_pairs_of_placements_say_who_lies_with_whom():
    said = answers(CrowdData(None, placements=TABLE))
    assert said == {
        ("p1", frozenset({"ant", "bee"})): 0,
        ("p1", frozenset({"ant", "cat"})): 0,
        ("p1", frozenset({"bee", "cat"})): 1,
        ("p2", frozenset({"ant", "cat"})): 0,
    }


@pytest.mark.parametrize("seed", range(3))
def test_sorted_pages_of_pairs_become_placements_and_pairs_again(seed):
    labels = np.arange(30) % 5
    crowd = simulate_partitions(labels, [0.2, 0.5], pages_per_worker=2, page_size=9, seed=seed)
    shuffled = crowd.sample(frac=1, random_state=seed)
    flipped = shuffled.rename(columns={"left": "right", "right": "left"})
    data = CrowdData(None, pd.concat([shuffled[::2], flipped[1::2]]))
    assert data.is_sorted
    assert "4 pages sorted into groups" in repr(data)
    placed = data.as_placements()
    assert len(placed.placements) == 4 * 9
    assert answers(placed) == answers(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda crowd: crowd.drop(columns="page")[:15], "no column 'page'"),
        (lambda crowd: crowd.drop(index=3), "page 0 lacks answers"),
        (lambda crowd: crowd.assign(worker=np.arange(len(crowd)) % 2), "several workers"),
    ],
)
def test_pages_that_are_not_sorted_say_why(change, reason):
    crowd = simulate_partitions(np.arange(9) % 3, [0.0], pages_per_worker=2, page_size=6, seed=0)
    data = CrowdData(None, change(crowd))
    assert not data.is_sorted
    with pytest.raises(ValueError, match=reason):
        data.as_placements()


def test_answers_that_are_not_transitive_are_no_sorted_page():
    page = {"left": [0, 1, 0], "right": [1, 2, 2], "worker": [0] * 3, "page": [5] * 3}
    with pytest.raises(ValueError, match="page 5 has answers that are not transitive"):
        CrowdData(None, page | {"label": [1, 1, 0]}).as_placements()
    assert CrowdData(None, page | {"label": [1, 1, 1]}).is_sorted
    coins = simulate_pages(np.arange(20) % 4, [0.7], [0.7], pages_per_worker=1, seed=0, page_size=9)
    assert not CrowdData(None, coins).is_sorted


@pytest.mark.parametrize(
    ("row", "values", "reason"),
    [
        (1, {"worker": "bob"}, "page is 'p2', a page that another worker sorted"),
        (3, {"item": "cat"}, "which is on this page already"),
        (0, {"item": None}, "item is missing; fill it in, or drop the row"),
        (0, {"item": "dog"}, "not among the item ids"),
    ],
)
def test_bad_placements_are_refused_with_their_row(row, values, reason):
    table = TABLE.copy()
    for name, value in values.items():
        table.loc[row, name] = value
    with pytest.raises(ValueError, match=reason):
        CrowdData(None, placements=table, item_ids=["ant", "bee", "cat"])


@pytest.mark.parametrize("blank", [None, ""])
def test_items_without_a_group_are_skipped(blank):
    table = TABLE.copy().astype({"group": object})
    table.loc[1, "group"] = blank
    with pytest.warns(UserWarning, match="placements row 1 .*: group is missing; .* are skipped$"):
        data = CrowdData(None, placements=table)
    assert len(data.placements) == len(TABLE) - 1


def test_pairs_and_placements_together_are_refused():
    pairs = {"left": ["ant"], "right": ["bee"], "worker": ["eve"], "label": [1]}
    with pytest.raises(
        ValueError, match=r"pairs and placements cannot be combined; .*CrowdAnswers.of_tables\("
    ):
        CrowdData(None, pairs, placements=TABLE)


def test_simulated_placements_have_the_states_and_the_accuracy_that_were_asked_for():
    labels = np.repeat(np.arange(6), 50)
    crowd = simulate_placements(
        labels, [0.8] * 40, pages_per_worker=5, page_size=30, lumped=0.2, careless=0.1, seed=0
    )
    of_pages = crowd.groupby("page")["state"].first().value_counts(normalize=True)
    assert of_pages["lumped"] == pytest.approx(0.2, abs=0.06)
    assert of_pages["careless"] == pytest.approx(0.1, abs=0.05)
    right = crowd["group"].to_numpy() == labels[crowd["item"]]
    by_state = pd.Series(right).groupby(crowd["state"].to_numpy()).mean()
    assert by_state["sorted"] == pytest.approx(0.8, abs=0.01)
    assert by_state["careless"] == pytest.approx(1 / 6, abs=0.03)
    groups = crowd.groupby(["state", "page"])["group"].nunique().groupby("state").max()
    assert groups["lumped"] == 3
    CrowdData(None, placements=crowd)


def test_simulated_states_must_be_probabilities():
    with pytest.raises(ValueError, match="at most 1"):
        simulate_placements(
            [0, 1], [1.0], pages_per_worker=1, lumped=0.7, careless=0.6, seed=0, page_size=2
        )
