"""Classes of labels alone, moved by what features tell, against the formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.guides import AveragedGuide, GivenFeatures
from pyro_crowdclust.interface import classify, infer_trait
from pyro_crowdclust.minibatches import full_batch

NUM_LABELLED, POWER = 30, 0.4


@pytest.fixture(scope="module")
def both() -> tuple[Fitted, Fitted]:
    """Labels of the first thirty of forty items alone, and with features."""
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    features = kind[:, None] + rng.normal(size=(40, 2))
    item, worker = np.indices((NUM_LABELLED, 3)).reshape(2, -1)
    label = kind[item] ^ (rng.random(len(item)) < 0.2)
    said = pd.DataFrame({"item": item, "worker": worker, "label": label.astype(int)})
    options = {"epochs": 5, "progress": False}
    return infer_trait(CrowdData(features, labels=said), **options), classify(
        features, said, folds=2, trusted=[0], **options
    )


@pytest.fixture(scope="module")
def given(both) -> Fitted:
    alone, featured = both
    return replace(alone, guide=GivenFeatures(alone.guide, featured.guide, POWER))


def test_features_move_the_classes_of_labels_and_decide_where_there_are_none(both, given):
    alone, featured = both
    silent = replace(full_batch(featured.data).to(None, torch.float64), class_labels=None)
    by_features, shares = (one.guide.infer(silent).assignments.numpy() for one in (featured, alone))
    expected = alone.probabilities * (by_features / shares) ** POWER
    expected /= expected.sum(1, keepdims=True)
    found = given.probabilities
    np.testing.assert_allclose(found[:NUM_LABELLED], expected[:NUM_LABELLED], atol=1e-6)
    np.testing.assert_allclose(found[NUM_LABELLED:], by_features[NUM_LABELLED:], atol=1e-6)


def test_workers_are_those_of_the_labels(both, given):
    alone, _ = both
    pd.testing.assert_frame_equal(given.confusion, alone.confusion)
    asked = np.array([0, 1]), np.array([0, 1]), np.array([1, 0])
    expected = alone.answer_probabilities(*asked)
    np.testing.assert_array_equal(given.answer_probabilities(*asked), expected)


def test_it_is_saved_as_a_part_of_an_average(both, given, tmp_path):
    _, featured = both
    mixed = replace(featured, guide=AveragedGuide(featured.guide, given.guide, 0.5))
    mixed.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=mixed.data)
    assert loaded.guide.other.power == POWER
    fresh = replace(loaded)  # computed by the loaded guide, not read from the file
    np.testing.assert_allclose(fresh.probabilities, mixed.probabilities, atol=1e-9)
