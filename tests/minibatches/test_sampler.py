from __future__ import annotations

import math
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.minibatches.blocks import connected_blocks

from .batches import answers_in, answers_of, check_batch, crowd, random_pairs, seeded


def weight_sums(sampler: MinibatchSampler, data: CrowdData, epochs: int):
    """Mean weights of every item and every answer over all steps, steps, and the largest weight.

    Answers must have a worker of their own.
    """
    items = torch.zeros(data.num_items, dtype=torch.float64)
    pairs = torch.zeros(data.num_pairs, dtype=torch.float64)
    steps, largest = 0, 1.0
    answer_of_worker = data.answers.worker.argsort() if data.answers is not None else None
    for _ in range(epochs):
        for batch in sampler:
            check_batch(batch, data)
            assert not torch.isin(batch.items[batch.num_paired :], data.annotated_items).any()
            items[batch.items] += batch.item_weight
            if answer_of_worker is not None:
                pairs[answer_of_worker[batch.worker]] += batch.pair_weight
            largest = max(largest, float(torch.cat([batch.item_weight, batch.pair_weight]).max()))
            steps += 1
    return items / steps, pairs / steps, steps, largest


def assert_near_one(means: torch.Tensor, steps: int, largest: float) -> None:
    """Within six standard errors: a weight in [0, W] with mean 1 has variance W - 1 at most."""
    assert (means - 1).abs().max() <= 6 * math.sqrt(max(largest - 1, 1e-24) / steps)


def test_weights_of_pages_average_to_one_over_a_cycle():
    # Six overlapping pages, two per step, every item with answers: an epoch is one whole cycle.
    data = crowd(12, random_pairs(12, 60, seed=1, num_pages=6))
    assert len(data.annotated_items) == 12
    sampler = MinibatchSampler(data, answers_per_step=20, generator=seeded())
    assert len(sampler) == 3
    items, pairs, steps, _ = weight_sums(sampler, data, epochs=1)
    assert steps == 3
    torch.testing.assert_close(items, torch.ones(12).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(pairs, torch.ones(60).double(), rtol=0, atol=1e-12)


def test_weights_of_single_pairs_average_to_one_over_a_cycle():
    data = crowd(10, random_pairs(10, 40, seed=2, num_pages=40))
    assert len(data.annotated_items) == 10
    sampler = MinibatchSampler(data, answers_per_step=8, generator=seeded())
    items, pairs, steps, _ = weight_sums(sampler, data, epochs=1)
    assert steps == len(sampler) == 5
    torch.testing.assert_close(items, torch.ones(10).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(pairs, torch.ones(40).double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("num_pages", [7, 42, 0])
def test_weights_average_to_one_with_items_without_answers(num_pages):
    # Seven pages at three per step do not divide, nor do eleven items at four per step.
    count = 14 if num_pages else 90  # of some blocks where there are no pages
    data = crowd(count + 11, random_pairs(count, 3 * count, seed=3, num_pages=num_pages))
    assert len(data.annotated_items) == count
    sampler = MinibatchSampler(
        data, batch_size=4, answers_per_step=data.num_pairs * 3 // 7, generator=seeded(4)
    )
    assert len(sampler) == 3
    items, pair_means, steps, largest = weight_sums(sampler, data, epochs=400 if num_pages else 100)
    assert largest > 1
    assert_near_one(items, steps, largest)
    assert_near_one(pair_means, steps, largest)


def test_pages_of_unequal_size_have_equal_weight():
    pairs = random_pairs(9, 30, seed=5)
    pairs["page"] = [0] * 20 + [1] * 6 + [2] * 3 + [3]
    data = crowd(9, pairs)
    sampler = MinibatchSampler(data, answers_per_step=15, generator=seeded())
    for batch in sampler:
        assert batch.pair_weight.tolist() == [2.0] * batch.num_pairs
    items, means, _, _ = weight_sums(sampler, data, epochs=3)
    annotated = data.annotated_items
    torch.testing.assert_close(items[annotated], torch.ones(len(annotated)).double())
    torch.testing.assert_close(means, torch.ones(30).double())


def test_weights_of_items_without_answers_add_up_in_every_step():
    data = crowd(30, random_pairs(7, 12, seed=6))
    count = 30 - len(data.annotated_items)
    sampler = MinibatchSampler(data, batch_size=5, generator=seeded())
    seen = []
    for batch in sampler:
        single = batch.items[batch.num_paired :]
        assert abs(len(single) - count / len(sampler)) < 1
        assert float(batch.item_weight[batch.num_paired :].sum()) == pytest.approx(count)
        seen += single.tolist()
    assert len(sampler) == round(count / 5)
    assert sorted(seen) == sorted(set(range(30)) - set(data.annotated_items.tolist()))


def test_all_answers_in_every_step_when_they_fit():
    data = crowd(20, random_pairs(8, 30, seed=7, num_pages=3))
    for batch in MinibatchSampler(data, batch_size=4, generator=seeded()):
        check_batch(batch, data)
        assert sorted(answers_in(batch)) == sorted(answers_of(data))
        assert batch.pair_weight.tolist() == [1.0] * 30
        assert batch.item_weight[: batch.num_paired].tolist() == [1.0] * batch.num_paired


def test_without_answers_an_epoch_is_a_pass_over_all_items():
    data = crowd(11, None)
    sampler = MinibatchSampler(data, batch_size=4, generator=seeded())
    batches = list(sampler)
    assert len(batches) == len(sampler) == 3
    for batch in batches:
        check_batch(batch, data)
        assert batch.num_pairs == batch.num_paired == 0
        assert batch.item_weight.tolist() == [11 / len(batch.items)] * len(batch.items)
    assert sorted(torch.cat([batch.items for batch in batches]).tolist()) == list(range(11))


@pytest.mark.parametrize("batch_size", [4, 100])
@pytest.mark.parametrize("answers_per_step", [2, 100])
@pytest.mark.parametrize("items", [[1, 2], [9, 19], [2, 19], []])
def test_what_every_minibatch_holds(batch_size, answers_per_step, items):
    pairs = {"left": range(4), "right": range(4, 8), "worker": [0] * 4, "label": [1] * 4}
    data = crowd(20, pd.DataFrame({**pairs, "page": range(4)}))
    sampler = MinibatchSampler(
        data, batch_size=batch_size, answers_per_step=answers_per_step, generator=seeded()
    )
    expected = all({*items} <= {*batch.items.tolist()} for _ in range(9) for batch in sampler)
    assert sampler.holds(torch.tensor(items, dtype=torch.int64)) == expected


def test_few_items_make_one_step():
    assert len(MinibatchSampler(crowd(3, None), batch_size=128, generator=seeded())) == 1


def test_all_items_with_answers():
    data = crowd(6, random_pairs(6, 35, seed=8, num_pages=7))
    assert len(data.annotated_items) == 6
    sampler = MinibatchSampler(data, answers_per_step=10, generator=seeded())
    batches = list(sampler)
    assert len(batches) == len(sampler) == 4
    for batch in batches:
        check_batch(batch, data)
        assert batch.num_paired == len(batch.items)
        assert batch.num_pairs == 10


def test_blocks_are_drawn_without_replacement():
    data = crowd(8, random_pairs(8, 24, seed=9, num_pages=4))
    sampler = MinibatchSampler(data, answers_per_step=6, generator=seeded())
    for _ in range(5):
        seen = [answer for batch in sampler for answer in answers_in(batch)]
        assert sorted(seen) == sorted(answers_of(data))


@pytest.mark.parametrize("num_pages", [10, 0])
def test_the_seed_decides(num_pages):
    data = crowd(40, random_pairs(20, 60, seed=10, num_pages=num_pages))

    def draw(seed: int) -> list:
        sampler = MinibatchSampler(data, batch_size=5, answers_per_step=12, generator=seeded(seed))
        return [
            (batch.items.tolist(), answers_in(batch), batch.item_weight.tolist())
            for _ in range(2)
            for batch in sampler
        ]

    first = draw(1)
    assert first == draw(1)
    assert first != draw(2)
    assert first[: len(first) // 2] != first[len(first) // 2 :]


def test_pages_are_the_default_where_they_exist():
    paged = crowd(12, random_pairs(12, 60, seed=1, num_pages=6))
    batch = next(iter(MinibatchSampler(paged, answers_per_step=10, generator=seeded())))
    assert len(set((batch.worker % 6).tolist())) == 1
    plain = CrowdData(None, {"left": [0, 1, 5], "right": [1, 2, 6], "worker": 0, "label": 1})
    batch = next(iter(MinibatchSampler(plain, answers_per_step=2, generator=seeded())))
    assert batch.num_pairs in (1, 2)
    assert batch.pair_weight.tolist() == [2.0] * batch.num_pairs


@pytest.mark.parametrize("num_items", [2, 4, 9, 36])
@pytest.mark.parametrize("size", [(30, 25), (30, 90), (12, 200)])
def test_connected_blocks(num_items, size):
    answers = crowd(size[0], random_pairs(*size, seed=11)).answers
    codes = connected_blocks(answers, num_items, seeded())
    assert codes.shape == answers.left.shape
    assert codes.unique().tolist() == list(range(int(codes.max()) + 1))
    for block in codes.unique():
        inside = codes == block
        ends = torch.stack([answers.left[inside], answers.right[inside]])
        members, (left, right) = ends.unique(return_inverse=True)
        graph = coo_array(
            (np.ones(len(left)), (left.numpy(), right.numpy())), shape=[len(members)] * 2
        )
        assert connected_components(graph, directed=False)[0] == 1
        assert len(members) <= num_items
        # Blocks are taken in order of code, each with all that is left among its items.
        later = (
            (codes > block) & torch.isin(answers.left, members) & torch.isin(answers.right, members)
        )
        assert not later.any()
        # A block stops short of its size only where nothing is left to reach.
        if len(members) < num_items:
            leaving = torch.isin(answers.left, members) ^ torch.isin(answers.right, members)
            assert not (leaving & (codes > block)).any()


def test_connected_blocks_find_separate_pages():
    pairs = [
        {"left": 5 * page + i, "right": 5 * page + j, "worker": 0, "label": 1}
        for page in range(4)
        for i in range(5)
        for j in range(i)
    ]
    answers = CrowdData(None, pd.DataFrame(pairs)).answers
    codes = connected_blocks(answers, 5, seeded())
    assert len(codes.unique()) == 4
    assert all(len(codes[answers.left // 5 == page].unique()) == 1 for page in range(4))


def test_connected_blocks_differ_between_calls():
    answers = crowd(30, random_pairs(30, 90, seed=12)).answers
    generator = seeded()
    first, second = (connected_blocks(answers, 6, generator) for _ in range(2))
    assert first.tolist() != second.tolist()


def test_every_epoch_draws_blocks_of_its_own(monkeypatch):
    """The first epoch's are prepared at once; those that stay the same are not prepared again."""
    data = crowd(4, random_pairs(4, 8, seed=0))
    halves, pairs = torch.arange(8) // 4, torch.arange(8) % 2
    given = iter([halves, halves, halves.clone(), pairs])
    monkeypatch.setattr(
        "pyro_crowdclust.minibatches.sampler.connected_blocks", lambda *_: next(given)
    )
    sampler = MinibatchSampler(data, answers_per_step=4, generator=seeded())
    prepared = sampler._blocks
    for codes in (halves, halves, pairs):
        drawn = [set(batch.worker.tolist()) for batch in sampler]
        of_worker = codes[data.answers.worker.argsort()]
        expected = [set((of_worker == code).nonzero().squeeze(1).tolist()) for code in (0, 1)]
        assert sorted(drawn, key=min) == expected
        assert (sampler._blocks is prepared) == (codes is halves)


def test_a_sample_is_what_an_epoch_draws_and_leaves_training_as_it_was():
    data = crowd(40, random_pairs(10, 12, seed=0))
    sampler, other = (
        MinibatchSampler(data, batch_size=6, answers_per_step=4, generator=seeded())
        for _ in range(2)
    )
    other.generator = seeded(7)
    whole = [batch.items.tolist() for batch in other]
    sizes = np.cumsum([len(items) for items in whole])
    before = sampler.generator.get_state()
    for enough in (1, int(sizes[1]), int(sizes[1]) + 1, 10**6):
        found = [batch.items.tolist() for batch in sampler.sample(enough, seed=7)]
        assert found == whole[: int((sizes < enough).sum()) + 1]
    assert torch.equal(sampler.generator.get_state(), before)


def test_a_step_on_all_items_has_them_in_order():
    (batch,) = MinibatchSampler(crowd(9, None), batch_size=9, generator=seeded())
    assert batch.items.tolist() == list(range(9))


@pytest.mark.parametrize("size", [{"batch_size": 0}, {"answers_per_step": 0}])
def test_sizes_below_one(size):
    with pytest.raises(ValueError, match="must be at least 1"):
        MinibatchSampler(crowd(5, None), **size, generator=seeded())


# Mostly good values, so that whole tables are often valid.
items = st.sampled_from([*"abcdef" * 4, "unknown", None])
rows = st.tuples(
    items,
    items,
    st.sampled_from([*["wu", "ada", "eve"] * 4, None]),
    st.sampled_from([*[0, 1] * 6, True, 2, None, "1"]),
    st.sampled_from([10, 20, 30]),
)


def _is_answer(label: object) -> bool:
    return label in ("0", "1") if isinstance(label, str) else label in (0, 1)


def is_valid(table: list[tuple]) -> bool:
    return len(table) > 0 and all(
        left != right
        and {left, right} <= set("abcdef")
        and worker is not None
        and _is_answer(label)
        for left, right, worker, label, _ in table
    )


@settings(deadline=None, max_examples=150, derandomize=True)
@given(
    table=st.lists(rows, max_size=12),
    with_pages=st.booleans(),
    answers_per_step=st.integers(1, 12),
    batch_size=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_any_table_is_rejected_or_sampled_faithfully(
    table, with_pages, answers_per_step, batch_size, seed
):
    names = ["left", "right", "worker", "label", "page"]
    pairs = pd.DataFrame(table, columns=names, dtype=object)
    pairs = pairs if with_pages else pairs.drop(columns="page")
    array = np.arange(6.0)[:, None]
    table = [row for row in table if row[3] is not None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # repeated rows, and some without a label, are likely here
        if not is_valid(table):
            with pytest.raises(ValueError, match="pairs"):
                CrowdData(array, pairs, item_ids=list("abcdef"))
            return
        data = CrowdData(array, pairs, item_ids=list("abcdef"))
    sampler = MinibatchSampler(
        data,
        batch_size=batch_size,
        answers_per_step=answers_per_step,
        generator=seeded(seed),
    )
    wanted = Counter((left, right, worker, int(label)) for left, right, worker, label, _ in table)
    asked = Counter((frozenset((left, right)), worker) for left, right, worker, _, _ in table)
    if not with_pages and max(asked.values()) > 1:  # of repeats, only some are kept
        kept = Counter(
            (data.item_ids[left], data.item_ids[right], data.worker_ids[worker], int(label))
            for left, right, worker, label in answers_of(data)
        )
        assert {(frozenset(one[:2]), one[2]) for one in kept} == set(asked)
        assert not kept - wanted
        wanted = kept
    batches = list(sampler)
    assert len(batches) == len(sampler)
    for batch in [full_batch(data), *batches]:
        check_batch(batch, data)
        found = Counter(
            (data.item_ids[left], data.item_ids[right], data.worker_ids[worker], int(label))
            for left, right, worker, label in answers_in(batch)
        )
        assert found
        assert not found - wanted
        if batch.pair_weight.tolist() == [1.0] * batch.num_pairs:
            assert found == wanted
