"""Draws of classes and workers: the exact posterior where it can be summed."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import gammaln
from scipy.stats import beta

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import (
    AnswerSources,
    ClassStates,
    CommunityConfusion,
    ConfusionMatrices,
    Habit,
    OneCoin,
    Truth,
)
from pyro_crowdclust.annotators.learned_rows import LearnedRows
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.inference import ClassChains
from pyro_crowdclust.mixture import DiagonalGaussianComponents, DirichletWeights
from pyro_crowdclust.models import DawidSkene, MomResp
from pyro_crowdclust.pooling import draw_classes
from pyro_crowdclust.results.tables import confusion_table

ANSWERS = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 2, 0), (2, 1, 1), (2, 2, 0), (3, 0, 1), (3, 1, 1)]


def fitted(annotators, model=None, features=None):
    labels = pd.DataFrame(ANSWERS, columns=["item", "worker", "label"])
    model = model or DawidSkene(annotators, DirichletWeights(2, 4.0))
    options = {"batch_size": None, "step_size": 1.0, "epochs": 5, "progress": False}
    return fit(model, ClassLabelGuide(model), CrowdData(features, labels=labels), **options)


def exact_states() -> np.ndarray:
    """p(y_i = 1) where each class has two states, a sum over the states of all items."""
    right = 6 * np.array([0.9, 0.6])
    prior = np.zeros((4, 2))  # class 0 easy and hard, then class 1
    prior[:2], prior[2:] = np.stack([right, 6 - right], 1), np.stack([6 - right, right], 1)
    log_weights, ones = [], []
    for s in itertools.product(range(4), repeat=4):
        counts = np.zeros((3, 4, 2))
        for item, worker, label in ANSWERS:
            counts[worker, s[item], label] += 1
        of_rows = gammaln(prior + counts).sum() - gammaln((prior + counts).sum(-1)).sum()
        of_states = np.bincount(s, minlength=4).reshape(2, 2)
        shares = gammaln(1 + of_states).sum() - gammaln(2 + of_states.sum(1)).sum()
        log_weights.append(of_rows + shares + gammaln(4 + of_states.sum(1)).sum())
        ones.append(np.array(s) > 1)
    share = np.exp(np.array(log_weights) - max(log_weights))
    return share / share.sum() @ np.array(ones)


def exact() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p(y_i = 1), mean and deviation of all rates, sums over the classes of all items."""
    prior = np.array([[9.0, 4.0], [4.0, 9.0]])
    weights, ones, mean, square = [], [], [], []
    for y in itertools.product([0, 1], repeat=4):
        counts = np.zeros((3, 2, 2))
        for item, worker, label in ANSWERS:
            counts[worker, y[item], label] += 1
        of_rows = gammaln(prior + counts).sum() - gammaln((prior + counts).sum(-1)).sum()
        weights.append(of_rows + gammaln(4 + np.bincount(y, minlength=2)).sum())
        ones.append(y)
        told = prior + counts
        size = told.sum(-1, keepdims=True)
        mean.append(told / size)
        square.append(told * (told + 1) / (size * (size + 1)))
    share = np.exp(np.array(weights) - max(weights))
    share = share / share.sum()
    of_rates = np.einsum("y,yjkl->jkl", share, np.array(mean))
    variance = np.einsum("y,yjkl->jkl", share, np.array(square)) - of_rates**2
    return share @ np.array(ones), of_rates, np.sqrt(variance)


def test_means_are_those_of_the_exact_posterior():
    result = fitted(ConfusionMatrices(3, 2, right=9.0, wrong=4.0))
    drawn = draw_classes(result, num_draws=100, seed=1)
    np.testing.assert_allclose(drawn.probabilities[:, 1], exact()[0], atol=0.03)
    few = [draw_classes(result, num_draws=2, seed=1).probabilities for _ in range(2)]
    np.testing.assert_array_equal(*few)
    np.testing.assert_allclose(drawn.mean_confusion.sum(-1), 1)
    told = drawn.answer_probabilities(np.array([0]), np.array([1]), np.array([0]))
    assert told.tolist() == [drawn.confusion.loc[[(1, 0, 0), (1, 1, 0)], "mean"].tolist()]
    assert drawn.confusion.index.equals(result.confusion.index)
    assert repr(drawn).startswith(f"DrawnClasses({drawn.data}, 2 classes with ")
    assert drawn.class_probabilities.index.equals(result.class_probabilities.index)


def test_intervals_of_rates_leave_open_what_the_classes_leave_open():
    result = fitted(ConfusionMatrices(3, 2, right=9.0, wrong=4.0))
    table = draw_classes(result, num_draws=150, seed=1).confusion
    _, mean, sd = exact()
    np.testing.assert_allclose(table["mean"], mean.ravel(), atol=0.01)
    np.testing.assert_allclose(table["sd"], sd.ravel(), atol=0.005)
    size = mean * (1 - mean) / sd**2 - 1
    bounds = beta(mean * size, (1 - mean) * size).interval(0.9)
    np.testing.assert_allclose(table[["lower", "upper"]].T, np.reshape(bounds, (2, -1)), atol=0.02)


@pytest.mark.long
def test_intervals_of_rates_hold_their_share_of_the_true_ones():
    """Those of the fits, which take their classes as known, hold fewer."""
    inside = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rates = rng.beta(4, 2, size=(5, 2))
        truth = rng.integers(2, size=30)
        right = rng.random((30, 5)) < rates[:, truth].T
        item, worker = np.indices(right.shape).reshape(2, -1)
        label = np.where(right, truth[:, None], 1 - truth[:, None]).ravel()
        data = CrowdData(
            None, labels=pd.DataFrame({"item": item, "worker": worker, "label": label})
        )
        model = DawidSkene(ConfusionMatrices(5, 2))
        options = {"batch_size": None, "step_size": 1.0, "epochs": 20, "progress": False}
        result = fit(model, ClassLabelGuide(model), data, **options)
        of_fit = confusion_table(result.guide.confusion()._asdict(), data)
        for table in (of_fit, draw_classes(result, 25).confusion):
            own = table[table.index.get_level_values(1) == table.index.get_level_values(2)]
            inside.append(own["lower"].le(rates.ravel()) & own["upper"].ge(rates.ravel()))
    of_fits, of_draws = np.mean(inside[::2]), np.mean(inside[1::2])
    assert of_fits < 0.8
    assert of_draws == pytest.approx(0.9, abs=0.05)


def test_states_are_drawn_with_the_classes():
    result = fitted(ClassStates(3, 2, accuracies=(0.9, 0.6)))
    drawn = draw_classes(result, num_draws=100, seed=1)
    np.testing.assert_allclose(drawn.probabilities[:, 1], exact_states(), atol=0.03)
    np.testing.assert_allclose(drawn.mean_confusion.sum(-1), 1)
    states = drawn.states[0, 1] / drawn.states[0, 1].sum()
    told = drawn.answer_probabilities(np.array([0]), np.array([2]), np.array([1]))
    assert told[0, 1] == pytest.approx(states @ drawn.rows[2, 1, :, 1])


def without(left_out: int) -> tuple[float, np.ndarray]:
    """q_-a(1) and E_-a[p(a | k)] of one answer, sums over the classes of all items."""
    prior = np.array([[9.0, 4.0], [4.0, 9.0]])
    weights, ones, rates = [], [], []
    own_item, own_worker, own_label = ANSWERS[left_out]
    for y in itertools.product([0, 1], repeat=4):
        told = np.stack([prior] * 3)
        for number, (item, worker, label) in enumerate(ANSWERS):
            told[worker, y[item], label] += number != left_out
        of_rows = gammaln(told).sum() - gammaln(told.sum(-1)).sum()
        weights.append(of_rows + gammaln(4 + np.bincount(y, minlength=2)).sum())
        ones.append(y[own_item])
        rates.append(told[own_worker, :, own_label] / told[own_worker].sum(-1))
    share = np.exp(np.array(weights) - max(weights))
    share /= share.sum()
    return share @ np.array(ones), share @ np.array(rates)


def test_labels_are_left_out_as_if_they_had_not_been_given():
    result = fitted(ConfusionMatrices(3, 2, right=9.0, wrong=4.0))
    found = draw_classes(result, num_draws=300, seed=1).left_out
    labels = result.data.class_labels.of_items(torch.arange(4))
    for row, answer in enumerate(zip(labels.item, labels.worker, labels.label, strict=True)):
        number = ANSWERS.index(tuple(map(int, answer)))
        classes, named = without(number)
        assert found.classes[row] == pytest.approx([1 - classes, classes], abs=0.03)
        np.testing.assert_allclose(found.named[row], named, atol=0.02)


def test_draws_leave_the_fit_as_it_is():
    result = fitted(CommunityConfusion(3, 2, 2))
    before = result.model.annotators.concentration()
    draw_classes(result, num_draws=3)
    assert torch.equal(before, result.model.annotators.concentration())


@pytest.mark.parametrize("communities", [1, 2])
def test_workers_of_known_classes(communities):
    """Where answers are many, sources and confusions are drawn around what they say.

    Two chains have other answers, and do not hear each other's.
    """
    rng = np.random.default_rng(0)
    rates = rng.dirichlet([2.0] * 3, size=(2, 4, 3))
    rates = 0.7 * np.eye(3) + 0.3 * rates
    counts = rng.multinomial(20_000, rates).astype(float)
    size = 4, 3
    for annotators in (
        CommunityConfusion(*size, communities),
        AnswerSources([Truth(*size), Habit(*size), CommunityConfusion(*size, communities)]),
    ):
        values = {
            name: torch.stack([prior.family.expected_statistics(prior.natural_parameters)] * 2)
            for name, prior in annotators.priors().items()
        }
        mean = np.zeros_like(rates)
        for _ in range(40):
            values = annotators.draw(values, counts, counts.sum((1, 3)), rng)
            mean += annotators.log_answers(values).exp().mT.numpy() / 40
        np.testing.assert_allclose(mean, rates, atol=0.02)


def test_learned_concentrations_end_where_the_joint_density_is_highest():
    rng = np.random.default_rng(1)
    counts = rng.poisson(4.0, size=(30, 2, 3)).astype(float)
    community = rng.dirichlet([1.0, 1.0], size=30)
    rows = LearnedRows(torch.ones(2, 2, 3))
    concentration = np.ones((2, 2, 3))
    for _ in range(300):
        concentration = rows.learned(concentration, counts, community)
    a = torch.from_numpy(concentration).requires_grad_()
    n = torch.from_numpy(counts).unsqueeze(1)
    total = torch.lgamma(a.sum(-1)) - torch.lgamma((a + n).sum(-1))
    marginal = total + (torch.lgamma(a + n) - torch.lgamma(a)).sum(-1)
    shape, rate = rows.concentration_prior
    prior = ((shape - 1) * a.log() - rate * a).sum()
    joint = (torch.from_numpy(community).unsqueeze(-1) * marginal).sum() + prior
    (gradient,) = torch.autograd.grad(joint, a)
    assert gradient.abs().max() < 1e-3


@pytest.mark.parametrize(
    "annotators",
    [
        ClassStates(4, 3),
        CommunityConfusion(4, 3, 2),
    ],
    ids=lambda annotators: type(annotators).__name__,
)
def test_chains_side_by_side_do_not_hear_each_other(annotators):
    """Answers so many that a draw is what they say, of three chains that saw different ones."""
    rng = np.random.default_rng(0)
    states = 3 * getattr(annotators, "num_states", 1)
    rates = rng.dirichlet([5.0] * 3, size=(3, 4, states))
    counts = (1e8 * rates).round()
    values = {
        name: prior.family.expected_statistics(prior.natural_parameters).detach()
        for name, prior in annotators.priors().items()
    }
    values = {name: value.expand(3, *value.shape) for name, value in values.items()}
    drawn = annotators.draw(values, counts, counts.sum((-3, -1)), rng)
    found = annotators.log_answers(drawn).exp().mT.numpy()
    own = counts / counts.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, own, atol=1e-3)
    for name, value in drawn.items():
        assert len(value) == 3, name


def test_what_cannot_be_drawn(monkeypatch):
    with monkeypatch.context() as changed:
        changed.delattr(OneCoin, "draw")
        with pytest.raises(ValueError, match="OneCoin cannot be drawn"):
            draw_classes(fitted(OneCoin(3, 2)))
    model = MomResp(DiagonalGaussianComponents(2, 1), ConfusionMatrices(3, 2))
    with pytest.raises(ValueError, match="MomResp also learns from features"):
        draw_classes(fitted(model.annotators, model, np.arange(4.0)[:, None]))
    with pytest.raises(ValueError, match="num_draws is 0, but must be at least 1"):
        draw_classes(fitted(ConfusionMatrices(3, 2)), num_draws=0)
    with pytest.raises(ValueError, match="num_draws is 2.5, but must be a whole number"):
        draw_classes(fitted(ConfusionMatrices(3, 2)), num_draws=2.5)
    drawn = draw_classes(fitted(ConfusionMatrices(3, 2)), num_draws=1)
    with pytest.raises(
        ValueError, match="result is DrawnClasses, but must be a fit: for draws pass"
    ):
        draw_classes(drawn)


def test_several_steps_of_learned_priors_for_each_draw():
    counts = np.random.default_rng(1).poisson(4.0, size=(30, 2, 3)).astype(float)
    rows, everybody = LearnedRows(torch.ones(1, 2, 3)), np.ones((30, 1))
    expected = np.ones((1, 2, 3))
    for _ in range(4):
        expected = rows.learned(expected, counts, everybody)
    rows.steps_per_draw = 4
    np.testing.assert_array_equal(rows.learned(np.ones((1, 2, 3)), counts, everybody), expected)


def test_chains_take_as_many_steps_as_they_are_told():
    """The model itself keeps its own, as it is copied."""
    result = fitted(CommunityConfusion(3, 2, 1))
    classes = torch.tensor(result.probabilities)
    parts = result.model, result.guide.posteriors, result.data, classes, 2
    chains = ClassChains(*parts, np.random.default_rng(0), prior_steps=5)
    assert chains.annotators.rows.steps_per_draw == 5
    assert result.model.annotators.rows.steps_per_draw == 1
