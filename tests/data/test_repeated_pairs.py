from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.repeat_weights import repeat_weights
from pyro_crowdclust.data.repeated_pairs import answers_that_count
from pyro_crowdclust.results.saved_data import data_fields, data_of

NUM_PAIRS, ACCURACY = 200, (0.75, 0.75, 0.85, 0.8)
# Files from before all rows were kept lack two fields.
OLDER = {field.name for field in dataclasses.fields(CrowdData)} - {"_all_answers", "_counts"}


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


@pytest.fixture(scope="module")
def half_repeated():
    """A table in which worker 0 repeats half of the answers, and its data."""
    table = said(0.5, times=3)
    with pytest.warns(UserWarning, match="as many count as are independent of each other"):
        return table, CrowdData(None, table)


@pytest.mark.parametrize(("stays", "low", "high"), [(0.9, 1, 1.2), (0.0, 2.5, 3)])
def test_as_many_answers_count_as_are_independent(stays, low, high):
    table = said(stays, times=3)
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        data = CrowdData(None, table)
    assert data.pairs.equals(table)
    counted = data.counted_pairs
    assert table.loc[counted.index].equals(counted)
    assert len(counted) == data.num_pairs == len(data.answers.label)
    assert counted["label"].tolist() == data.answers.label.tolist()
    number = counted["worker"].value_counts()
    assert low * NUM_PAIRS <= number[0] <= high * NUM_PAIRS
    assert (number[[1, 2, 3]] == NUM_PAIRS).all()
    assert f"1200 answers (of which {data.num_pairs} count) by 4 workers" in repr(data)


def test_every_answer_counts_with_its_weight_whatever_it_says():
    rng = np.random.default_rng(0)
    num_groups, times = 3_000, 3
    left, right = np.triu_indices(100, 1)
    ends = torch.from_numpy(np.repeat(np.stack([left, right])[:, :num_groups], times, axis=1))
    opinion = rng.random(num_groups) < 0.8
    again = rng.random((num_groups, times)) < 0.6
    is_same = np.where(again, opinion[:, None], rng.random((num_groups, times)) < 0.8)
    label = torch.from_numpy(is_same.ravel().astype(float))
    of_other = torch.cat([ends, ends[:, ::times]], 1)
    worker = torch.cat([torch.zeros(len(label)), torch.ones(num_groups)]).long()
    other = torch.from_numpy((rng.random(num_groups) < 0.8).astype(float))
    answers = Answers(*of_other, worker, torch.cat([label, other]))
    counts = answers_that_count(answers)[: len(label)].astype(float)
    pair = torch.arange(num_groups).repeat_interleave(times)
    codes = torch.cat([pair, pair[::times]]), worker, answers.label.long()
    weight = float(repeat_weights(*codes, 2, 2)[0])
    assert 0.4 < weight < 0.9
    own = counts.reshape(num_groups, times).sum(1)
    assert {*own} <= {np.floor(times * weight), np.ceil(times * weight)}
    for value in (0, 1):
        one = counts[label.numpy() == value]
        error = np.sqrt(weight * (1 - weight) / len(one))
        assert one.mean() == pytest.approx(weight, abs=3 * error)


def test_what_counts_does_not_depend_on_the_order_of_the_rows(half_repeated):
    table, data = half_repeated
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        other = CrowdData(None, table.sample(frac=1, random_state=0), item_ids=data.item_ids)
    assert NUM_PAIRS < (data.counted_pairs["worker"] == 0).sum() < 3 * NUM_PAIRS
    columns = ["left", "right", "worker", "label"]
    by_ends = [
        one.counted_pairs.assign(
            left=one.counted_pairs[columns[:2]].min(axis=1),
            right=one.counted_pairs[columns[:2]].max(axis=1),
        )
        .sort_values(columns)
        .to_numpy()
        .tolist()
        for one in (data, other)
    ]
    assert by_ends[0] == by_ends[1]


def test_answers_that_come_in_parts_count_as_all_at_once(half_repeated):
    table, data = half_repeated
    parts = [table.iloc[first : first + 240] for first in range(0, len(table), 240)]
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        whole = CrowdData(None, parts[0], item_ids=data.item_ids)
    for part in parts[1:]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the last parts repeat nothing
            whole = extended(whole, pairs=part)
    assert whole.pairs.equals(table)
    assert whole.counted_pairs.equals(data.counted_pairs)


def test_of_the_rows_that_are_kept_the_same_ones_count(half_repeated):
    table, data = half_repeated
    is_out = torch.arange(len(table)) % 3 == 0
    part = data.without_pairs(is_out)
    kept = ~is_out.numpy()
    assert part.pairs.equals(table[kept])
    is_counted = np.isin(part.pairs.index, data.counted_pairs.index)
    assert part.counted_pairs.equals(part.pairs[is_counted])
    assert part.counted_rows.tolist() == np.flatnonzero(is_counted).tolist()
    assert part.answers.label.tolist() == part.counted_pairs["label"].tolist()
    assert (part.num_all_pairs, part.num_pairs) == (kept.sum(), is_counted.sum())


def test_files_keep_all_rows(half_repeated):
    _, data = half_repeated
    again = data_of(data_fields(data))
    assert again.pairs.equals(data.pairs)
    assert again.counted_pairs.equals(data.counted_pairs)
    of_older = {key: part for key, part in data_fields(data).items() if key in OLDER}
    older = data_of(of_older | {"_pairs_index": data.counted_pairs.index})
    assert older.pairs.equals(data.counted_pairs)
    with pytest.raises(ValueError, match="_counts selects other answers"):
        data_of(data_fields(data.with_parts(_counts=~data._counts)))


def test_all_count_on_pages_of_one_worker_and_where_repeats_are_few():
    table = said(0.9, times=3)
    on_pages = table.assign(page=np.arange(len(table)))
    assert CrowdData(None, on_pages).num_pairs == len(table)
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        assert CrowdData(None, said(0.9, times=3, num_workers=1)).num_pairs == 3 * NUM_PAIRS
    few = pd.concat([said(0.9, times=1), table.iloc[NUM_PAIRS : NUM_PAIRS + 10]])
    assert CrowdData(None, few.reset_index(drop=True)).num_pairs == len(few)
