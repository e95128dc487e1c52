from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData

NUM_PAIRS, ACCURACY = 200, (0.75, 0.75, 0.85, 0.8)


def said(stays, times, num_workers=4):
    """Answers about pairs, in either order; worker 0 answers several times about each."""
    rng = np.random.default_rng(3)
    left = np.arange(NUM_PAIRS)
    same = rng.integers(2, size=NUM_PAIRS)
    rows = []
    for worker in range(num_workers):
        opinion = None
        for _ in range(times if worker == 0 else 1):
            label = np.where(rng.random(NUM_PAIRS) < ACCURACY[worker], same, 1 - same)
            opinion = label if opinion is None else opinion
            label = np.where(rng.random(NUM_PAIRS) < stays, opinion, label)
            ends = np.stack([left, left + 1])
            turned = np.where(rng.random(NUM_PAIRS) < 0.5, ends, ends[::-1])
            rows += [*zip(*turned, [worker] * NUM_PAIRS, label, strict=True)]
    return pd.DataFrame(rows, columns=["left", "right", "worker", "label"])


@pytest.mark.parametrize(("stays", "low", "high"), [(0.9, 1, 1.1), (0.0, 2.9, 3)])
def test_as_many_answers_are_kept_as_are_independent(stays, low, high):
    table = said(stays, times=3)
    with pytest.warns(UserWarning, match="as many are kept as are independent of each other"):
        data = CrowdData(None, table)
    count = data.pairs["worker"].value_counts()
    assert low * NUM_PAIRS <= count[0] <= high * NUM_PAIRS
    assert (count[[1, 2, 3]] == NUM_PAIRS).all()
    assert table.loc[data.pairs.index].equals(data.pairs)
    if stays:  # what is said most often of three times is kept
        pair = table[["left", "right"]].min(axis=1)
        own = table["worker"] == 0
        most = table[own].groupby(pair[own])["label"].mean().round()
        kept = data.pairs[data.pairs["worker"] == 0]
        assert (most[kept[["left", "right"]].min(axis=1)].to_numpy() == kept["label"]).all()


def test_all_are_kept_on_pages_of_one_worker_and_where_repeats_are_few():
    table = said(0.9, times=3)
    on_pages = table.assign(page=np.arange(len(table)))
    assert CrowdData(None, on_pages).num_pairs == len(table)
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        assert CrowdData(None, said(0.9, times=3, num_workers=1)).num_pairs == 3 * NUM_PAIRS
    few = pd.concat([said(0.9, times=1), table.iloc[NUM_PAIRS : NUM_PAIRS + 10]])
    assert CrowdData(None, few.reset_index(drop=True)).num_pairs == len(few)


def test_two_that_differ_are_both_kept():
    table = said(0.9, times=2)
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        data = CrowdData(None, table)
    pair, own = table[["left", "right"]].min(axis=1), table["worker"] == 0
    differ = table[own].groupby(pair[own])["label"].nunique().sum() - NUM_PAIRS
    assert differ > 0
    assert (data.pairs["worker"] == 0).sum() == NUM_PAIRS + differ
