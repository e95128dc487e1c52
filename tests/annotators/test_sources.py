"""Annotators whose answers have several sources: their posterior, and what can be read of it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.infer import Trace_ELBO

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import AnswerSources, ConfusionMatrices, Habit, Truth
from pyro_crowdclust.annotators import sources as sources_module
from pyro_crowdclust.annotators.learned_rows import LearnedRows
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training import NaturalGradient

CLASSES = 3


def sources(num_workers: int) -> AnswerSources:
    size = num_workers, CLASSES
    return AnswerSources([Truth(*size), Habit(*size), ConfusionMatrices(*size)])


def crowd(truth: np.ndarray, num_workers: int, lazy: list[int], seed: int) -> CrowdData:
    """Lazy workers say class 2 in nine of ten answers, come what may; others are 85 % right."""
    rng = np.random.default_rng(seed)
    rows = []
    for item, right in enumerate(truth):
        for worker in range(num_workers):
            habit = 2 if rng.random() < 0.9 else rng.integers(CLASSES)
            knows = right if rng.random() < 0.85 else rng.integers(CLASSES)
            rows.append((item, worker, habit if worker in lazy else knows))
    return CrowdData(None, labels=pd.DataFrame(rows, columns=["item", "worker", "label"]))


def test_workers_who_answer_out_of_habit_are_found():
    truth = np.random.default_rng(0).integers(CLASSES, size=90)
    data = crowd(truth, 6, lazy=[1, 4], seed=1)
    model = DawidSkene(AnswerSources([Truth(6, CLASSES), Habit(6, CLASSES)]))
    result = fit(
        model,
        ClassLabelGuide(model),
        data,
        batch_size=None,
        step_size=0.5,
        epochs=60,
        optim=partial(torch.optim.Adam, lr=0.1),
        progress=False,
    )
    shares = result.guide.posteriors["sources"].standard().concentration
    of_truth = (shares[:, 0] / shares.sum(1)).numpy()
    assert of_truth[[1, 4]].max() < 0.2 < 0.6 < of_truth[[0, 2, 3, 5]].min()
    habits = result.guide.posteriors["habit"].mean().exp()
    assert habits[[1, 4]].argmax(1).tolist() == [2, 2]
    assert (result.assignments == truth).mean() > 0.93


def test_a_natural_step_is_that_of_a_site_for_the_source_of_every_answer():
    data = crowd(np.array([0, 1, 2, 2]), 2, lazy=[1], seed=2)
    guide = ClassLabelGuide(DawidSkene(sources(2)))
    batch = full_batch(data)
    names = ("sources", "habit", "confusion")
    prior = {name: guide.posteriors[name].natural_parameters.detach().numpy() for name in names}
    log_share, log_habit, log_confusion = (guide.posteriors[name].mean().numpy() for name in names)
    q = guide.infer(batch).assignments.numpy()
    # At its prior a posterior goes to the prior plus what is expected of the counts.
    expected = {name: value.copy() for name, value in prior.items()}
    for item, worker, label in data.labels.itertuples(index=False):
        for k in range(CLASSES):
            row = worker * CLASSES + k
            terms = log_share[worker] + np.array(
                [
                    0.0 if k == label else -np.inf,
                    log_habit[worker, label],
                    log_confusion[row, label],
                ]
            )
            of_source = q[item, k] * np.exp(terms - np.logaddexp.reduce(terms))
            expected["sources"][worker] += of_source
            expected["habit"][worker, label] += of_source[1]
            expected["confusion"][row, label] += of_source[2]
    Trace_ELBO().differentiable_loss(guide.model, guide, batch).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    for name in names:
        found = guide.posteriors[name].natural_parameters.detach().numpy()
        np.testing.assert_allclose(found, expected[name], atol=1e-10)


def test_shares_and_habits_are_drawn_given_the_answers_dealt_out_to_them(monkeypatch):
    """Compared are the concentrations of which they are drawn, learned from all workers."""
    monkeypatch.setattr(sources_module, "draw_log_shares", lambda a, rng: torch.from_numpy(a))
    rng = np.random.default_rng(0)
    share, habit = rng.dirichlet([2.0, 2.0], 4), rng.dirichlet([2.0] * CLASSES, 4)
    counts = rng.integers(9, size=(4, CLASSES, CLASSES)).astype(float)
    annotators = AnswerSources([Truth(4, CLASSES), Habit(4, CLASSES)])
    values = {"sources": torch.tensor(share).log(), "habit": torch.tensor(habit).log()}
    found = annotators.draw(values, counts, counts.sum((0, 2)), np.random.default_rng(1))
    of_habit = np.empty((4, CLASSES, CLASSES))
    for j, k, label in np.ndindex(*of_habit.shape):
        says = share[j, 1] * habit[j, label]
        of_habit[j, k, label] = says / (says + share[j, 0] * (k == label))
    source = np.stack([1 - of_habit, of_habit], -1)
    dealt = np.random.default_rng(1).multinomial(counts.astype(int), source)
    for name, start, own in (
        ("sources", [3.0, 1.0], dealt.sum((1, 2))),
        ("habit", [1.0] * CLASSES, dealt[..., 1].sum(1)),
    ):
        begun = np.array([[start]])
        rows = LearnedRows(torch.tensor(begun))
        learned = rows.learned(begun, own[:, None].astype(float), np.ones((4, 1)))
        np.testing.assert_allclose(found[name], learned[0] + own)
        np.testing.assert_allclose(found[f"{name}_concentration"], learned)


def test_summary_has_the_moments_of_draws():
    guide = ClassLabelGuide(DawidSkene(sources(2)))
    rng = np.random.default_rng(3)
    for posterior in guide.posteriors.values():
        shape = posterior.natural_parameters.shape
        posterior.set_natural_parameters(torch.tensor(rng.uniform(0, 4, shape)))
    summary = guide.confusion(0.9)
    alpha = {
        name: guide.posteriors[name].standard().concentration.numpy()
        for name in ("sources", "habit", "confusion")
    }
    worker, k = 1, 2
    share = rng.dirichlet(alpha["sources"][worker], size=100_000)
    draws = share[:, :1] * np.eye(CLASSES)[k]
    draws = draws + share[:, 1:2] * rng.dirichlet(alpha["habit"][worker], size=100_000)
    draws += share[:, 2:] * rng.dirichlet(alpha["confusion"][worker * CLASSES + k], size=100_000)
    np.testing.assert_allclose(summary.mean[worker, k], draws.mean(0), atol=3e-3)
    np.testing.assert_allclose(summary.sd[worker, k], draws.std(0), atol=3e-3)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(summary.lower[worker, k], low, atol=0.03)
    np.testing.assert_allclose(summary.upper[worker, k], high, atol=0.03)
    np.testing.assert_allclose(summary.mean.sum(-1), 1)


def test_a_fit_comes_back_from_its_file(tmp_path):
    data = crowd(np.arange(12) % CLASSES, 2, lazy=[1], seed=4)
    model = DawidSkene(sources(2))
    result = fit(model, ClassLabelGuide(model), data, batch_size=None, epochs=2, progress=False)
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    pd.testing.assert_frame_equal(loaded.confusion, result.confusion)
    pd.testing.assert_frame_equal(loaded.class_probabilities, result.class_probabilities)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda: [Truth(2, 3)], "sources has 1: give two or more"),
        (lambda: [Truth(2, 3), Habit(2, 4)], "give them the same numbers"),
        (lambda: [Habit(2, 3), Habit(2, 3)], "the sources have the same site, of"),
    ],
)
def test_bad_sources(parts, message):
    with pytest.raises(ValueError, match=message):
        AnswerSources(parts())


def test_more_workers_have_the_same_sources():
    grown = sources(2).with_workers(torch.tensor([0, 2]), 3)
    assert grown.num_workers == 3
    assert [type(part) for part in grown.parts] == [Truth, Habit, ConfusionMatrices]


def test_a_source_of_ones_own_has_no_more_workers():
    class OwnHabit(Habit):
        """Without the decorator that remembers arguments."""

    own = OwnHabit(2, CLASSES)
    vars(own).pop("constructor_arguments", None)
    annotators = AnswerSources([Truth(2, CLASSES), own])
    assert annotators.with_workers(torch.tensor([0, 1]), 3) is None
