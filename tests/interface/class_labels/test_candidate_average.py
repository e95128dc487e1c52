"""Weights of candidates in their average, and updates of the average."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import Calibrate, TrainMembers, classify
from pyro_crowdclust.interface.class_labels import classification
from pyro_crowdclust.interface.class_labels.candidate_average import weighted
from pyro_crowdclust.interface.class_labels.candidates import class_candidates
from pyro_crowdclust.interface.class_labels.trials import ClassCandidate, ClassTrial
from pyro_crowdclust.models import AveragedPredictions
from pyro_crowdclust.results import step_of
from pyro_crowdclust.training.stopping import is_interrupted

from ...control_c import press_in_start


def trial(probabilities: Sequence[float]) -> ClassTrial:
    """A candidate that predicts the labels of held-out items with these probabilities."""
    own = np.log([probabilities])
    return ClassTrial(ClassCandidate("columns", "kind", None), own, own, len(own[0]), 0.0)


def weights_of(*likely: Sequence[float]) -> np.ndarray:
    """Weights of candidates that predict labels with these probabilities."""
    return np.array([one.weight for one in weighted([trial(row) for row in likely])])


def test_weights_are_square_roots_of_the_likelihood_of_held_out_labels():
    likely = np.random.default_rng(0).uniform(0.3, 0.7, size=(3, 12))
    expected = (likely.prod(1) * np.exp(np.log(likely).mean(1) / 2)) ** 0.5
    np.testing.assert_allclose(weights_of(*likely), expected / expected.sum())


def test_many_items_leave_the_best_and_few_leave_all():
    few = weights_of([0.5] * 4, [0.6] * 4, [0.55] * 4)
    assert (few > 0.2).all()
    many = weights_of([0.5] * 600, [0.6] * 600, [0.55] * 600)
    assert many.tolist() == [0, 1, 0]


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray, dict]:
    rng = np.random.default_rng(3)
    kind = rng.integers(2, size=80)
    features = rng.normal(size=(80, 2)) + 2.0 * kind[:, None]
    asked = np.arange(24)
    labels = {"item": asked, "worker": ["ann", "ben"] * 12, "label": kind[asked]}
    return features, kind, labels


@pytest.fixture(scope="module")
def result(blobs):
    """With the first five candidates only: which ones are averaged is not the question."""
    features, _, labels = blobs
    some = class_candidates(CrowdData(features, labels=labels))[:5]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classification, "class_candidates", lambda data: some)
        return classify(features, labels, epochs=10, folds=2, progress=False)


def test_the_result_is_a_model_of_the_average(blobs, result):
    features, kind, _ = blobs
    assert isinstance(result.model, AveragedPredictions)
    table = result.chosen.table
    assert table["weight"].sum() == pytest.approx(1)
    assert len(result.model.members) == (table["weight"] > 0).sum() > 1
    assert table["weight"].idxmax() == table.index[table["chosen"]].item()
    assert result.chosen.winner.startswith(f"average of {len(result.model.members)} candidates")
    assert "averaged" in result.chosen.reason
    found = result.predict_class_probabilities(features).idxmax(axis=1)
    assert (found == kind).mean() > 0.85


def test_an_update_trains_the_members_too(blobs, result, tmp_path):
    features, kind, labels = blobs
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=result.data)
    assert step_of(loaded, TrainMembers)
    more = {"item": range(30, 80), "worker": ["new"] * 50, "label": kind[30:]}
    updated = loaded.update(labels=more)
    assert step_of(updated, Calibrate)
    np.testing.assert_array_equal(updated.probabilities, result.update(labels=more).probabilities)
    assert updated.data.num_workers == 3
    for before, after in zip(result.model.members, updated.model.members, strict=True):
        assert after.model.annotators.num_workers == 3
        assert after.feature_weight == before.feature_weight
    new = np.random.default_rng(4).normal(size=(50, 2)) + 1.0
    moved = updated.predict_proba(new) - result.predict_proba(new)
    assert np.abs(moved).max() > 0.01
    again = updated.update(labels={"item": [25], "worker": ["new"], "label": [int(kind[25])]})
    assert len(again.data.labels) == 75


@pytest.mark.long
def test_an_update_ends_where_a_fit_to_all_labels_does(blobs):
    features, kind, labels = blobs
    more = {"item": range(30, 80), "worker": ["ann"] * 50, "label": kind[30:]}
    every = pd.concat([pd.DataFrame(labels), pd.DataFrame(more)], ignore_index=True)
    updated = classify(features, labels, progress=False).update(labels=more)
    fresh = classify(features, every, progress=False)
    found = [one.class_probabilities.to_numpy() for one in (updated, fresh)]
    assert np.abs(found[0] - found[1]).mean() < 0.05


def test_ctrl_c_in_a_member_ends_with_the_members_so_far(blobs, monkeypatch):
    features, _, labels = blobs
    few = class_candidates(CrowdData(features, labels=labels))[:3]
    monkeypatch.setattr(classification, "class_candidates", lambda data: few)
    press_in_start(monkeypatch, 2 * 3 + 2)
    result = classify(features, labels, epochs=5, folds=2, progress=False)
    assert is_interrupted(result)
    assert np.isfinite(result.probabilities).all()
