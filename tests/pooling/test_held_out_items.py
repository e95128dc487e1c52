"""Answers about items that were held out: the sum by hand, what is held out, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import MultinomialComponents
from pyro_crowdclust.models import MomResp
from pyro_crowdclust.pooling import held_out_log_probability
from pyro_crowdclust.pooling.held_out_items import held_out_parts, log_probabilities_by_item
from pyro_crowdclust.results import Fitted

from ..control_c import press_in_start


def crowd(seed: int = 0) -> CrowdData:
    """Two workers of 30 documents of two topics; three documents have no label."""
    rng = np.random.default_rng(seed)
    truth = np.arange(30) % 2
    words = rng.multinomial(6, np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])[truth])
    rows = [
        (item, worker, "ab"[truth[item] if rng.random() < 0.85 else 1 - truth[item]])
        for item in range(27)
        for worker in ("ann", "ben")
    ]
    labels = pd.DataFrame(rows, columns=["item", "worker", "label"])
    return CrowdData(words.astype(float), labels=labels)


def fit_one(data: CrowdData) -> Fitted:
    model = MomResp(MultinomialComponents(2, 3), ConfusionMatrices(2, 2))
    guide = ClassLabelGuide(model)
    return fit(model, guide, data, batch_size=None, step_size=1.0, epochs=8, progress=False)


def test_answers_about_an_item_together_and_those_about_others_as_if_about_it():
    seen, held = held_out_parts(crowd(), 3, 0)[0]
    result = fit_one(seen)
    rates = np.asarray(result.guide.confusion().mean)
    items = held.item.unique().tolist()
    said = {
        item: [*zip(held.worker[held.item == item], held.label[held.item == item], strict=True)]
        for item in items
    }
    expected = [
        [
            np.log(
                sum(
                    result.probabilities[item, kind]
                    * np.prod([rates[worker, kind, label] for worker, label in said[other]])
                    for kind in range(2)
                )
            )
            for other in items
        ]
        for item in items
    ]
    np.testing.assert_allclose(log_probabilities_by_item(result, held), expected, atol=1e-9)


def test_control_c_in_a_part_ends_all_of_it(monkeypatch):
    press_in_start(monkeypatch, 2)
    with pytest.raises(KeyboardInterrupt):
        held_out_log_probability(crowd(), fit_one, folds=3)


def test_it_is_the_sum_over_classes_of_fits_that_saw_no_answer_about_the_item():
    data, seen = crowd(), []

    def watched(part: CrowdData) -> Fitted:
        seen.append((part, fit_one(part)))
        return seen[-1][1]

    found = held_out_log_probability(data, watched, folds=3, seed=1)
    every = {tuple(row) for row in data.labels.to_numpy()}
    total, told = 0.0, set()
    for part, result in seen:
        missing = every - {tuple(row) for row in part.labels.to_numpy()}
        items = {item for item, _, _ in missing}
        assert not items & set(part.labels["item"])
        assert len(items) == 9
        told |= missing
        for item, worker, label in missing:
            named = [
                result.confusion.loc[(worker, of_class, label), "mean"] for of_class in ("a", "b")
            ]
            total += np.log(result.class_probabilities.loc[item].to_numpy() @ named)
    assert told == every
    assert found == pytest.approx(total / len(every), rel=1e-10)


def test_features_that_tell_the_class_predict_answers_better():
    data = crowd()
    order = np.random.default_rng(0).permutation(data.num_items)
    shuffled = CrowdData(data.features[order], labels=data.labels)
    assert held_out_log_probability(data, fit_one) > held_out_log_probability(shuffled, fit_one)


def test_what_cannot_be_held_out():
    with pytest.raises(ValueError, match="no class labels"):
        held_out_log_probability(CrowdData(np.zeros((3, 2))), fit_one)
    for folds in (1, 28):
        with pytest.raises(ValueError, match="must be between 2 and 27"):
            held_out_log_probability(crowd(), fit_one, folds=folds)
