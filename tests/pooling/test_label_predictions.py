"""Which of two fits predicts labels better without themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import ConfusionMatrices, OneCoin
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling.calibration import TEMPERATURES, HeldOutLabels, at_best_temperature
from pyro_crowdclust.pooling.label_predictions import predicts_better


def fitted(data: CrowdData, annotators: torch.nn.Module) -> Fitted:
    model = DawidSkene(annotators)
    options = {"epochs": 30, "batch_size": None, "dtype": torch.float64, "progress": False}
    return fit(model, ClassLabelGuide(model, moderated=True), data, step_size=0.5, **options)


@pytest.fixture(scope="module")
def shifted() -> tuple[Fitted, Fitted]:
    """Three of six workers name the next class for two of three: matrices know, rates do not."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=120)
    item, worker = (one.ravel() for one in np.indices((120, 6)))
    right = rng.random(720) < np.where((worker < 3) & (truth[item] > 0), 0.3, 0.85)
    label = np.where(right, truth[item], (truth[item] + 1) % 3)
    data = CrowdData(None, labels=pd.DataFrame({"item": item, "worker": worker, "label": label}))
    return fitted(data, ConfusionMatrices(6, 3)), fitted(data, OneCoin(6, 3))


def test_matrices_predict_what_one_rate_cannot(shifted):
    matrices, rates = shifted
    assert predicts_better(matrices, rates)
    assert not predicts_better(rates, matrices)


def test_both_fits_are_judged_by_the_mean_of_their_rows(shifted, monkeypatch):
    """The difference in a loop over labels and classes, at each fit's own best temperature."""
    seen = []
    name = "pyro_crowdclust.pooling.label_predictions.is_clearly_better"
    monkeypatch.setattr(name, lambda *logs: bool(seen.append(logs)))
    predicts_better(*shifted)
    held_out = [HeldOutLabels.of(one) for one in shifted]
    rows = (held_out[0].log_answers.exp() + held_out[1].log_answers.exp()).numpy() / 2
    for logs, each in zip(seen[0], held_out, strict=True):
        expected = {}
        for temperature in TEMPERATURES:
            q = np.exp(each.log_others.numpy() / temperature)
            q /= q.sum(1, keepdims=True)
            terms = [np.log(sum(q[a, k] * rows[a, k] for k in range(3))) for a in range(len(q))]
            expected[sum(terms) - np.log(temperature) ** 2 / 2] = terms
        np.testing.assert_allclose(logs, expected[max(expected)], atol=1e-9)


def test_labels_of_one_worker_an_item_tell_nothing():
    said = {"item": range(6), "worker": list("aabbcc"), "label": list("xyxyxy")}
    data = CrowdData(None, labels=said)
    one, other = fitted(data, ConfusionMatrices(3, 2)), fitted(data, OneCoin(3, 2))
    assert not predicts_better(one, other)


def test_the_best_temperature_has_a_normal_prior_of_its_logarithm():
    """A single answer, against what is nearly certain, does not choose the highest temperature."""
    classes, named = np.array([[0.99, 0.01]]), np.array([[0.3, 0.7]])
    best, found = at_best_temperature(classes, named)
    logs = {}
    for temperature in TEMPERATURES:
        odds = 99 ** (1 / temperature)
        logs[temperature] = np.log((0.3 * odds + 0.7) / (odds + 1)) - np.log(temperature) ** 2 / 2
    assert best == max(logs, key=logs.get) < TEMPERATURES[-1]
    assert np.log(found[0]) - np.log(best) ** 2 / 2 == pytest.approx(logs[best])
