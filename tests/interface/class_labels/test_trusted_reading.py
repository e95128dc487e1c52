"""Labels of trusted workers show how much those of the others tell."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import Calibrate, classify, infer_classes
from pyro_crowdclust.interface.class_labels.trusted_reading import (
    KnownItems,
    counts_in_words,
    read_by_trusted,
)
from pyro_crowdclust.results import step_of

NUM_ITEMS, NUM_KNOWN = 300, 30


def family_of_judges(seed: int) -> SimpleNamespace:
    """Four of six judges are of one family, which is mostly wrong about a fourth of the items."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(NUM_ITEMS) < 0.3).astype(int)
    misled = rng.random(NUM_ITEMS) < 0.25
    wrong = rng.random((NUM_ITEMS, 6)) < np.where(misled[:, None], [0.9] * 4 + [0.15] * 2, 0.1)
    item, worker = np.indices(wrong.shape)
    label = truth[:, None] ^ wrong
    known = rng.choice(NUM_ITEMS, NUM_KNOWN, replace=False)
    expert = {"item": known, "worker": "expert", "label": truth[known]}
    table = {"item": item.ravel(), "worker": [f"judge {one}" for one in worker.ravel()]}
    labels = pd.concat([pd.DataFrame(table | {"label": label.ravel()}), pd.DataFrame(expert)])
    rest = np.setdiff1d(np.arange(NUM_ITEMS), known)
    return SimpleNamespace(labels=labels, truth=truth, known=known, rest=rest, rng=rng)


@pytest.fixture(scope="module")
def judges():
    crowd = family_of_judges(0)
    crowd.result = infer_classes(CrowdData(None, labels=crowd.labels), trusted=["expert"])
    return crowd


def scores(crowd, result) -> tuple[float, float]:
    """Accuracy and log loss of the items that the expert has not labelled."""
    found, truth = result.probabilities[crowd.rest], crowd.truth[crowd.rest]
    return (found.argmax(1) == truth).mean(), log_loss(truth, found.clip(1e-6))


def plainly(result):
    """The result with all labels counted in full."""
    return dataclasses.replace(result, guide=result.guide.in_full())


def test_a_family_that_errs_together_counts_as_little_as_it_tells(judges):
    right, loss = scores(judges, judges.result)
    doubtless = infer_classes(
        CrowdData(None, labels=judges.labels[judges.labels["worker"] != "expert"])
    )
    before_right, before_loss = scores(judges, doubtless)
    assert before_right < 0.8
    assert before_loss > 2 * loss
    assert right > 0.85
    assert loss < 0.4
    weight = pd.Series(judges.result.guide.reading.evidence_weights, judges.result.data.worker_ids)
    assert weight["expert"] == 1
    family = [weight[f"judge {one}"] for one in range(4)]
    assert max(family) < min(weight["judge 4"], weight["judge 5"])
    assert judges.result.probabilities[judges.known, judges.truth[judges.known]].min() > 0.99
    # Rates follow the classes: the family is not as good as it agrees.
    mean = judges.result.confusion["mean"].unstack()
    assert mean.loc[("judge 0", 0), 0] < 0.88


def test_honest_workers_count_nearly_in_full():
    rng = np.random.default_rng(2)
    truth = rng.integers(3, size=200)
    item, worker = np.indices((200, 4))
    says = np.where(rng.random((200, 4)) < 0.8, truth[:, None], rng.integers(3, size=(200, 4)))
    labels = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    known = {"item": range(40), "worker": 9, "label": truth[:40]}
    both = pd.concat([pd.DataFrame(labels), pd.DataFrame(known)])
    result = infer_classes(CrowdData(None, labels=both), trusted=[9])
    assert np.mean(result.guide.reading.evidence_weights) > 0.8
    found = [log_loss(truth[40:], one.probabilities[40:]) for one in (result, plainly(result))]
    assert found[0] < found[1] + 0.04


def test_nobody_else_was_asked_about_what_the_trusted_labelled():
    said = {"item": [0, 0, 1, 2, 3], "worker": list("ababe"), "label": list("xxyxy")}
    result = infer_classes(CrowdData(None, labels=said), trusted=["e"], epochs=3)
    assert result.guide.reading.evidence_weights is None
    assert read_by_trusted(result) is result
    alone = infer_classes(CrowdData(None, labels=said), epochs=3)
    assert read_by_trusted(alone) is alone


def test_weights_and_shift_are_the_likeliest_under_their_prior():
    rng = np.random.default_rng(4)
    number, num_workers, num_classes = 25, 3, 3
    known = rng.integers(num_classes, size=number)
    item = np.repeat(np.arange(number), 2)
    worker = rng.integers(num_workers - 1, size=2 * number)  # nothing is known about the last
    log_labels = np.log(rng.dirichlet(np.ones(3), 2 * number))
    log_labels[np.arange(2 * number), known[item]] += 1.5 * (worker == 0)
    logits = rng.normal(size=(number, num_classes))
    items = KnownItems(logits, known, item, worker, log_labels, num_workers)
    weight, shift = items.likeliest_reading()
    assert ((weight >= 0) & (weight <= 1)).all()

    def loss(values):
        common, weight, shift = np.split(values, [1, 4])
        read = logits + shift
        for one, who, said in zip(item, worker, log_labels, strict=True):
            read[one] = read[one] + weight[who] * said
        log_q = log_softmax(read, axis=1)[np.arange(number), known].sum()
        prior = ((weight - common) ** 2).sum() / 0.09 + ((1 - common) ** 2).sum()
        return -log_q + 0.5 * (prior + (shift**2).sum() / 0.25)

    bounds = [(0, 1)] * 4 + [(-3, 3)] * 3
    expected = minimize(loss, np.r_[np.full(4, 0.5), np.zeros(3)], bounds=bounds, tol=1e-14).x
    np.testing.assert_allclose(weight, expected[1:4], atol=1e-4)
    np.testing.assert_allclose(shift, expected[4:], atol=1e-4)
    assert weight[2] == pytest.approx(expected[0], abs=1e-4)
    inside = (expected > 1e-3) & (expected < 1 - 1e-3)
    assert np.abs(approx_fprime(expected, loss))[inside].max() < 1e-3


def test_a_file_and_an_update_keep_the_reading(judges, tmp_path):
    judges.result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    np.testing.assert_allclose(loaded.probabilities, judges.result.probabilities)
    assert step_of(loaded, Calibrate)
    item = judges.rest[:20]
    more = {"item": item, "worker": "another", "label": judges.truth[item]}
    updated = loaded.update(labels=more)
    assert len(updated.guide.reading.evidence_weights) == updated.data.num_workers == 8
    assert step_of(updated, Calibrate)
    assert scores(judges, updated)[1] < 0.4


@pytest.mark.long
def test_with_features_labels_are_counted_in_the_same_way(judges):
    features = judges.rng.normal(size=(NUM_ITEMS, 2)) + 1.2 * judges.truth[:, None]
    result = classify(features, judges.labels, trusted=["expert"], progress=False)
    assert result.chosen.table.loc[result.chosen.table["chosen"], "features"].item() != "none"
    assert result.guide.reading.evidence_weights is not None
    right, loss = scores(judges, result)
    assert right > 0.9
    assert loss < 0.3


def test_minibatches_are_read_in_the_same_way(judges):
    data = CrowdData(None, labels=judges.labels)
    result = infer_classes(data, trusted=["expert"], batch_size=80, epochs=40)
    assert max(result.guide.reading.evidence_weights[1:5]) < 0.9  # after the expert, the family
    assert scores(judges, result)[1] < 0.4


@pytest.mark.long
def test_features_with_gaps_go_on_from_a_file_with_a_new_worker(judges, tmp_path):
    features = judges.rng.normal(size=(NUM_ITEMS, 2)) + 1.5 * judges.truth[:, None]
    features[judges.rng.random(features.shape) < 0.1] = np.nan
    result = classify(features, judges.labels, trusted=["expert"], progress=False)
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=result.data)
    np.testing.assert_array_equal(loaded.probabilities, result.probabilities)
    item = judges.rest[:5]
    more = {"item": item, "worker": "another", "label": judges.truth[item]}
    updated = loaded.update(labels=more)
    assert len(updated.guide.reading.evidence_weights) == updated.data.num_workers == 8
    assert scores(judges, updated)[0] > 0.85


def test_the_reason_says_how_much_labels_count(judges):
    said = counts_in_words(judges.result)
    assert "tell less than independent ones would" in said
    assert "least 'judge " in said
    honest = np.ones(judges.result.data.num_workers).tolist()
    guide = judges.result.guide.read_at(1.0, evidence_weights=honest)
    assert not counts_in_words(dataclasses.replace(judges.result, guide=guide))
    assert not counts_in_words(plainly(judges.result))
    result = classify(None, judges.labels, trusted=["expert"], progress=False)
    assert result.chosen.reason.endswith(counts_in_words(result))
    assert scores(judges, result)[1] < 0.4
