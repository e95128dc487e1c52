"""Answers about an item that may all be a single one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from pyro_crowdclust import CrowdData
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.pooling import SINGLE_ANSWER_PROBABILITY, calibrated_guide


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=80)
    item, worker = np.indices((60, 5)).reshape(2, -1)
    kept = rng.random(300) < 0.7
    says = np.where(rng.random(300) < 0.7, truth[item], rng.integers(3, size=300))
    labels = pd.DataFrame({"item": item, "worker": worker, "label": says})[kept]
    data = CrowdData(None, labels=labels, item_ids=range(80), classes=range(3))
    return infer_classes(data, [1])


def test_with_this_probability_answers_have_their_mean_evidence(result):
    """By a loop over the items, from the evidence of every answer."""
    guide, batch = result.guide, full_batch(result.data)
    labels, evidence = batch.class_labels, guide.log_labels(batch).numpy()
    alone = guide.infer(full_batch(result.data.with_parts(class_labels=None))).logits.numpy()
    found = softmax(guide.infer(batch).logits.numpy(), axis=1)
    assert guide.reading.single_answer_probability == SINGLE_ANSWER_PROBABILITY
    for place in range(80):
        own = evidence[labels.item.numpy() == place]
        number = max(len(own), 1)
        hot = guide.reading.temperature if len(own) else 1.0
        independent = softmax((alone[place] + own.sum(0)) / hot)
        single = softmax(alone[place] + own.sum(0) / number)
        expected = independent + SINGLE_ANSWER_PROBABILITY * (single - independent)
        np.testing.assert_allclose(found[place], expected, atol=1e-9)


def test_it_is_read_and_not_trained(result):
    plain, read = result.guide.in_full(), calibrated_guide(result)
    assert (plain.reading.single_answer_probability, plain.reading.temperature) == (0.0, 1.0)
    assert (read.reading.single_answer_probability, read.reading.temperature) == (
        SINGLE_ANSWER_PROBABILITY,
        result.guide.reading.temperature,
    )
    for name, value in plain.state_dict().items():
        np.testing.assert_array_equal(value, read.state_dict()[name])


@pytest.mark.parametrize("probability", [-0.1, 1.0])
def test_it_is_a_probability_below_one(result, probability):
    with pytest.raises(ValueError, match="single_answer_probability is .* at least 0, and below 1"):
        ClassLabelGuide(result.model, single_answer_probability=probability)
