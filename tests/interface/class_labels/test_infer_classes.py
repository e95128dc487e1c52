from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import digamma

from pyro_crowdclust import CrowdData, Fitted, fit, load
from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    Habit,
    Truth,
)
from pyro_crowdclust.asking import suggest
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.interface import (
    Calibrate,
    average_annotator_models,
    classify,
    infer_classes,
    infer_trait,
)
from pyro_crowdclust.interface.class_labels.averaging import annotator_models
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.pooling import AveragedClasses, calibrated_guide, draw_classes
from pyro_crowdclust.pooling.calibration import TEMPERATURES, HeldOutLabels, temper
from pyro_crowdclust.results import step_of

from ...control_c import press_in_start


def crowd(seed: int, correlated: bool) -> tuple[np.ndarray, CrowdData]:
    """Nine workers, 80 % right; if correlated, a third of the items fools them all alike."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=150)
    seems = np.where(correlated & (rng.random(150) < 0.3), rng.random(150), truth * 0.6 + 0.2)
    rows = [
        (item, worker, int(rng.random() < seems[item]))
        for item in range(150)
        for worker in rng.choice(9, 7, replace=False)
    ]
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    return truth, CrowdData(None, labels=frame)


@pytest.fixture(scope="module")
def correlated():
    truth, data = crowd(0, correlated=True)
    return truth, infer_classes(data, num_communities=[1], epochs=40)


@pytest.mark.long
def test_the_number_of_communities_is_chosen_by_the_elbo():
    _, data = crowd(1, correlated=False)
    each = [infer_classes(data, num_communities=[number], epochs=20) for number in (1, 3)]
    best = infer_classes(data, num_communities=[1, 3], epochs=20)
    assert best.elbo == max(result.elbo for result in each)
    with pytest.raises(ValueError, match="there are no class labels"):
        infer_classes(CrowdData(np.zeros((3, 1))))
    with pytest.raises(ValueError, match="num_communities is empty"):
        infer_classes(data, num_communities=[])


@pytest.mark.long
@pytest.mark.parametrize("num_items", [1, 5])
def test_a_class_that_nearly_nobody_names_is_no_other_name_of_the_common_one(num_items):
    """Three workers say "a" of every item, but for one answer."""
    said = pd.DataFrame(
        [(item, worker, "a") for item in range(num_items) for worker in "uvw"],
        columns=["item", "worker", "label"],
    )
    said.loc[0, "label"] = "b"
    result = infer_classes(CrowdData(None, labels=said))
    assert (result.class_probabilities["a"] > 0.8).all()
    assert (result.class_probabilities["a"][1:] > 0.95).all()


def test_workers_who_always_say_the_same_make_no_class_certain():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=200)
    says = np.where(rng.random((200, 2)) < 0.9, truth[:, None], 1 - truth[:, None])
    says = np.column_stack([says, np.zeros((200, 2), int)])
    item, worker = np.indices(says.shape)
    said = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    result = infer_classes(CrowdData(None, labels=said))
    assert isinstance(result.model.annotators, ConfusionMatrices)
    assert log_loss(result.class_probabilities.to_numpy(), truth) < 0.3


@pytest.mark.long
def test_few_labels_promise_what_they_keep():
    """Tables of 20 items and three workers who are right in nine of ten cases; 1 is rare."""
    loss = []
    for seed in (3, 4, 5, 6):
        rng = np.random.default_rng(seed)
        truth = (rng.random(20) < 0.08).astype(int)
        item, worker = np.repeat(range(20), 3), np.tile(range(3), 20)
        label = truth[item] ^ (rng.random(60) < 0.1)
        said = pd.DataFrame({"item": item, "worker": worker, "label": label})
        result = infer_classes(CrowdData(None, labels=said), [0, 1])
        found = result.class_probabilities.to_numpy()
        loss.append(-np.log(found[range(20), truth].clip(1e-9)).mean())
    assert np.mean(loss) < 0.1


def test_ctrl_c_keeps_the_best_number_of_communities_so_far(monkeypatch):
    _, data = crowd(1, correlated=False)
    press_in_start(monkeypatch, 3)
    result = infer_classes(data, num_communities=(1, 2, 3, 4), epochs=5)
    assert result.stop_reason.startswith("interrupted by the user")
    assert result.model.annotators.num_communities < 3


def test_held_out_answers_are_the_same_in_any_order_of_the_table():
    _, data = crowd(1, correlated=False)
    table = data.labels
    shuffled = CrowdData(None, labels=table.sample(frac=1, random_state=0), item_ids=data.item_ids)
    found = [
        average_annotator_models(each, num_draws=0, epochs=3).class_probabilities
        for each in (data, shuffled)
    ]
    pd.testing.assert_frame_equal(found[0], found[1])


def test_trusted_workers_who_contradict_each_other_are_named():
    said = {"item": [5, 5, 5, 6, 6], "worker": list("abcac"), "label": list("xyyxx")}
    data = CrowdData(None, labels=said)
    with pytest.warns(UserWarning, match="contradict each other about item 5 .'a' says 'x' and 'b"):
        result = infer_classes(data, trusted=["a", "b"], epochs=2)
    assert result.class_probabilities.loc[5, "y"] > 0.5
    infer_classes(data, trusted=["a"], epochs=2)
    with pytest.warns(UserWarning, match="contradict each other about item 5"):
        classify(np.eye(2), said, item_ids=[5, 6], trusted=["a", "b"], epochs=1, progress=False)


def test_what_is_asked_in_the_wrong_way_is_said_in_words():
    labels = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xxyy")}
    data = CrowdData(None, labels=labels)
    with pytest.raises(
        ValueError, match="num_communities is 2, but must be a list of numbers to try"
    ):
        infer_classes(data, num_communities=2)
    with pytest.raises(ValueError, match="share is '10%', but must be a number between 0 and 1"):
        infer_trait(data, share="10%")
    with pytest.raises(ValueError, match="num_draws is -1"):
        average_annotator_models(data, num_draws=-1, epochs=1)
    pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [0, 1]}
    with pytest.raises(ValueError, match="no class labels: .*classify pairs as items, give each"):
        infer_classes(CrowdData(None, pairs=pairs))


@pytest.mark.parametrize("pressed", [2, 4])  # with answers held out, and with all
def test_ctrl_c_ends_an_average_of_models_at_once(monkeypatch, pressed):
    said = {"item": [0, 0, 0, 1, 1, 1], "worker": list("abcabc"), "label": list("xxxyyy")}
    press_in_start(monkeypatch, pressed)
    with pytest.raises(KeyboardInterrupt):
        average_annotator_models(CrowdData(None, labels=said), num_draws=0, epochs=2)


def log_loss(probabilities: np.ndarray, truth: np.ndarray) -> float:
    return float(-np.log(probabilities[np.arange(len(truth)), truth]).mean())


def read_calibrated(result: Fitted) -> Fitted:
    return dataclasses.replace(result, guide=calibrated_guide(result))


def test_answers_that_agree_too_often_raise_the_temperature(correlated):
    truth, result = correlated
    assert result.guide.reading.temperature > 1
    assert calibrated_guide(result).reading == result.guide.reading
    plain = dataclasses.replace(result, guide=result.guide.in_full())
    calibrated = read_calibrated(plain).class_probabilities
    np.testing.assert_allclose(calibrated, result.class_probabilities, rtol=1e-9)
    assert (plain.assignments == result.assignments).all()
    assert log_loss(result.probabilities, truth) < log_loss(plain.probabilities, truth)


def test_calibrated_results_stay_so_in_files_and_updates(correlated, tmp_path):
    _, result = correlated
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    np.testing.assert_allclose(loaded.probabilities, result.probabilities)
    said = {"item": [0, 1, 2], "worker": ["another"] * 3, "label": result.data.class_ids[[0, 1, 1]]}
    updated = loaded.update(labels=said, epochs=3)
    assert step_of(updated, Calibrate)
    assert updated.guide.reading == calibrated_guide(updated).reading
    assert updated.guide.reading.temperature > 1


def test_a_few_answers_hardly_show_a_temperature():
    said = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xyxx")}
    result = infer_classes(CrowdData(None, labels=said), epochs=3)
    assert result.guide.reading.temperature < 2
    alone = infer_classes(CrowdData(None, labels={name: v[1:3] for name, v in said.items()}))
    assert alone.guide.reading.temperature == 1


def held_out_by_a_loop(
    result: Fitted, worker_weights: np.ndarray, temperature: float, log=digamma
) -> float:
    labels = full_batch(result.data).class_labels
    guide = result.guide.in_full().read_at(1.0, moderated=False)
    q = dataclasses.replace(result, guide=guide).probabilities
    alpha = result.guide.posteriors["confusion"].standard().concentration.numpy()
    alpha = alpha.reshape(9, 2, 2)
    means = {name: posterior.mean() for name, posterior in result.guide.posteriors.items()}
    log_answers = result.model.annotators.log_answers(means).numpy()
    answers = torch.stack([labels.item, labels.worker, labels.label], 1).tolist()
    total = 0.0
    for i, j, a in answers:
        log_q = np.log(q[i])
        for _, other, said in (answer for answer in answers if answer[0] == i):
            log_q -= worker_weights[other] * log_answers[other, said]
            if other != j:
                counted = worker_weights[other] * q[i]
                row = log(alpha[other].sum(1) - counted)  # of means where log is the logarithm
                log_q += worker_weights[other] * (log(alpha[other, :, said] - counted) - row)
        others, counted = temper(np.exp(log_q)[None], temperature)[0], worker_weights[j] * q[i]
        share = (alpha[j, :, a] - counted) / (alpha[j].sum(1) - counted)
        total += np.log(others @ share)
    return total / len(labels)


def test_log_likelihood_of_held_out_labels_is_that_of_a_loop(correlated):
    _, result = correlated
    temperature = 1.7
    expected = held_out_by_a_loop(result, np.ones(9), temperature, np.log)
    log_likelihood = HeldOutLabels.of(result).log_likelihood
    assert log_likelihood(temperature) == pytest.approx(expected, abs=1e-9)
    best = calibrated_guide(result).reading.temperature
    assert max(map(log_likelihood, TEMPERATURES)) == log_likelihood(best)


@pytest.mark.parametrize(("moderated", "log"), [(False, digamma), (True, np.log)])
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_answers_that_count_in_part_are_left_out_by_that_part(
    correlated, temperature, moderated, log
):
    worker_weights = np.linspace(0.3, 1.0, 9)
    model = DawidSkene(ConfusionMatrices(9, 2, worker_weights=tuple(worker_weights)))
    found = fit(
        *(model, ClassLabelGuide(model, moderated=moderated), correlated[1].data),
        **{"epochs": 3, "batch_size": None, "progress": False, "dtype": torch.float64},
    )
    expected = held_out_by_a_loop(found, worker_weights, temperature, log)
    assert HeldOutLabels.of(found).log_likelihood(temperature) == pytest.approx(expected, abs=1e-9)
    with pytest.raises(ValueError, match="answers count in part where workers copy each other"):
        draw_classes(found)


def test_answers_that_explain_themselves_raise_the_temperature():
    """Six answers to a row: with an item's own ones in it, each class is certain of its items.

    Read by what workers are known for from other items, none is.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(12, size=150)
    rows = [(i, j) for i in range(150) for j in rng.choice(6, 3, replace=False)]
    frame = pd.DataFrame(rows, columns=["item", "worker"])
    right = rng.random(len(frame)) < np.linspace(0.4, 0.9, 6)[frame["worker"]]
    frame["label"] = np.where(right, truth[frame["item"]], rng.integers(12, size=len(frame)))
    data = CrowdData(None, labels=frame, item_ids=range(150))
    read = infer_classes(data, num_communities=[0])
    guide = read.guide.in_full().read_at(1.0, moderated=False)
    result = dataclasses.replace(read, guide=guide)
    assert result.probabilities.max(1).mean() > 0.99
    assert calibrated_guide(result).reading.temperature > 2
    calibrated = read_calibrated(result).probabilities
    assert log_loss(calibrated, truth) < log_loss(result.probabilities, truth) / 2
    assert log_loss(read.probabilities, truth) < log_loss(calibrated, truth)
    assert read.probabilities.max(1).mean() < (read.assignments == truth).mean() + 0.1


@pytest.mark.parametrize("read", [calibrated_guide, draw_classes, suggest])
def test_an_average_is_no_fit(correlated, read):
    _, result = correlated
    average = AveragedClasses([result], [1.0], np.ones(1))
    with pytest.raises(ValueError, match="AveragedClasses, but must be a fit: .* one of .members"):
        read(average)


def test_what_has_no_confusion_matrices_cannot_be_calibrated(correlated):
    data = correlated[1].data
    trait = infer_trait(data, epochs=2)
    with pytest.raises(ValueError, match="only confusion matrices can be .* fit is of LatentTrait"):
        calibrated_guide(trait)


@pytest.mark.parametrize(
    "annotators",
    [ClassStates(9, 2), AnswerSources([Truth(9, 2), Habit(9, 2), ConfusionMatrices(9, 2)])],
)
def test_confusion_matrices_that_are_a_part_of_others_cannot_be_calibrated(correlated, annotators):
    """An answer is no count of theirs: it may be from another source, or of another state."""
    model = DawidSkene(annotators)
    result = fit(model, ClassLabelGuide(model), correlated[1].data, epochs=2, progress=False)
    with pytest.raises(ValueError, match="only confusion matrices can be calibrated"):
        calibrated_guide(result)


@pytest.mark.parametrize("number", [-1, 1.5, "a"])
def test_numbers_of_communities_are_checked_before_any_fit(number):
    data = CrowdData(None, labels={"item": [0, 1], "worker": ["a", "b"], "label": ["x", "y"]})
    with pytest.raises(ValueError, match=f"num_communities is {number!r}, but must be"):
        infer_classes(data, num_communities=[0, number])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_draws": 2.5}, "num_draws is 2.5, but must be a whole number"),
        ({"num_draws": -1}, "num_draws is -1, but must be at least 0"),
        ({"share": 0.2}, "share is 0.2, but it is .* of two classes, and the data have 3"),
    ],
)
def test_an_average_is_checked_before_any_fit(options, message):
    data = CrowdData(None, labels={"item": [0, 1, 2], "worker": ["a"] * 3, "label": list("xyz")})
    with pytest.raises(ValueError, match=message):
        average_annotator_models(data, **options)


def test_temper():
    q = np.array([[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(temper(q, 1.0), q, atol=1e-12)
    np.testing.assert_allclose(temper(q[:1], 2.0), np.sqrt(q[:1]) / np.sqrt(q[:1]).sum())
    np.testing.assert_allclose(temper(q[:1], 1e9), 1 / 3, atol=1e-6)


@pytest.mark.long
def test_a_trait_keeps_its_promises_where_items_fool_all_workers(correlated):
    truth, independent = correlated
    result = infer_trait(independent.data, epochs=60)
    in_full = dataclasses.replace(independent, guide=independent.guide.in_full())
    assert log_loss(result.probabilities, truth) < 0.9 * log_loss(in_full.probabilities, truth)
    in_training = dataclasses.replace(independent, guide=independent.guide.in_full())
    assert log_loss(result.probabilities, truth) < 0.7 * log_loss(in_training.probabilities, truth)
    assert set(result.guide.posteriors) == {"curves", "trait"}
    given = infer_trait(independent.data, share=0.1, epochs=60)
    assert given.probabilities[:, 1].mean() < result.probabilities[:, 1].mean()


def test_a_trait_is_for_two_classes():
    said = {"item": [0, 0, 1], "worker": list("aba"), "label": list("xyz")}
    data = CrowdData(None, labels=said)
    with pytest.raises(ValueError, match="the data have 3 classes"):
        infer_trait(data)


@pytest.mark.long
def test_the_average_of_two_classes_knows_a_trait():
    """States are left out where they predict no clearly better."""
    _, data = crowd(3, correlated=True)
    average = average_annotator_models(data, num_draws=2, epochs=20, share=0.5)
    *drawn, trait = average.members
    assert [type(member.fitted.model).__name__ for member in drawn] == 4 * ["DawidSkene"]
    assert type(trait.model).__name__ == "LatentTrait"


def test_few_workers_do_not_tell_what_workers_have_in_common():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=40)
    says = np.where(rng.random((40, 4)) < 0.8, truth[:, None], 2)
    item, worker = np.indices(says.shape)
    said = {"item": item.ravel(), "worker": worker.ravel(), "label": says.ravel()}
    average = average_annotator_models(CrowdData(None, labels=said), num_draws=0, epochs=2)
    names = [type(member.model.annotators).__name__ for member in average.members]
    assert names == ["ConfusionMatrices", "ClassStates"]
    assert [type(one) for one in annotator_models(5, 3)].count(CommunityConfusion) == 1
