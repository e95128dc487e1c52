"""Averages of models: answers held out, temperatures and weights."""

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
from pyro_crowdclust.pooling.averaging import hold_out_answers
from pyro_crowdclust.pooling.calibration import TEMPERATURES, temper


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


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_answers_held_out_leave_every_item_and_worker_another(share):
    labels = answers(0)
    of_last = labels["worker"] == "w5"
    # One worker has two answers only, and a class is in none.
    labels = pd.concat([labels[~of_last], labels[of_last][:2]])
    with pytest.warns(UserWarning, match="class 'd' is in no answer"):
        data = CrowdData(None, labels=labels, classes=list("abcd"))
    rest, held = hold_out_answers(data, share, seed=1)
    assert rest.num_labels + len(held) == data.num_labels
    assert len(held) == round(share * data.num_labels) or share == 0.9
    assert set(rest.labels["item"]) == set(data.item_ids)
    assert rest.worker_ids.equals(data.worker_ids)
    assert rest.class_ids.equals(data.class_ids)
    ids = data.item_ids, data.worker_ids, data.class_ids
    codes = held.item, held.worker, held.label
    named = [of[code.numpy()] for of, code in zip(ids, codes, strict=True)]
    frame = pd.DataFrame(dict(zip(["item", "worker", "label"], named, strict=True)))
    both = pd.concat([frame, rest.labels]).sort_values(["item", "worker", "label"])
    expected = data.labels.sort_values(["item", "worker", "label"])
    np.testing.assert_array_equal(both, expected)


def test_workers_are_whom_they_were_where_ids_cannot_be_sorted():
    labels = answers(0)
    data = CrowdData(None, labels=labels.replace({"worker": {"w0": 7}}))
    rest, held = hold_out_answers(data, seed=1)
    assert rest.worker_ids.equals(data.worker_ids)
    both = torch.cat([rest.class_labels.worker, held.worker]).bincount()
    assert both.tolist() == data.class_labels.worker.bincount().tolist()
    assert {*rest.labels.itertuples(index=False)} <= {*data.labels.itertuples(index=False)}


def test_answers_that_cannot_be_held_out():
    data = CrowdData(None, labels=answers(0))
    with pytest.raises(ValueError, match="share is 1, but must be between 0 and 1"):
        hold_out_answers(data, 1)
    single = {"item": [0, 1, 2], "worker": [0, 0, 0], "label": [0, 1, 0]}
    with pytest.raises(ValueError, match="no answer can be held out"):
        hold_out_answers(CrowdData(None, labels=single))


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


@pytest.mark.parametrize("labels", [answers(3), correlated()], ids=["alone", "correlated"])
def test_the_average_is_that_of_a_loop_over_the_answers_held_out(labels):
    data = CrowdData(None, labels=labels)
    average = average_classes(data, FITS, share=0.3, seed=4)
    assert repr(average).startswith("AveragedClasses(2 members, ")
    rest, held = hold_out_answers(data, 0.3, seed=4)
    likelihoods = []
    for number, fit_to in enumerate(FITS):
        member = fit_to(rest)
        mean, q = member.guide.confusion().mean, member.probabilities

        def likely(temperature: float, q=q, mean=mean) -> np.ndarray:
            rows = zip(held.item, held.worker, held.label, strict=True)
            return np.array([temper(q[[i]], temperature)[0] @ mean[j, :, a] for i, j, a in rows])

        found = {t: np.log(likely(t)).sum() for t in TEMPERATURES}
        assert average.temperatures[number] == max(found, key=found.get)
        likelihoods.append(likely(average.temperatures[number]))
    shares = np.linspace(0, 1, 2001)[1:-1]
    likely = np.outer(shares, likelihoods[0]) + np.outer(1 - shares, likelihoods[1])
    best = shares[np.log(likely).sum(1).argmax()]
    assert average.weights.sum() == pytest.approx(1)
    assert average.weights[0] == pytest.approx(
        (len(held) * best + 500) / (len(held) + 1000), abs=0.02
    )
    parts = zip(average.weights, average.members, average.temperatures, strict=True)
    expected = sum(weight * temper(member.probabilities, t) for weight, member, t in parts)
    np.testing.assert_allclose(average.class_probabilities, expected, atol=1e-12)
    assert (max(average.temperatures) > 1) == (len(data.item_ids) == 60)
    assert average.class_probabilities.columns.tolist() == ["a", "b", "c"]
    rows = average.confusion["mean"].groupby(["worker", "class"]).sum()
    np.testing.assert_allclose(rows, 1)


def test_the_tables_of_an_average_are_read_again_from_csv(tmp_path):
    average = average_classes(CrowdData(None, labels=answers(3)), FITS, share=0.3)
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
@pytest.mark.parametrize(("share", "is_clear"), [(0.3, True), (0.1, False)])
def test_others_are_held_to_a_standard(share, is_clear):
    data = CrowdData(None, labels=answers(3))
    rest, held = hold_out_answers(data, share, seed=4)
    logs = []
    for fit_to in FITS:
        member = fit_to(rest)
        codes = (part.numpy() for part in (held.item, held.worker, held.label))
        named = member.answer_probabilities(*codes)
        likely = [(temper(member.probabilities[held.item], t) * named).sum(1) for t in TEMPERATURES]
        logs.append(np.log(max(likely, key=lambda one: np.log(one).sum())))
    gain = logs[0] - logs[1]
    assert gain.mean() > 0
    assert (gain.mean() > 2 * gain.std() / np.sqrt(len(held))) == is_clear

    def kept(standard: int, doubted: tuple[int, ...] = ()) -> list[str]:
        average = average_classes(data, FITS, share, 4, standard, doubted)
        assert average.weights.sum() == pytest.approx(1)
        return [type(member.model.annotators).__name__ for member in average.members]

    both, better, worse = ["ConfusionMatrices", "OneCoin"], ["ConfusionMatrices"], ["OneCoin"]
    assert kept(0) == (better if is_clear else both)
    assert kept(1) == both
    assert kept(1, doubted=(0,)) == (both if is_clear else worse)
    assert kept(0, doubted=(1,)) == better
