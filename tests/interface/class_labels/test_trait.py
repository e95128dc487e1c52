from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import f1_score, log_loss

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import (
    AverageWithTrait,
    average_annotator_models,
    classify,
    infer_classes,
)
from pyro_crowdclust.interface.class_labels.infer_classes import infer_independent
from pyro_crowdclust.interface.class_labels.trait import fit_trait
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.pooling.shared_errors import LARGEST_WEIGHT
from pyro_crowdclust.results import step_of
from pyro_crowdclust.training import is_interrupted

from ...control_c import press_in_start


def families(seed: int) -> tuple[np.ndarray, pd.DataFrame]:
    """Whether items match (.05 do), and answers of four families of five, strict and lenient."""
    rng = np.random.default_rng(seed)
    same = rng.random(600) < 0.05
    looks = np.where(same, 1.5, -1.5) + 0.8 * rng.normal(size=600)
    seen = looks[:, None] + np.repeat(0.8 * rng.normal(size=(600, 4)), 5, axis=1)
    seen = seen + 0.3 * rng.normal(size=seen.shape) - np.tile([-1, -0.5, 0, 0.5, 1], 4)
    item, worker = np.indices(seen.shape)
    label = (rng.random(seen.shape) < expit(20 * seen)).astype(int)
    columns = {"item": item.ravel(), "worker": worker.ravel(), "label": label.ravel()}
    return same.astype(int), pd.DataFrame(columns)


@pytest.fixture(scope="module")
def crowd():
    same, answers = families(0)
    return same, answers, classify(None, answers, progress=False)


@pytest.mark.long
def test_judges_who_err_together_do_not_change_what_a_class_means(crowd):
    same, answers, result = crowd
    data = CrowdData(None, labels=answers)
    alone = infer_independent(data, Workers())
    vote = answers.groupby("item")["label"].mean().to_numpy()
    f1 = {
        name: f1_score(same, p > 0.5)
        for name, p in (
            ("average", result.class_probabilities[1]),
            ("alone", alone.class_probabilities[1]),
            ("vote", vote),
        )
    }
    assert f1["average"] > f1["vote"] > f1["alone"] + 0.2
    assert log_loss(same, result.class_probabilities[1]) < log_loss(same, vote)
    assert result.guide.weight == pytest.approx(LARGEST_WEIGHT, abs=0.001)
    assert "those do who err about the same items" in result.chosen.reason
    assert result.chosen.winner == "average with a trait on none, 2 components"
    # As the classes do, their rates mean "same".
    says_same = result.confusion["mean"].xs((0, 1), level=["class", "label"]).to_numpy()
    true = answers[same[answers["item"]] == 0].groupby("worker")["label"].mean()
    np.testing.assert_allclose(says_same, true, atol=0.06)
    plain = infer_classes(data)
    np.testing.assert_allclose(plain.probabilities, result.probabilities, atol=1e-6)


@pytest.mark.long
def test_a_result_with_a_trait_is_saved_and_updated(crowd, tmp_path):
    _, _, result = crowd
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    np.testing.assert_array_equal(again.probabilities, result.probabilities)
    more = pd.DataFrame({"item": [0, 1, 2], "worker": ["new"] * 3, "label": [0, 1, 0]})
    updated = again.update(labels=more, epochs=5)
    assert step_of(updated, AverageWithTrait)
    assert updated.guide.other.model.annotators.num_workers == 21
    assert updated.confusion.index.get_level_values("worker").nunique() == 21


def test_ctrl_c_in_the_trait_leaves_independent_workers(monkeypatch):
    _, answers = families(1)
    data = CrowdData(None, labels=answers[answers["item"] < 60])
    press_in_start(monkeypatch, 7)  # the seventh fit, after six of independent workers
    result = infer_classes(data, epochs=5)
    assert isinstance(result.guide, ClassLabelGuide)
    assert is_interrupted(result)


@pytest.mark.long
def test_an_average_of_models_gives_the_trait_its_weight():
    same, answers = families(3)
    vote = answers.groupby("item")["label"].mean().to_numpy()
    average = average_annotator_models(CrowdData(None, labels=answers), num_draws=20)
    assert f1_score(same, average.class_probabilities[1] > 0.5) > f1_score(same, vote > 0.5) + 0.05
    assert average.weights.sum() == pytest.approx(1)
    assert average.weights[-1] >= 0.7


def test_items_without_labels_have_no_part_in_the_trait():
    _, answers = families(3)
    answers = answers[(answers["item"] < 50) & (answers["worker"] < 5)]
    few = fit_trait(CrowdData(None, labels=answers), epochs=20)
    more = fit_trait(CrowdData(None, labels=answers, item_ids=range(500)), epochs=20)
    np.testing.assert_allclose(more.probabilities[:50], few.probabilities, atol=1e-9)
    assert len(more.class_probabilities) == 500
