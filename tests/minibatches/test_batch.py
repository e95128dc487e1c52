from __future__ import annotations

import dataclasses

import pytest
import torch

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch

from .batches import crowd, random_pairs


def test_moving_a_batch_changes_the_dtype_of_features_only():
    batch = full_batch(crowd(9, random_pairs(5, 12, seed=15)))
    moved = batch.to("meta", torch.float32)
    assert moved.features.dtype == torch.float32
    assert moved.item_weight.dtype == moved.label.dtype == torch.float64
    assert moved.left.dtype == torch.int64
    assert {moved.features.device.type, moved.items.device.type, moved.label.device.type} == {
        "meta"
    }
    assert moved.num_paired == batch.num_paired
    assert batch.to().features.dtype == batch.features.dtype == torch.float64
    assert full_batch(CrowdData(None, item_ids=["a"])).to("meta").features is None


def test_a_batch_that_moved_need_not_be_read_for_its_scales():
    """On the device ``meta``, as on a GPU, a number cannot be read without a wait."""
    labels = {"item": [0, 0, 1], "worker": [0, 1, 0], "label": [0, 1, 1]}
    moved = full_batch(CrowdData(None, labels=labels)).to("meta")
    assert moved.item_scale == moved.pair_scale == 1.0
    data = crowd(9, random_pairs(5, 12, seed=15))
    sampler = MinibatchSampler(data, batch_size=2, answers_per_step=6, generator=torch.Generator())
    batch = next(iter(sampler))
    assert isinstance(batch.item_scale, torch.Tensor)
    moved = batch.to("meta")
    assert moved.item_scale is moved.item_weight
    assert moved.pair_scale == batch.pair_scale
    assert isinstance(moved.pair_scale, float)


def test_repr():
    batch = full_batch(crowd(9, random_pairs(5, 12, seed=15)))
    assert repr(batch) == "Batch(9 of 9 items, 5 of them in 12 answers)"


def test_a_batch_without_answers_has_the_same_items():
    batch = full_batch(crowd(9, random_pairs(5, 12, seed=15)))
    alone = batch.without_answers()
    assert repr(alone) == "Batch(9 of 9 items, 0 of them in 0 answers)"
    assert len(alone.needed_label) == len(alone.asked_items) == len(alone.pair_weight) == 0
    torch.testing.assert_close(alone.features, batch.features)
    unlabelled = dataclasses.replace(batch, label=None)
    assert unlabelled.without_answers().label is None


def test_a_guide_that_hears_answers_asks_for_their_labels():
    batch = full_batch(crowd(9, random_pairs(5, 12, seed=15)))
    torch.testing.assert_close(batch.needed_label, batch.label)
    with pytest.raises(ValueError, match=r"no labels, which the guide needs.*posterior_predictive"):
        _ = dataclasses.replace(batch, label=None).needed_label
