"""What a label tells about other items, as sums over all draws, labels and classes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import xlogy

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.asking import Labels, suggest
from pyro_crowdclust.asking.worker_teaching import WorkerTeaching
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.models import DawidSkene

DRAWS, ITEMS, QUESTIONS, WORKERS = 40, 3, 4, 2
WEIGHTS = np.array([1.0, 0.5, 2.0])


def drawn(spread, seed=0, draws=DRAWS):
    """Classes of items and labels of questions that depend on one rate, more or less."""
    rng = np.random.default_rng(seed)
    rate = rng.normal(size=draws)

    def shares(*shape):
        slope, level = rng.normal(size=(2, *shape, 3))
        p = np.exp(level + spread * slope * rate.reshape(-1, *[1] * (len(shape) + 1)))
        return p / p.sum(-1, keepdims=True)

    return shares(ITEMS), shares(QUESTIONS, WORKERS)


def teaching(classes, labels, questions=None):
    questions = np.arange(QUESTIONS) if questions is None else questions
    askable = np.ones((QUESTIONS, WORKERS), dtype=bool)
    return WorkerTeaching(classes, WEIGHTS, labels[:, questions], questions, askable)


def information(classes, label):
    """``sum_i w_i I(z_i; L)``, each draw as likely as any other."""
    found = 0.0
    for item, weight in enumerate(WEIGHTS):
        joint = sum(np.outer(p[item], q) for p, q in zip(classes, label, strict=True)) / len(label)
        apart = np.outer(joint.sum(1), joint.sum(0))
        found += weight * xlogy(joint, joint / apart).sum()
    return found


def noise(classes, label):
    """Expected value for labels that have nothing to do with the classes."""
    found = 0.0
    for item, weight in enumerate(WEIGHTS):
        for c, one in product(range(3), range(3)):
            p, q = classes[:, item, c], label[:, one]
            found += weight * p.var() * q.var() / (p.mean() * q.mean() * len(p)) / 2
    return found


def test_a_label_tells_what_all_classes_and_labels_have_in_common():
    classes, labels = drawn(0.15)
    found = teaching(classes, labels)
    for question, worker in product(range(QUESTIONS), range(WORKERS)):
        label = labels[:, question, worker]
        expected = information(classes, label) - noise(classes, label)
        assert found.of_workers(question)[worker] == pytest.approx(expected, rel=0.05)
    best = [found.of_workers(question).max() for question in range(QUESTIONS)]
    assert found.values().tolist() == best


def test_nothing_is_told_by_chance():
    """Over many sets of draws, labels of other rates are worth nothing on average."""
    sets = [(drawn(0.5, seed)[0], drawn(0.5, seed + 1000)[1]) for seed in range(100)]
    found, raw = 0.0, 0.0
    for classes, labels in sets:
        found += teaching(classes, labels).of_workers(0)[0]
        raw += noise(classes, labels[:, 0, 0])
    # Negative values count as none.
    assert found < 0.8 * raw


def test_what_an_earlier_label_predicts_is_not_told_again():
    """Residual covariances by regression on the label, over all draws and labels."""
    classes, labels = drawn(0.8)
    found = teaching(classes, labels)
    found.expect(1, 0)
    seen = labels[:, 1, 0]
    weight = (seen / DRAWS).ravel()
    design = np.tile(np.eye(3), (DRAWS, 1)) * np.sqrt(weight)[:, None]

    def residual(values):
        known = np.repeat(values, 3, axis=0) * np.sqrt(weight)[:, None]
        return known - design @ np.linalg.lstsq(design, known)[0]

    for question, worker in product(range(QUESTIONS), range(WORKERS)):
        told = residual(labels[:, question, worker])
        expected = 0.0
        for item, item_weight in enumerate(WEIGHTS):
            p = classes[:, item]
            shared = residual(p).T @ told
            scale = np.outer(p.mean(0), labels[:, question, worker].mean(0))
            expected += item_weight * (shared**2 / scale).sum() / 2
        spread = ((classes - classes.mean(0)) ** 2).mean(0) / classes.mean(0)
        left = (told**2).sum(0) / labels[:, question, worker].mean(0)
        expected -= (WEIGHTS @ spread.sum(1)) * left.sum() / DRAWS / 2
        if (question, worker) == (1, 0):
            expected = 0.0  # nobody is asked twice
        assert found.of_workers(question)[worker] == pytest.approx(max(expected, 0.0), abs=2e-3)


def test_what_is_not_looked_at_and_who_cannot_be_asked_tell_nothing():
    classes, labels = drawn(0.5)
    found = teaching(classes, labels, np.array([1, 3]))
    assert (found.values() > 0).tolist() == [False, True, False, True]
    before = found.values().copy()
    found.expect(0, 1)
    assert found.values().tolist() == before.tolist()
    found.expect(1, int(found.of_workers(1).argmax()))
    assert found.values()[3] < before[3]
    nobody = np.zeros((QUESTIONS, WORKERS), dtype=bool)
    found = WorkerTeaching(classes, WEIGHTS, labels, np.arange(QUESTIONS), nobody)
    assert not found.values().any()


@pytest.fixture(scope="module")
def unchecked():
    """Ann and bob label items together, and cem labels forty others alone."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 80)
    both = np.arange(20)
    item = np.concatenate([both, both, np.arange(20, 60)])
    worker = np.repeat(["ann", "bob", "cem"], [20, 20, 40])
    wrong = rng.random(80) > 0.9
    label = np.where(wrong, rng.integers(0, 3, 80), truth[item])
    data = CrowdData(
        None, labels={"item": item, "worker": worker, "label": label}, item_ids=range(80)
    )
    model = DawidSkene(ConfusionMatrices(3, 3))
    options = {"batch_size": None, "step_size": 1.0, "epochs": 50, "progress": False}
    return fit(model, ClassLabelGuide(model), data, **options)


def test_who_labels_alone_is_checked(unchecked):
    """Of items that are not wanted themselves, one of cem's tells about those of cem."""
    among = Labels(among={"item": [*range(10), *range(20, 30)]})
    options = {"of": range(30, 60), "workers": ["ann", "bob"], "exploration": 0.0}
    frame = suggest(unchecked, among, count=10, **options).frame
    assert set(frame["item"]) == set(range(20, 30))
    assert (frame["gain"] > 0).all()
    # The second label tells less than the first.
    assert frame["gain"].iloc[-1] < 0.9 * frame["gain"].iloc[0]
