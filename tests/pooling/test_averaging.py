"""Averages of models: temperatures and weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import ConfusionMatrices, OneCoin
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import average_annotator_models
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling import average_classes, stacking_weights
from pyro_crowdclust.pooling.calibration import TEMPERATURES, temper
from pyro_crowdclust.pooling.cross_validation import cross_validated


def answers(seed: int) -> pd.DataFrame:
    """Six workers of 40 items, two of whom mix up the classes a and b; string ids."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=40)
    rows = []
    for item, worker in zip(*np.nonzero(rng.random((40, 6)) < 0.7), strict=True):
        label = truth[item] if rng.random() < 0.8 else rng.integers(3)
        if worker < 2 and label < 2:
            label = 1 - label
        rows.append((f"i{item:02d}", f"w{worker}", "abc"[label]))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def test_answers_that_no_others_predict():
    single = {"item": [0, 1, 2], "worker": [0, 0, 0], "label": [0, 1, 0]}
    with pytest.raises(ValueError, match="no answer can be predicted from others"):
        average_classes(CrowdData(None, labels=single), FITS)


def fitted(annotators: type, data: CrowdData) -> Fitted:
    model = DawidSkene(annotators(data.num_workers, data.num_classes))
    settings = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
    return fit(model, ClassLabelGuide(model), data, **settings)


FITS = [partial(fitted, annotators) for annotators in (ConfusionMatrices, OneCoin)]


def correlated() -> pd.DataFrame:
    """Six workers of 60 items; a third of the items look like another class to everybody."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=60)
    seems = np.where(rng.random(60) < 0.35, (truth + 1) % 3, truth)
    rows = []
    for item, worker in zip(*np.nonzero(rng.random((60, 6)) < 0.9), strict=True):
        hard = seems[item] != truth[item]
        label = seems[item] if rng.random() < (0.6 if hard else 0.8) else truth[item]
        rows.append((f"i{item:02d}", f"w{worker}", "abc"[label]))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def left_out(fit_to, data: CrowdData, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """q(y) and p(answer | y) of every answer, by fits without a tenth of them."""
    found = cross_validated(fit_to, data, seed)
    return found.classes, found.named


@pytest.mark.parametrize("labels", [answers(3), correlated()], ids=["alone", "correlated"])
def test_the_average_is_that_of_the_answers_predicted_with_the_same_rows(labels):
    data = CrowdData(None, labels=labels)
    average = average_classes(data, FITS, seed=4)
    assert repr(average).startswith("AveragedClasses(2 members, ")
    classes, named = zip(*(left_out(fit_to, data, 4) for fit_to in FITS), strict=True)
    rows = (named[0] + named[1]) / 2
    likelihoods = []
    for number, q in enumerate(classes):
        found = {
            t: np.log((temper(q, t) * rows).sum(1)).sum() - np.log(t) ** 2 / 2 for t in TEMPERATURES
        }
        best = max(found, key=found.get)
        assert average.temperatures[number] == best
        likelihoods.append((temper(q, best) * rows).sum(1))
    shares = np.linspace(0, 1, 2001)[1:-1]
    likely = np.outer(shares, likelihoods[0]) + np.outer(1 - shares, likelihoods[1])
    best = shares[np.log(likely).sum(1).argmax()]
    assert average.weights.sum() == pytest.approx(1)
    assert average.weights[0] == pytest.approx(
        (len(rows) * best + 500) / (len(rows) + 1000), abs=0.02
    )
    parts = zip(average.weights, average.members, average.temperatures, strict=True)
    expected = sum(weight * temper(member.probabilities, t) for weight, member, t in parts)
    np.testing.assert_allclose(average.class_probabilities, expected, atol=1e-12)
    assert (min(average.temperatures) > 1) == (len(data.item_ids) == 60)
    assert average.class_probabilities.columns.tolist() == ["a", "b", "c"]
    mean = average.confusion["mean"].groupby(["worker", "class"]).sum()
    np.testing.assert_allclose(mean, 1)


class Guesses:
    """q(y) half way between the labels' votes and even, and rows that are right with a rate."""

    def __init__(self, data: CrowdData, rate: float, trust: float) -> None:
        self.data, self.rate = data, rate
        votes = data.class_labels.of_items(torch.arange(data.num_items)).votes().numpy() + 0.1
        votes /= votes.sum(1, keepdims=True)
        self.probabilities = trust * votes + (1 - trust) / votes.shape[1]

    def answer_probabilities(self, item, worker, label) -> np.ndarray:
        other = (1 - self.rate) / (self.data.num_classes - 1)
        return np.where(np.eye(self.data.num_classes, dtype=bool)[label], self.rate, other)


def test_weights_are_those_of_classes_and_not_of_rows():
    """Whoever knows the workers better is not preferred for it, but for better classes."""
    data = CrowdData(None, labels=answers(3))

    def weights(*each: tuple[float, float]) -> list[float]:
        return average_classes(data, [partial(Guesses, rate=r, trust=t) for r, t in each]).weights

    np.testing.assert_allclose(weights((0.7, 0.8), (0.4, 0.8)), 0.5)
    assert weights((0.4, 0.8), (0.7, 0.1))[0] > 0.52


def test_the_tables_of_an_average_are_read_again_from_csv(tmp_path):
    average = average_classes(CrowdData(None, labels=answers(3)), FITS)
    for table, index in (
        (average.class_probabilities, "item"),
        (average.confusion, ["worker", "class", "label"]),
    ):
        table.to_csv(tmp_path / "kept.csv")
        again = pd.read_csv(tmp_path / "kept.csv", index_col=index)
        again.columns = again.columns.rename(table.columns.name)  # which a file does not hold
        pd.testing.assert_frame_equal(again, table)


@pytest.mark.long
def test_five_models_of_the_annotators_are_averaged():
    data = CrowdData(None, labels=answers(5))
    average = average_annotator_models(data, num_draws=3, epochs=5)
    assert len(average.members) == 5
    assert average.class_probabilities.index.equals(data.item_ids.rename("item"))


def test_an_answer_that_no_member_thinks_possible_has_no_part_in_the_weights():
    """As in the limit of members that each give it the same small probability."""
    likelihoods = np.array([[0.9, 0.9, 0.9, 0.1], [0.5, 0.5, 0.5, 0.5]])
    expected = stacking_weights(likelihoods)
    impossible = np.insert(likelihoods, [0, 2], 0.0, axis=1)
    np.testing.assert_array_equal(stacking_weights(impossible), expected)
    np.testing.assert_allclose(stacking_weights(np.maximum(impossible, 1e-200)), expected, 1e-2)
    assert stacking_weights(np.zeros((3, 4))).tolist() == [1 / 3] * 3
    assert stacking_weights(np.zeros((2, 0))).tolist() == [0.5, 0.5]


def test_the_scale_of_an_answer_has_no_part_in_the_weights():
    likelihoods = np.array([[0.9, 0.9, 0.9, 0.1], [0.5, 0.5, 0.5, 0.5]])
    logs = np.log(likelihoods) - [2000.0, 30.0, 0.0, 700.0]
    found = stacking_weights(np.exp(logs - logs.max(0)))
    np.testing.assert_allclose(found, stacking_weights(likelihoods), 1e-8)


@pytest.mark.parametrize("bad", [-np.inf, -0.1, np.nan, np.inf])
def test_log_likelihoods_are_no_likelihoods(bad):
    with pytest.raises(ValueError, match=rf"likelihoods hold {bad}, but must be finite"):
        stacking_weights(np.array([[0.9, bad], [0.5, 0.5]]))


@pytest.mark.long
@pytest.mark.parametrize(("last", "is_clear"), [("i39", True), ("i09", False)])
def test_others_are_held_to_a_standard(last, is_clear):
    labels = answers(3)
    data = CrowdData(None, labels=labels[labels["item"] <= last])
    logs = []
    for fit_to in FITS:
        q, named = left_out(fit_to, data, 4)
        likely = [(temper(q, t) * named).sum(1) for t in TEMPERATURES]
        each = zip(likely, np.log(TEMPERATURES), strict=True)
        logs.append(np.log(max(each, key=lambda one: np.log(one[0]).sum() - one[1] ** 2 / 2)[0]))
    gain = logs[0] - logs[1]
    assert gain.mean() > 0
    assert (gain.mean() > 2 * gain.std() / np.sqrt(len(gain))) == is_clear

    def kept(standard: int, doubted: tuple[int, ...] = ()) -> list[str]:
        average = average_classes(data, FITS, 4, standard, doubted)
        assert average.weights.sum() == pytest.approx(1)
        return [type(member.model.annotators).__name__ for member in average.members]

    both, better, worse = ["ConfusionMatrices", "OneCoin"], ["ConfusionMatrices"], ["OneCoin"]
    assert kept(0) == (better if is_clear else both)
    assert kept(1) == both
    assert kept(1, doubted=(0,)) == (both if is_clear else worse)
    assert kept(0, doubted=(1,)) == better
