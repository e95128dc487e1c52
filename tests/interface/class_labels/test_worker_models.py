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
