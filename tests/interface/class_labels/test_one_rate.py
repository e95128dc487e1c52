from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import AveragedGuide, ClassLabelGuide
from pyro_crowdclust.interface import AverageWithOneRate, classify, infer_classes
from pyro_crowdclust.interface.class_labels.infer_classes import infer_independent
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.results import step_of
from pyro_crowdclust.training import is_interrupted

from ...control_c import press_in_start


def families(seed: int, num_items: int = 500) -> tuple[np.ndarray, pd.DataFrame]:
    """Three unequal classes, and answers of eight workers of three families."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(3, num_items, p=[0.8, 0.15, 0.05])
    looks = 2.2 * np.eye(3)[kind] + 0.7 * rng.normal(size=(num_items, 3))
    seen = looks + 0.8 * rng.normal(size=(3, num_items, 3))[np.arange(8) % 3]
    seen = seen + 0.8 * rng.normal(size=seen.shape) + 0.6 * rng.normal(size=(8, 1, 3))
    worker, item = np.indices(seen.shape[:2])
    columns = {"item": item.ravel(), "worker": worker.ravel(), "label": seen.argmax(-1).ravel()}
    return kind, pd.DataFrame(columns)


@pytest.fixture(scope="module")
def crowd():
    kind, answers = families(0)
    return kind, answers, infer_classes(CrowdData(None, labels=answers))


@pytest.mark.long
def test_rare_classes_do_not_take_in_what_families_misjudge_together(crowd):
    kind, answers, result = crowd
    alone = infer_independent(CrowdData(None, labels=answers), Workers())
    temperature = result.guide.reading.temperature
    assert temperature > 1
    assert result.guide.weight == pytest.approx(1 - 0.9 / temperature**0.5)
    share = [found.probabilities[:, 0].mean() for found in (result, alone)]
    assert (kind == 0).mean() > share[0] > share[1] + 0.005
    right = [(found.probabilities.argmax(1) == kind).mean() for found in (result, alone)]
    assert right[0] > right[1]
    assert log_loss(kind, result.probabilities) < log_loss(kind, alone.probabilities) - 0.01


@pytest.mark.long
def test_a_call_with_labels_alone_saves_and_updates_the_same_average(crowd, tmp_path):
    _, answers, result = crowd
    called = classify(None, answers, progress=False)
    np.testing.assert_allclose(called.probabilities, result.probabilities, atol=1e-6)
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    np.testing.assert_array_equal(again.probabilities, result.probabilities)
    more = pd.DataFrame({"item": [0, 1, 2], "worker": ["new"] * 3, "label": [0, 1, 0]})
    updated = again.update(labels=more, epochs=5)
    assert step_of(updated, AverageWithOneRate)
    assert updated.guide.other.model.annotators.num_workers == 9


def test_ctrl_c_in_the_fit_of_one_rate_leaves_the_matrices(monkeypatch):
    _, answers = families(1, 60)
    press_in_start(monkeypatch, 7)  # the seventh fit, after six of independent workers
    result = infer_classes(CrowdData(None, labels=answers), epochs=5)
    assert isinstance(result.guide, ClassLabelGuide)
    assert is_interrupted(result)


def test_two_workers_have_one_rate_anyway():
    _, answers = families(2, 60)
    pair = answers[answers["worker"] < 2]
    result = infer_classes(CrowdData(None, labels=pair), epochs=5)
    assert not isinstance(result.guide, AveragedGuide)
