"""Two workers: what their labels show of the classes and of themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices, OneCoin
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.interface.class_labels.two_workers import at_one_rate
from pyro_crowdclust.models import DawidSkene


def two_workers(seed: int, accuracy: tuple[float, float], number: int, size: int):
    """Both label every item, and err evenly."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(number, size=size)
    rows = {"item": np.tile(np.arange(size), 2), "worker": np.repeat([0, 1], size)}
    right = rng.random(2 * size) < np.repeat(accuracy, size)
    wrong = (np.tile(truth, 2) + rng.integers(1, number, size=2 * size)) % number
    label = np.where(right, np.tile(truth, 2), wrong)
    return truth, CrowdData(None, labels=pd.DataFrame(rows | {"label": label}))


@pytest.fixture(scope="module", params=[(0.9, 0.65, 6, 300, 0), (0.85, 0.7, 10, 400, 1)], ids=str)
def crowd(request):
    first, second, number, size, seed = request.param
    truth, data = two_workers(seed, (first, second), number, size)
    return truth, infer_classes(data)


def test_where_they_disagree_each_is_as_likely_to_be_right(crowd):
    """One was believed, with .67 to .76."""
    truth, result = crowd
    assert isinstance(result.model.annotators, OneCoin)
    labels = result.data.class_labels.label.view(2, -1).numpy()
    differ = labels[0] != labels[1]
    rows = np.arange(len(truth))[differ]
    q = result.probabilities
    first, second = q[rows, labels[0][differ]], q[rows, labels[1][differ]]
    assert np.abs(first - second).max() < 0.35
    right = (result.assignments == truth).mean()
    assert abs(q.max(1).mean() - right) < 0.06
    assert log_loss(truth, q, labels=range(q.shape[1])) < 0.58


def test_who_is_better_is_not_known(crowd):
    table = crowd[1].confusion.loc[(slice(None), 0, 0), :]
    assert abs(table["mean"].diff().iloc[-1]) < 0.05
    assert (table["upper"] - table["lower"] > 0.2).all()


def test_one_rate_for_both_is_of_a_copy():
    _, data = two_workers(0, (0.9, 0.65), 3, 60)
    model = DawidSkene(OneCoin(2, 3))
    fitted = fit(model, ClassLabelGuide(model), data, progress=False)
    before = fitted.probabilities
    assert np.abs(at_one_rate(fitted).probabilities - before).max() > 0.01
    np.testing.assert_array_equal(replace(fitted).probabilities, before)


def test_after_a_fit_on_a_gpu_the_guide_starts_where_the_data_are(monkeypatch):
    _, data = two_workers(0, (0.9, 0.65), 3, 60)
    model = DawidSkene(OneCoin(2, 3))
    fitted = fit(model, ClassLabelGuide(model), data, epochs=1, progress=False)
    calls = []
    for part in (DawidSkene, ClassLabelGuide):
        monkeypatch.setattr(part, "to", lambda part, where: calls.append((type(part), where)))
    monkeypatch.setattr(ClassLabelGuide, "start", lambda *_: calls.append("start"))
    found = at_one_rate(replace(fitted, device=torch.device("cuda")))
    parts = [type(found.model), type(found.guide)]
    there, back = ([(part, where) for part in parts] for where in ("cpu", torch.device("cuda")))
    assert calls == [*there, "start", *back]


def test_two_workers_of_whom_one_always_says_the_same_have_matrices():
    truth, data = two_workers(0, (0.9, 0.9), 3, 60)
    labels = pd.DataFrame({"item": range(60), "worker": 2, "label": truth})
    constant = pd.DataFrame({"item": range(60), "worker": 3, "label": 1})
    result = infer_classes(CrowdData(None, labels=pd.concat([labels, constant])), epochs=5)
    assert isinstance(result.model.annotators, ConfusionMatrices)


def test_it_goes_on_with_a_third_worker(crowd):
    truth, result = crowd
    expert = pd.DataFrame({"item": range(len(truth)), "worker": "expert", "label": truth})
    updated = result.update(labels=expert, epochs=20)
    assert updated.data.num_workers == 3
    assert (updated.assignments == truth).mean() > (result.assignments == truth).mean() + 0.05
