"""A trait beside candidates with features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import GivenFeatures
from pyro_crowdclust.interface import AveragedBesideTrait, classify
from pyro_crowdclust.interface.class_labels import classification
from pyro_crowdclust.interface.class_labels.candidates import class_candidates
from pyro_crowdclust.models import AveragedPredictions

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
def test_features_do_not_make_it_worse_than_labels_alone(found):
    same, labels, result = found
    alone = classify(None, labels, progress=False)
    both, of_labels = (
        log_loss(same[:200], one.class_probabilities[1].iloc[:200]) for one in (result, alone)
    )
    assert both < of_labels
    independent = result.guide.read_at(beside=None).infer
    assert independent is not None
    assert "those do who err about the same items" in result.chosen.reason


@pytest.mark.long
def test_items_without_labels_have_the_classes_of_the_features(found):
    _, _, result = found
    features = result.data.features.numpy()
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
    assert isinstance(updated.train_on, AveragedBesideTrait)
    assert isinstance(updated.guide.beside, GivenFeatures)
    assert updated.guide.beside.model.annotators.num_workers == 9


@pytest.mark.long
def test_somebody_trusted_shows_what_labels_tell_without_a_trait():
    features, same, labels = lookalikes(1, 60)
    known = pd.DataFrame({"item": range(20), "worker": "known", "label": same[:20]})
    labels = pd.concat([labels.assign(worker=labels["worker"].map(str)), known])
    result = classify(features, labels, trusted=["known"], **QUICK)
    assert result.guide.beside is None
