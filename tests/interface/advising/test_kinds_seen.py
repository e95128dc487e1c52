"""Workers who see finer or coarser kinds are told from those who guess, by what they contradict."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.advising.kinds_seen import kinds_seen

ASSIGNED = np.repeat([0, 1, 2], 20)
# Every worker sees these kinds of the items.
SEEN = {
    "finer": 2 * ASSIGNED + np.arange(60) % 2,
    "coarser": np.minimum(ASSIGNED, 1),
    "clusters": ASSIGNED,
}


def said(kinds: np.ndarray, worker: str, number: int = 200) -> pd.DataFrame:
    """Answers about random pairs."""
    rng = np.random.default_rng(0)
    ends = np.stack([rng.choice(60, 2, replace=False) for _ in range(number)])
    same = kinds[ends[:, 0]] == kinds[ends[:, 1]]
    return pd.DataFrame(ends, columns=["left", "right"]).assign(
        worker=worker, label=same.astype(int)
    )


def seen(*tables: pd.DataFrame) -> str | None:
    """What the workers of all these answers see."""
    data = CrowdData(None, pairs=pd.concat(tables, ignore_index=True), item_ids=range(60))
    result = SimpleNamespace(data=data, assignments=ASSIGNED)
    return kinds_seen(result, np.ones(data.num_workers, bool))


@pytest.mark.parametrize("kind", ["finer", "coarser"])
def test_kinds_that_are_finer_or_coarser_than_the_clusters(kind):
    assert seen(said(SEEN[kind], "ann")) == kind


def test_guesses_are_neither():
    rng = np.random.default_rng(0)
    table = said(ASSIGNED, "ann")
    assert seen(table.assign(label=rng.integers(2, size=len(table)))) is None


def test_what_most_answers_say_counts():
    guesses = said(np.arange(60) % 7, "ben", number=300)
    assert seen(said(SEEN["finer"], "ann"), guesses) is None


def test_pages_that_are_sorted_count_by_their_pairs():
    placements = pd.DataFrame(
        {"page": np.repeat(range(5), 12), "item": np.arange(60), "worker": "ann"}
    )
    order = np.random.default_rng(0).permutation(60)
    table = placements.assign(item=order, group=SEEN["finer"][order])
    data = CrowdData(None, placements=table, item_ids=range(60))
    result = SimpleNamespace(data=data, assignments=ASSIGNED)
    assert kinds_seen(result, np.array([True])) == "finer"


def test_nobody_who_answered():
    data = CrowdData(np.zeros((2, 1)))
    assert (
        kinds_seen(SimpleNamespace(data=data, assignments=np.zeros(2, int)), np.array([], bool))
        is None
    )
