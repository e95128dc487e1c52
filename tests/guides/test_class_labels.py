from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import infer_classes


@pytest.fixture(scope="module")
def both() -> tuple[Fitted, Fitted]:
    rng = np.random.default_rng(0)
    wrong = rng.random((60, 4)) < 0.2
    item, worker = np.indices(wrong.shape)
    label = ((rng.random(60) < 0.5)[:, None] ^ wrong).astype(int)
    said = {"item": item.ravel(), "worker": worker.ravel(), "label": label.ravel()}
    data = CrowdData(None, labels=said)
    return infer_classes(data, [0], epochs=20), infer_classes(data, dependent=True, epochs=20)


def test_a_guide_beside_another_is_averaged_with_it(both):
    one, other = both
    read = one.guide.read_at(beside=other.guide, beside_weight=0.3)
    mixed = replace(one, guide=read)
    expected = 0.7 * one.probabilities + 0.3 * other.probabilities
    np.testing.assert_allclose(mixed.probabilities, expected, atol=1e-6)
    means = [fitted.confusion["mean"].to_numpy() for fitted in (one, other, mixed)]
    np.testing.assert_allclose(means[2], 0.7 * means[0] + 0.3 * means[1], atol=1e-6)
    assert (mixed.confusion["sd"] ** 2 >= 0.7 * one.confusion["sd"] ** 2 - 1e-9).all()
    asked = np.array([0, 1]), np.array([0, 1]), np.array([1, 0])
    named = [fitted.answer_probabilities(*asked) for fitted in (one, other, mixed)]
    np.testing.assert_allclose(named[2], 0.7 * named[0] + 0.3 * named[1], atol=1e-6)


def test_training_has_no_guide_beside_it(both):
    one, other = both
    read = one.guide.read_at(beside=other.guide, beside_weight=0.3)
    assert read.in_full().beside is None
    assert len([*read.in_full().parameters()]) < len([*read.parameters()])
    full = replace(one, guide=read.in_full()).probabilities
    np.testing.assert_array_equal(full, replace(one, guide=one.guide.in_full()).probabilities)


def test_a_weight_is_a_share(both):
    model = both[0].model
    with pytest.raises(ValueError, match="beside_weight is 2, but must be between 0 and 1"):
        ClassLabelGuide(model, beside=both[1].guide, beside_weight=2)
