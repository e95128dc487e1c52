"""Advice about class labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice, infer_classes
from pyro_crowdclust.pooling import AveragedClasses, draw_classes


def test_workers_who_always_say_the_same_are_named():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=40)
    says = np.where(rng.random((40, 3)) < 0.9, truth[:, None], 1 - truth[:, None])
    item, worker = np.indices((40, 4)).reshape(2, -1)
    label = np.column_stack([says, np.zeros(40, int)]).ravel()
    named = np.array(["ann", "ben", "cat", "dull"])[worker]
    labels = pd.DataFrame({"item": item, "worker": named, "label": label})
    (found,) = advice(infer_classes(CrowdData(None, labels=labels), [0], epochs=20))
    assert "(in workers: 'dull'): leave their labels out" in found
    others = labels[labels["worker"] != "dull"]
    assert advice(infer_classes(CrowdData(None, labels=others), [0], epochs=20)) == []


def test_two_classes_of_one_worker_for_an_item_are_named():
    rng = np.random.default_rng(1)
    item, worker = np.indices((30, 3)).reshape(2, -1)
    label = rng.integers(2, size=30)[item]
    labels = pd.DataFrame({"item": item, "worker": np.array(["ann", "ben", "cat"])[worker]})
    labels["label"] = label
    changed = labels.iloc[[4]].assign(label=1 - label[4])
    said = pd.concat([labels, changed], ignore_index=True)
    (found,) = advice(infer_classes(CrowdData(None, labels=said), [0], epochs=40))
    assert "in 1 case, such as 'ben' to 1, and answers that a worker repeats" in found
    assert "workers in the mean" in found
    assert advice(infer_classes(CrowdData(None, labels=labels), [0], epochs=40)) == []


def test_advice_about_averages_and_draws_is_that_about_their_labels():
    rng = np.random.default_rng(1)
    item, worker = np.indices((30, 3)).reshape(2, -1)
    label = rng.integers(2, size=30)[item]
    label[worker == 2] = 0
    names = np.array(["ann", "ben", "dull"])[worker]
    data = CrowdData(None, labels={"item": item, "worker": names, "label": label})
    result = infer_classes(data, [0], epochs=40)
    drawn = draw_classes(result, num_draws=5)
    (found,) = advice(AveragedClasses([drawn, result], [1.0, 1.0], np.full(2, 0.5)))
    assert "(in workers: 'dull')" in found
    assert advice(drawn) == advice(result) == [found]
    with pytest.raises(ValueError, match="result is DataFrame, but must be a fit"):
        advice(result.class_probabilities)
