from __future__ import annotations

import pytest

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.minibatches import (
    MinibatchSampler,
    answered_batch,
    full_batch,
    item_batches,
)
from pyro_crowdclust.minibatches.making import needed_batch

from .batches import answers_in, answers_of, check_batch, crowd, random_pairs, seeded


def test_full_batch():
    data = crowd(9, random_pairs(5, 12, seed=15))
    batch = full_batch(data)
    check_batch(batch, data)
    assert sorted(batch.items.tolist()) == list(range(9))
    assert batch.items[: batch.num_paired].tolist() == data.annotated_items.tolist()
    assert answers_in(batch) == answers_of(data)
    assert batch.item_weight.tolist() == [1.0] * 9
    assert batch.pair_weight.tolist() == [1.0] * 12


def test_full_batch_without_answers_or_features():
    batch = full_batch(crowd(3, None))
    assert (batch.num_pairs, batch.num_paired, batch.items.tolist()) == (0, 0, [0, 1, 2])
    data = CrowdData(None, random_pairs(5, 12, seed=15))
    assert full_batch(data).features is None
    assert next(iter(MinibatchSampler(data, generator=seeded()))).features is None


def test_answered_batch():
    data = crowd(9, random_pairs(5, 12, seed=15))
    batch = answered_batch(data)
    assert answers_in(needed_batch(data)) == answers_in(batch)
    assert answered_batch(crowd(3, None)) is None
    with pytest.raises(ValueError, match="no answers, .*: pass pairs or placements"):
        needed_batch(crowd(3, None))
    check_batch(batch, data)
    assert batch.items.tolist() == data.annotated_items.tolist()
    assert answers_in(batch) == answers_of(data)
    assert answered_batch(crowd(3, None)) is None


def test_item_batches():
    data = crowd(9, random_pairs(5, 12, seed=15))
    batches = list(item_batches(data, 4))
    assert [batch.items.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    for batch in batches:
        check_batch(batch, data)
        assert batch.num_pairs == batch.num_paired == 0
        assert batch.item_weight.tolist() == [1.0] * len(batch.items)
    with pytest.raises(ValueError, match="batch_size is 0"):
        item_batches(data, 0)
