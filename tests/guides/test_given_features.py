"""The classes of labels alone, moved by what another guide knows from features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide, GivenFeatures
from pyro_crowdclust.mixture import SoftmaxRegression
from pyro_crowdclust.models import DawidSkene, LogResp
from pyro_crowdclust.results.item_posterior import infer_by_features


@pytest.fixture(scope="module")
def both():
    """Fits with features and without of thirty items, twenty of which have labels."""
    rng = np.random.default_rng(0)
    kind = np.arange(30) % 2
    item, worker = np.indices((20, 3)).reshape(2, -1)
    said = np.where(rng.random(60) < 0.8, kind[item], 1 - kind[item])
    labels = pd.DataFrame({"item": item, "worker": worker, "label": said})
    data = CrowdData(2.0 * kind[:, None] + rng.normal(size=(30, 1)), labels=labels)
    options = {"batch_size": None, "epochs": 15, "step_size": 0.5, "progress": False}
    found = []
    for model in (
        LogResp(SoftmaxRegression(2, 1), ConfusionMatrices(3, 2)),
        DawidSkene(ConfusionMatrices(3, 2)),
    ):
        found.append(fit(model, ClassLabelGuide(model), data, **options))
    return found


def test_labels_and_features_are_multiplied(both):
    with_features, alone = both
    read = replace(alone, guide=GivenFeatures(alone.guide, with_features.guide, power=0.5))
    by_features = np.asarray(infer_by_features(with_features))
    shares = alone.probabilities[20:]
    log_ratios = np.log(by_features[:20]) - np.log(shares[:1])
    expected = softmax(np.log(alone.probabilities[:20]) + 0.5 * log_ratios, axis=1)
    np.testing.assert_allclose(read.probabilities[:20], expected, atol=1e-6)
    np.testing.assert_allclose(read.probabilities[20:], by_features[20:], atol=1e-6)
    assert abs(expected - alone.probabilities[:20]).max() > 0.01


def test_without_labels_features_are_all_there_is(both):
    with_features, alone = both
    read = replace(alone, guide=GivenFeatures(alone.guide, with_features.guide, power=0.5))
    by_features = np.asarray(infer_by_features(with_features))
    np.testing.assert_allclose(np.asarray(infer_by_features(read)), by_features, atol=1e-6)


def test_workers_are_those_of_labels_alone(both):
    with_features, alone = both
    guide = GivenFeatures(alone.guide, with_features.guide, power=0.5)
    read = replace(with_features, guide=with_features.guide.read_at(beside=guide, beside_weight=1))
    pd.testing.assert_series_equal(read.confusion["mean"], alone.confusion["mean"])
    asked = np.array([0, 25]), np.array([0, 1]), np.array([1, 0])
    said = [one.answer_probabilities(*asked) for one in (read, alone)]
    np.testing.assert_allclose(said[0], said[1], atol=1e-9)
