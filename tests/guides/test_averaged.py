"""The average of two guides, against the average of what each of them says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.guides import AveragedGuide
from pyro_crowdclust.interface import infer_classes, infer_trait


@pytest.fixture(scope="module")
def both() -> tuple[Fitted, Fitted]:
    rng = np.random.default_rng(0)
    wrong = rng.random((60, 4)) < 0.2
    item, worker = np.indices(wrong.shape)
    label = ((rng.random(60) < 0.5)[:, None] ^ wrong).astype(int)
    said = {"item": item.ravel(), "worker": worker.ravel(), "label": label.ravel()}
    data = CrowdData(None, labels=said)
    return infer_classes(data, [0], epochs=20), infer_trait(data, epochs=20)


@pytest.fixture(scope="module")
def mixed(both) -> Fitted:
    one, other = both
    return replace(one, guide=AveragedGuide(one.guide, other.guide, 0.3))


def test_classes_and_rates_are_averages(both, mixed):
    one, other = both
    expected = 0.7 * one.probabilities + 0.3 * other.probabilities
    np.testing.assert_allclose(mixed.probabilities, expected, atol=1e-6)
    means = [fitted.confusion["mean"].to_numpy() for fitted in (one, other, mixed)]
    np.testing.assert_allclose(means[2], 0.7 * means[0] + 0.3 * means[1], atol=1e-6)
    assert (mixed.confusion["sd"] ** 2 >= 0.7 * one.confusion["sd"] ** 2 - 1e-9).all()
    alone = [fitted.guide.confusion().mean for fitted in (one, other, mixed)]
    np.testing.assert_allclose(alone[2], 0.7 * alone[0] + 0.3 * alone[1], atol=1e-6)
    asked = np.array([0, 1]), np.array([0, 1]), np.array([1, 0])
    named = [fitted.answer_probabilities(*asked) for fitted in (one, other, mixed)]
    np.testing.assert_allclose(named[2], 0.7 * named[0] + 0.3 * named[1], atol=1e-6)


def test_the_bound_is_that_of_the_own_guide(both, mixed):
    assert mixed.elbo == both[0].elbo
    assert mixed.guide.posteriors is both[0].guide.posteriors


def test_only_the_own_guide_is_trained(both, mixed):
    one, _ = both
    assert len([*mixed.guide.in_full().parameters()]) < len([*mixed.guide.parameters()])
    full = replace(one, guide=mixed.guide.in_full()).probabilities
    np.testing.assert_array_equal(full, replace(one, guide=one.guide.in_full()).probabilities)


def test_only_the_own_guide_is_read_in_another_way(both, mixed):
    one, other = both
    hot = replace(one, guide=one.guide.read_at(temperature=3.0))
    read = replace(mixed, guide=mixed.guide.read_at(temperature=3.0))
    assert read.guide.reading == hot.guide.reading
    expected = 0.7 * hot.probabilities + 0.3 * other.probabilities
    np.testing.assert_allclose(read.probabilities, expected, atol=1e-6)


def test_it_is_saved_with_both(mixed, tmp_path):
    mixed.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    assert again.guide.weight == 0.3
    np.testing.assert_array_equal(
        again.guide.confusion_given(mixed.data), mixed.guide.confusion_given(mixed.data)
    )


def test_a_weight_is_a_share(both):
    with pytest.raises(ValueError, match="weight is 2, but must be between 0 and 1"):
        AveragedGuide(*(fitted.guide for fitted in both), weight=2)
