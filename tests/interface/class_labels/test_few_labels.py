"""Few labels an item: which model of the workers is used, and that no class is lost."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import log_loss

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import AnswerSources, ConfusionMatrices
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.interface.class_labels.worker_models import best_of_workers, keeping_classes
from pyro_crowdclust.interface.class_labels.workers import Workers
from pyro_crowdclust.pooling import calibrated_guide


def honest_crowd(seed: int, shares: list[float], second: float = 0.0):
    """300 items, of which this share has a second label; six workers are right .75 to .92."""
    rng = np.random.default_rng(seed)
    number, accuracy = len(shares), rng.uniform(0.75, 0.92, 6)
    truth = rng.choice(number, 300, p=shares)
    rows = [
        (item, worker, right if rng.random() < accuracy[worker] else rng.integers(number))
        for item, right in enumerate(truth)
        for worker in rng.choice(6, 1 + (rng.random() < second), replace=False)
    ]
    return truth, CrowdData(None, labels=pd.DataFrame(rows, columns=["item", "worker", "label"]))


@pytest.mark.parametrize(("second", "seed"), [(0.0, 0), (0.0, 1), (0.3, 0)])
def test_few_labels_of_rare_classes_are_not_taken_for_errors(second, seed):
    """All were, and the classes were those of one that is frequent: .62 right, where .82 are."""
    truth, data = honest_crowd(seed, [0.7, 0.2, 0.1], second)
    probabilities = infer_classes(data, num_communities=[0, 1], epochs=60).probabilities
    labels = data.class_labels.of_items(data.class_labels.labelled_items).votes()
    vote = (labels.argmax(1).numpy() == truth).mean()
    right = (probabilities.argmax(1) == truth).mean()
    assert right > vote - 0.03
    assert abs(probabilities.max(1).mean() - right) < 0.12


def test_without_second_labels_no_prior_is_learned():
    _, data = honest_crowd(0, [0.5, 0.3, 0.2])
    result = infer_classes(data, num_communities=[0, 1], epochs=20)
    assert isinstance(result.model.annotators, ConfusionMatrices)


@pytest.fixture(scope="module")
def guessers():
    """Thirty workers, of whom three in five guess, and five labels an item."""
    rng = np.random.default_rng(0)
    truth, knows = rng.integers(5, size=200), rng.random(30) < 0.4
    rows = [(item, worker) for item in range(200) for worker in rng.choice(30, 5, replace=False)]
    frame = pd.DataFrame(rows, columns=["item", "worker"])
    right = rng.random(len(frame)) < np.where(knows, 0.9, 0.2)[frame["worker"]]
    frame["label"] = np.where(right, truth[frame["item"]], rng.integers(5, size=len(frame)))
    data = CrowdData(None, labels=frame, item_ids=range(200))
    return truth, infer_classes(data)


def test_guessers_are_found_by_truth_and_habit(guessers):
    truth, result = guessers
    assert isinstance(result.model.annotators, AnswerSources)
    vote = result.data.class_labels.of_items(torch.arange(200)).votes().argmax(1).numpy()
    assert (result.assignments == truth).mean() > (vote == truth).mean() + 0.08


def test_probabilities_of_truth_and_habit_are_calibrated(guessers):
    truth, result = guessers
    assert calibrated_guide(result).reading.temperature <= 2
    plain = dataclasses.replace(result, guide=result.guide.in_full())
    assert (plain.assignments == result.assignments).all()
    assert log_loss(truth, result.probabilities) < log_loss(truth, plain.probabilities) + 0.04


def test_truth_and_habit_goes_on_with_new_workers(guessers):
    truth, result = guessers
    expert = pd.DataFrame({"item": range(100), "worker": "expert", "label": truth[:100]})
    updated = result.update(labels=expert, epochs=20)
    assert isinstance(updated.model.annotators, AnswerSources)
    assert updated.data.num_workers == 31
    right = (updated.assignments == truth).mean(), (result.assignments == truth).mean()
    assert right[0] > right[1]
    row = updated.confusion.loc["expert"]["mean"]
    assert min(row[name, name] for name in range(5)) > 0.8


def test_few_workers_and_trusted_ones_have_confusion_matrices(guessers):
    """Truth and habit learns a prior from all workers, and knows of nobody who is right."""
    data = guessers[1].data
    trusted = infer_classes(data, trusted=[0], epochs=3)
    assert not isinstance(trusted.model.annotators, AnswerSources)
    said = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xxyx")}
    result = infer_classes(CrowdData(None, labels=said), epochs=3)
    assert not isinstance(result.model.annotators, AnswerSources)


def fit_with(probabilities, stop_reason="converged"):
    """A fit of twenty items with one label each, in order of the class: twelve a, eight b."""
    labels = {"item": range(20), "worker": ["w"] * 20, "label": ["a"] * 12 + ["b"] * 8}
    return SimpleNamespace(
        data=CrowdData(None, labels=labels), probabilities=probabilities, stop_reason=stop_reason
    )


def test_the_first_fit_that_keeps_every_class_is_kept():
    vote = np.eye(2)[[0] * 12 + [1] * 8]
    lost, half = vote.copy(), vote.copy()
    lost[:] = [0.9, 0.1]
    half[12:17] = [1, 0]
    right, other = fit_with(vote), fit_with(vote)
    assert keeping_classes([fit_with(lost), fit_with(half), right, other]) is right
    # If each loses a class, the one that keeps most.
    found = fit_with(half)
    assert keeping_classes([fit_with(lost), found]) is found


@pytest.mark.long
def test_workers_who_mix_up_two_classes_are_seen():
    """Each of 15 mixes up a pair of five classes half of the time: the table said .27, not .47."""
    rng = np.random.default_rng(51000)
    truth, rows = rng.integers(5, size=400), []
    rates = np.tile(0.8 * np.eye(5) + 0.04, (15, 1, 1))
    mixed_up = rng.integers(4, size=15)
    for worker, one in enumerate(mixed_up):
        rates[worker, one : one + 2] = 0
        rates[worker, one : one + 2, one : one + 2] = 0.5
    for item, kind in enumerate(truth):
        for worker in rng.choice(15, 4, replace=False):
            rows.append((item, worker, rng.choice(5, p=rates[worker, kind])))
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    found = infer_classes(CrowdData(None, labels=frame)).confusion.sort_index()
    lower, upper, mean = (
        found[name].to_numpy().reshape(15, 5, 5) for name in ("lower", "upper", "mean")
    )
    swapped = (rates == 0.5) & ~np.eye(5, dtype=bool)
    held = (lower <= rates) & (rates <= upper)
    assert mean[swapped].mean() > 0.35
    assert held[swapped].mean() > 0.7
    assert held.diagonal(axis1=1, axis2=2).mean() > 0.8


def test_a_strong_prior_that_keeps_even_less_of_a_class_is_not_kept():
    """Of a rare class most votes are errors, so that each fit seems to lose it: F1 was .68."""
    vote = np.eye(2)[[0] * 12 + [1] * 8]
    fits = []
    for number_kept in (3, 1, 0):
        q = vote.copy()
        q[12 + number_kept :] = [1, 0]
        fits.append(fit_with(q))
        fits[-1].elbo = 0.0
    left = iter(fits)
    given = Workers(worker_weights=(1.0,))
    assert best_of_workers(fits[0].data, lambda _: next(left), given, [0]) is fits[0]


def test_classes_that_hardly_anybody_names_may_be_lost():
    vote = np.eye(2)[[0] * 12 + [1] * 8]
    merged = fit_with(np.tile([1.0, 0.0], (20, 1)))
    merged.data = CrowdData(
        None, labels={"item": range(20), "worker": ["w"] * 20, "label": ["a"] * 16 + ["b"] * 4}
    )
    assert keeping_classes([merged, fit_with(vote)]) is merged


@pytest.mark.long
def test_answers_that_keep_a_class_are_no_knowledge_of_the_workers():
    """A prior of 40 or 160 answers at .8 had intervals of .10, which held .27 of the rates."""
    rng = np.random.default_rng(1)
    truth, accuracy = (
        rng.choice(5, 600, p=np.array([50, 10, 5, 2, 1]) / 68),
        rng.uniform(0.6, 0.9, 12),
    )
    rows = [(item, who) for item in range(600) for who in rng.choice(12, 3, replace=False)]
    frame = pd.DataFrame(rows, columns=["item", "worker"])
    true, right = truth[frame["item"]], rng.random(len(frame)) < accuracy[frame["worker"]]
    wrong = (true + rng.integers(1, 5, size=len(frame))) % 5
    frame["label"] = np.where(right, true, wrong)
    result = infer_classes(CrowdData(None, labels=frame))
    table = result.confusion.reset_index()
    table = table[table["class"] == table["label"]]
    rate = accuracy[table["worker"].astype(int)]
    inside = (table["lower"] <= rate) & (rate <= table["upper"])
    assert inside.mean() > 0.85
    assert inside[table["class"] == 0].mean() > 0.7
    assert (table["upper"] - table["lower"])[table["class"] == 0].mean() < 0.25


@pytest.mark.long
def test_intervals_of_workers_of_two_answers_hold_their_rates():
    """A mean field expects them to be alike, and so did draws: .60 of the rates, width .33."""
    rng = np.random.default_rng(0)
    truth, accuracy = rng.integers(4, size=300), rng.beta(4, 2, 600)
    item, worker = rng.permutation(np.repeat(np.arange(300), 4)), np.repeat(np.arange(600), 2)
    wrong = (truth[item] + rng.integers(1, 4, size=1200)) % 4
    label = np.where(rng.random(1200) < accuracy[worker], truth[item], wrong)
    frame = pd.DataFrame({"item": item, "worker": worker, "label": label})
    table = infer_classes(CrowdData(None, labels=frame)).confusion.reset_index()
    table = table[table["class"] == table["label"]]
    rate = accuracy[table["worker"].astype(int)]
    assert ((table["lower"] <= rate) & (rate <= table["upper"])).mean() > 0.85
