"""A trait beside candidates with features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import AveragedGuide, GivenFeatures
from pyro_crowdclust.interface import AverageWithTrait, TrainMembers, classify
from pyro_crowdclust.interface.class_labels import classification
from pyro_crowdclust.interface.class_labels.candidates import class_candidates
from pyro_crowdclust.models import AveragedPredictions
from pyro_crowdclust.results import step_of

QUICK = {"folds": 2, "epochs": 15, "progress": False}


def lookalikes(seed: int, num_asked: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Features that show what eight judges see; which pairs match; and answers about the first."""
    rng = np.random.default_rng(seed)
    same = rng.random(260) < 0.25
    looks = np.where(same, 1.5, -1.5) + 1.2 * rng.normal(size=260)
    seen = looks[:, None] + 0.7 * rng.normal(size=(260, 8)) - 0.6 * rng.normal(size=8)
    says = (rng.random(seen.shape) < expit(4 * seen))[:num_asked]
    item, worker = np.indices(says.shape).reshape(2, -1)
    labels = pd.DataFrame({"item": item, "worker": worker, "label": says.ravel().astype(int)})
    features = np.column_stack([looks + rng.normal(size=260), rng.normal(size=260)])
    return features, same.astype(int), labels


@pytest.fixture(scope="module")
def found():
    features, same, labels = lookalikes(0, 200)
    data = CrowdData(features, labels=labels)
    # A regression and Gaussians: which candidates are averaged is not the question.
    some = [class_candidates(data)[number] for number in (0, 1, 3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classification, "class_candidates", lambda data: some)
        return same, labels, classify(features, labels, **QUICK)


@pytest.mark.long
def test_features_that_judges_see_hardly_make_it_worse_than_labels_alone(found):
    """Less than with judges who are taken as independent."""
    same, labels, result = found
    alone = classify(None, labels, progress=False)
    independent = replace(result, guide=result.guide.own)
    both, of_labels, without_trait = (
        log_loss(same[:200], one.class_probabilities[1].iloc[:200])
        for one in (result, alone, independent)
    )
    assert both < of_labels + 0.06
    assert both < without_trait - 0.05
    assert "those do who err about the same items" in result.chosen.reason


@pytest.mark.long
def test_items_without_labels_have_the_classes_of_the_features(found):
    _, _, result = found
    features = np.asarray(result.data.features)
    new = result.predict_class_probabilities(features[200:])
    np.testing.assert_allclose(result.probabilities[200:], new, atol=1e-6)


@pytest.mark.long
def test_it_is_saved_and_updated(found, tmp_path):
    _, _, result = found
    result.save(tmp_path / "fit")
    again = load(tmp_path / "fit", data=result.data)
    np.testing.assert_array_equal(again.probabilities, result.probabilities)
    more = pd.DataFrame({"item": [0, 1, 250], "worker": ["new"] * 3, "label": [0, 1, 0]})
    updated = again.update(labels=more, epochs=3)
    assert isinstance(updated.model, AveragedPredictions)
    assert step_of(updated, TrainMembers)
    assert step_of(updated, AverageWithTrait)
    assert isinstance(updated.guide.other, GivenFeatures)
    assert updated.guide.other.model.annotators.num_workers == 9


@pytest.mark.long
def test_somebody_trusted_shows_what_labels_tell_without_a_trait():
    features, same, labels = lookalikes(1, 60)
    known = pd.DataFrame({"item": range(20), "worker": "known", "label": same[:20]})
    labels = pd.concat([labels.assign(worker=labels["worker"].map(str)), known])
    result = classify(features, labels, trusted=["known"], **QUICK)
    assert not isinstance(result.guide, AveragedGuide)
