"""Advice about class labels."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice, infer_classes


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
    assert "in 1 case, such as 'ben' to 1, and all of them count" in found
    assert advice(infer_classes(CrowdData(None, labels=labels), [0], epochs=40)) == []
