from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide, class_labels
from pyro_crowdclust.models import DawidSkene

FEW = np.array([(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 2, 0), (2, 1, 1), (2, 2, 0), (3, 0, 1)])


def few_labels(annotators, **reading) -> Fitted:
    data = CrowdData(None, labels=dict(zip(("item", "worker", "label"), FEW.T, strict=True)))
    model = DawidSkene(annotators)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 9, "progress": False}
    return fit(model, ClassLabelGuide(model, **reading), data, **options)


def exact_moments() -> tuple[np.ndarray, np.ndarray]:
    """Mean and square of all rates, as sums over the classes of all items."""
    prior = np.array([[9.0, 4.0], [4.0, 9.0]])
    log_weights, mean, square = [], [], []
    for y in itertools.product([0, 1], repeat=4):
        told = np.tile(prior, (3, 1, 1))
        np.add.at(told, (FEW[:, 1], np.array(y)[FEW[:, 0]], FEW[:, 2]), 1)
        size = told.sum(-1, keepdims=True)
        shares = gammaln(1 + np.bincount(y, minlength=2)).sum()
        log_weights.append(gammaln(told).sum() - gammaln(size).sum() + shares)
        mean.append(told / size)
        square.append(told * (told + 1) / (size * (size + 1)))
    share = np.exp(np.array(log_weights) - max(log_weights))
    share = share / share.sum()
    return tuple(np.tensordot(share, np.array(each), 1) for each in (mean, square))


def test_deviations_count_the_doubt_about_the_classes():
    result = few_labels(ConfusionMatrices(3, 2, right=9.0, wrong=4.0))
    mean, square = exact_moments()
    alone, found = result.guide.confusion(), result.guide.confusion_given(result.data)
    np.testing.assert_array_equal(found.mean, alone.mean)
    np.testing.assert_array_equal(result.confusion["sd"], found.sd.ravel())
    around = np.sqrt(square - 2 * mean * found.mean + found.mean**2)
    np.testing.assert_allclose(found.sd, np.maximum(around, alone.sd), atol=0.008)
    assert (around > 1.02 * alone.sd).any()
    np.testing.assert_array_equal(found, result.guide.confusion_given(result.data))
    assert (found.upper - found.lower >= alone.upper - alone.lower - 1e-12).all()


@pytest.mark.parametrize(
    ("annotators", "reading"),
    [
        (ConfusionMatrices(3, 2, worker_weights=[1.0, 0.5, 1.0]), {}),
        (ConfusionMatrices(3, 2), {"evidence_weights": [1.0, 0.5, 1.0]}),
    ],
)
def test_labels_that_count_in_part_are_not_drawn(annotators, reading):
    result = few_labels(annotators, **reading)
    given = result.guide.confusion_given(result.data)
    np.testing.assert_array_equal(given, result.guide.confusion())


def test_many_labels_are_not_drawn(monkeypatch):
    result = few_labels(ConfusionMatrices(3, 2, right=9.0, wrong=4.0))
    alone = result.guide.confusion()
    assert (result.guide.confusion_given(result.data).sd > alone.sd).any()
    monkeypatch.setattr(class_labels, "_MAX_DRAWN", 13)
    np.testing.assert_array_equal(result.guide.confusion_given(result.data), alone)


@pytest.mark.long
@pytest.mark.parametrize(("num_workers", "per_item"), [(5, 4), (12, 3)])
def test_intervals_hold_their_share_of_the_true_rates(num_workers, per_item):
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rates, truth = rng.beta(8, 3, num_workers), rng.integers(3, size=90)
        item = np.arange(90).repeat(per_item)
        worker = rng.permuted(np.tile(np.arange(num_workers), (90, 1)), axis=1)[:, :per_item]
        right = rng.random(item.shape) < rates[worker.ravel()]
        label = (truth[item] + np.where(right, 0, rng.integers(1, 3, size=item.shape))) % 3
        said = {"item": item, "worker": worker.ravel(), "label": label}
        model = DawidSkene(ConfusionMatrices(num_workers, 3, right=8.0, wrong=2.0))
        options = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
        result = fit(model, ClassLabelGuide(model), CrowdData(None, labels=said), **options)
        given = result.guide.confusion_given(result.data)
        for table in (result.guide.confusion(), given):
            lower, upper = (np.diagonal(part, axis1=1, axis2=2) for part in table[2:])
            inside.append(((lower <= rates[:, None]) & (rates[:, None] <= upper)).mean())
    before, now = np.mean(inside[::2]), np.mean(inside[1::2])
    assert before < now
    assert 0.85 < now < 0.95
