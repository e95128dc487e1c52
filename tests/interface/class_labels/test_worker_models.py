"""Which models of the workers are fitted, of those that may be chosen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import CommunityConfusion
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.interface.class_labels.options import OF_LABELS
from pyro_crowdclust.interface.class_labels.worker_models import best_of_workers
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.models import DawidSkene


@pytest.mark.parametrize(("is_lost", "tried"), [(False, [1, 2]), (True, [1, 2, 3, 4])])
def test_communities_that_cannot_have_the_highest_elbo_are_not_fitted(is_lost, tried):
    """With two classes, a community costs 10.3 nats; a fit that loses a class does not count."""
    said = {"item": range(20), "worker": ["w"] * 20, "label": ["a"] * 12 + ["b"] * 8}
    data, found = CrowdData(None, labels=said), []
    probabilities = np.tile([1.0, 0.0], (20, 1)) if is_lost else np.eye(2)[[0] * 12 + [1] * 8]

    def attempt(workers: Workers) -> SimpleNamespace:
        found.append(workers.num_communities)
        parts = {"data": data, "probabilities": probabilities, "stop_reason": "converged"}
        return SimpleNamespace(elbo=-25.0 - len(found), **parts)

    assert best_of_workers(data, attempt, Workers(), [4, 2, 1, 3]).elbo == -26
    assert found == tried


def test_the_elbo_of_communities_is_below_what_their_concentrations_cost():
    """Of labels that are nearly certain, since all workers name one class, all but once."""
    item, worker = (one.ravel() for one in np.indices((30, 5)))
    label = np.where(item == 0, "y", "x")
    data = CrowdData(None, labels=pd.DataFrame({"item": item, "worker": worker, "label": label}))
    for number in (1, 2, 3):
        elbo = infer_classes(data, num_communities=[number]).elbo
        highest = CommunityConfusion(5, 2, number).rows.highest_log_prior
        assert highest - 15 < elbo < highest


@pytest.mark.parametrize("number", [4, 5])
def test_outliers_are_looked_for_among_five_workers_or_more(number):
    item, worker = (one.ravel() for one in np.indices((20, number)))
    data = CrowdData(None, labels={"item": item, "worker": worker, "label": item % 2})
    outliers: list[bool] = []

    def attempt(workers: Workers) -> SimpleNamespace:
        outliers.append(bool(workers.outliers))
        parts = {"data": data, "probabilities": np.eye(2)[np.arange(20) % 2], "elbo": -1e3}
        model = SimpleNamespace(annotators=workers.annotators(data))
        return SimpleNamespace(model=model, stop_reason="converged", **parts)

    best_of_workers(data, attempt, Workers())
    assert any(outliers) == (number == 5)
    outliers.clear()
    best_of_workers(data, attempt, Workers(), [0, 1])
    assert not any(outliers)


@pytest.mark.long
def test_an_expert_among_weak_workers_is_not_shrunk_towards_them():
    """One of ten workers is always right, the others .58 of the time; their errors are their own.

    Without outliers, one community has the largest ELBO, and rates of .83 and .85.
    """
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 2, 400)
    is_right = rng.random((400, 10)) < np.array([1.0] + [0.58] * 9)
    item, worker = (one.ravel() for one in np.indices((400, 10)))
    label = np.where(is_right, truth[:, None], 1 - truth[:, None]).ravel()
    data = CrowdData(None, labels={"item": item, "worker": worker, "label": label})

    def attempt(workers: Workers) -> Fitted:
        model = DawidSkene(workers.annotators(data))
        return fit(model, ClassLabelGuide(model, moderated=True), data, **OF_LABELS)

    found = best_of_workers(data, attempt, Workers())
    rates = found.confusion["mean"].loc[[(0, 0, 0), (0, 1, 1)]]
    assert rates.min() > 0.92
    assert (found.probabilities.argmax(1) == truth).mean() > 0.98


def weak_crowd(seed: int) -> CrowdData:
    """Twelve workers, right about .4 to .7 of each class, whose errors are their own."""
    rng = np.random.default_rng(seed)
    truth, rows = rng.choice(4, 400, p=[0.25] * 4), np.zeros((12, 4, 4))
    for worker in range(12):
        for one in range(4):
            right, wrong = rng.uniform(0.4, 0.7), rng.dirichlet(np.ones(3))
            rows[worker, one] = np.insert(wrong * (1 - right), one, right)
    said = [
        (item, worker, rng.choice(4, p=rows[worker, truth[item]]))
        for item in range(400)
        for worker in rng.choice(12, 5, replace=False)
    ]
    return CrowdData(None, labels=pd.DataFrame(said, columns=["item", "worker", "label"]))


@pytest.mark.long
def test_a_simple_model_gives_way_to_matrices_that_predict_labels_clearly_better():
    """In this weak crowd of matrices, truth and habit have the largest ELBO."""
    fits = {}

    def attempt(workers: Workers) -> Fitted:
        model = DawidSkene(workers.annotators(data))
        guide = ClassLabelGuide(model, moderated=True)
        fits[workers] = fit(model, guide, data, **OF_LABELS)
        return fits[workers]

    data = weak_crowd(17)
    found = best_of_workers(data, attempt, Workers())
    best, *others = sorted(fits, key=lambda workers: fits[workers].elbo, reverse=True)
    assert best.truth_or_habit
    assert found is fits[others[0]]
