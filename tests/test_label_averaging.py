"""Averages of models: answers held out, and the temperature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.class_annotators import ConfusionMatrices, OneCoin
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import average_annotator_models
from pyro_crowdclust.label_averaging import average_classes, hold_out_answers
from pyro_crowdclust.label_calibration import TEMPERATURES, temper
from pyro_crowdclust.models import DawidSkene


def answers(seed: int) -> pd.DataFrame:
    """Six workers of 40 items, two of whom mix up the classes a and b; string ids."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=40)
    rows = []
    for item, worker in zip(*np.nonzero(rng.random((40, 6)) < 0.7), strict=True):
        label = truth[item] if rng.random() < 0.8 else rng.integers(3)
        if worker < 2 and label < 2:
            label = 1 - label
        rows.append((f"i{item:02d}", f"w{worker}", "abc"[label]))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_answers_held_out_leave_every_item_and_worker_another(share):
    data = CrowdData(None, labels=answers(0))
    rest, held = hold_out_answers(data, share, seed=1)
    assert rest.num_labels + len(held) == data.num_labels
    assert len(held) == round(share * data.num_labels) or share == 0.9
    assert set(rest.labels["item"]) == set(data.item_ids)
    assert rest.worker_ids.equals(data.worker_ids)
    assert rest.class_ids.equals(data.class_ids)
    ids = data.item_ids, data.worker_ids, data.class_ids
    codes = held.item, held.worker, held.label
    named = [of[code] for of, code in zip(ids, codes, strict=True)]
    frame = pd.DataFrame(dict(zip(["item", "worker", "label"], named, strict=True)))
    both = pd.concat([frame, rest.labels]).sort_values(["item", "worker", "label"])
    expected = data.labels.sort_values(["item", "worker", "label"])
    np.testing.assert_array_equal(both, expected)


def test_answers_that_cannot_be_held_out():
    data = CrowdData(None, labels=answers(0))
    with pytest.raises(ValueError, match="share is 1, but must be between 0 and 1"):
        hold_out_answers(data, 1)
    single = {"item": [0, 1, 2], "worker": [0, 0, 0], "label": [0, 1, 0]}
    with pytest.raises(ValueError, match="no answer can be held out"):
        hold_out_answers(CrowdData(None, labels=single))


def fit_each(data: CrowdData) -> list:
    models = [
        DawidSkene(annotators(data.num_workers, data.num_classes))
        for annotators in (ConfusionMatrices, OneCoin)
    ]
    settings = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
    return [fit(model, ClassLabelGuide(model), data, **settings) for model in models]


def test_the_average_is_that_of_a_loop_over_the_answers_held_out():
    data = CrowdData(None, labels=answers(3))
    average = average_classes(data, fit_each, share=0.3, seed=4)
    rest, held = hold_out_answers(data, 0.3, seed=4)
    members = fit_each(rest)
    means = [member.guide.confusion().mean for member in members]

    def log_likelihood(temperature: float) -> float:
        total = 0.0
        for i, j, a in zip(held.item, held.worker, held.label, strict=True):
            q = (members[0].probabilities[i] + members[1].probabilities[i]) / 2
            named = (means[0][j, :, a] + means[1][j, :, a]) / 2
            total += np.log(temper(q[None], temperature)[0] @ named)
        return total

    found = {t: log_likelihood(t) for t in TEMPERATURES}
    assert average.temperature == max(found, key=found.get)
    q = (average.members[0].probabilities + average.members[1].probabilities) / 2
    expected = temper(q, average.temperature)
    np.testing.assert_allclose(average.class_probabilities, expected, atol=1e-12)
    assert average.class_probabilities.columns.tolist() == ["a", "b", "c"]
    rows = average.confusion["mean"].groupby(["worker", "class"]).sum()
    np.testing.assert_allclose(rows, 1)


def test_four_models_of_the_annotators_are_averaged():
    data = CrowdData(None, labels=answers(5))
    average = average_annotator_models(data, epochs=5)
    assert len(average.members) == 4
    assert average.class_probabilities.index.equals(data.item_ids.rename("item"))
