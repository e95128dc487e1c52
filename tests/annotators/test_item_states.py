"""Items of a class that differ: against loops over classes and states, and plain confusion."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.infer import Trace_ELBO
from scipy.special import digamma, gammaln

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import (
    ClassStates,
    ConfusionMatrices,
    LabelLikelihood,
    item_states,
)
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training import NaturalGradient

from ..oracles import random_natural

ITEMS, WORKERS, CLASSES, STATES = 5, 3, 3, 2


def crowd(num_items: int = ITEMS, seed: int = 0) -> CrowdData:
    """Two thirds of all possible answers."""
    rng = np.random.default_rng(seed)
    asked = np.argwhere(rng.random((num_items, WORKERS)) < 2 / 3)
    frame = pd.DataFrame(asked, columns=["item", "worker"])
    frame["label"] = rng.integers(CLASSES, size=len(frame))
    return CrowdData(None, labels=frame, item_ids=range(num_items), classes=range(CLASSES))


def random_guide() -> ClassLabelGuide:
    guide = ClassLabelGuide(DawidSkene(ClassStates(WORKERS, CLASSES, (0.9, 0.6), 5.0)))
    for posterior in guide.posteriors.values():
        plate = posterior.natural_parameters.shape[:-1]
        posterior.set_natural_parameters(random_natural(posterior.family, *plate))
    return guide


def concentrations(guide: ClassLabelGuide) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the weights, of the states, and of the rows ``[worker, class, state, label]``."""
    weights, states, rows = (
        guide.posteriors[name].standard().concentration.numpy()
        for name in ("weights", "states", "confusion")
    )
    return weights, states, rows.reshape(WORKERS, CLASSES, STATES, CLASSES)


def expected_log(alpha: np.ndarray) -> np.ndarray:
    return digamma(alpha) - digamma(alpha.sum(-1, keepdims=True))


def kl(q: np.ndarray, p: np.ndarray) -> float:
    normalizer = [gammaln(a).sum() - gammaln(a.sum()) for a in (q, p)]
    return (q - p) @ expected_log(q) - normalizer[0] + normalizer[1]


def looped(guide: ClassLabelGuide, data: CrowdData) -> tuple[np.ndarray, np.ndarray]:
    """Unnormalized log q(y, s) of every item, and q(y, s) itself."""
    log_theta, log_pi, log_gamma = map(expected_log, concentrations(guide))
    logits = np.empty((data.num_items, CLASSES, STATES))
    for i in range(data.num_items):
        logits[i] = log_theta[:, None] + log_pi
        for item, worker, label in data.labels.itertuples(index=False):
            if item == i:
                logits[i] += log_gamma[worker, :, :, label]
    q = np.exp(logits - logits.max((1, 2), keepdims=True))
    return logits, q / q.sum((1, 2), keepdims=True)


def prior_row(k: int, s: int) -> np.ndarray:
    right = 5.0 * (0.9, 0.6)[s]
    return np.where(np.arange(CLASSES) == k, right, (5.0 - right) / (CLASSES - 1))


def test_elbo_is_that_of_a_loop_over_classes_and_states():
    guide, data = random_guide(), crowd()
    logits, q = looped(guide, data)
    weights, states, rows = concentrations(guide)
    elbo = (q * (logits - np.log(q))).sum() - kl(weights, np.ones(CLASSES))
    for k in range(CLASSES):
        elbo -= kl(states[k], np.ones(STATES))
        for j, s in np.ndindex(WORKERS, STATES):
            elbo -= kl(rows[j, k, s], prior_row(k, s))
    batch = full_batch(data)
    found = -Trace_ELBO().differentiable_loss(guide.model, guide, batch).item()
    assert found == pytest.approx(elbo, rel=1e-10)
    np.testing.assert_allclose(guide.infer(batch).assignments, q.sum(2), rtol=1e-10)


def test_a_natural_step_is_the_conjugate_posterior_given_classes_and_states():
    guide, data = random_guide(), crowd()
    q = looped(guide, data)[1]
    Trace_ELBO().differentiable_loss(guide.model, guide, full_batch(data)).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    rows = np.empty((WORKERS, CLASSES, STATES, CLASSES))
    for k, s in np.ndindex(CLASSES, STATES):
        rows[:, k, s] = prior_row(k, s)
    for item, worker, label in data.labels.itertuples(index=False):
        rows[worker, :, :, label] += q[item]
    for found, expected in zip(
        concentrations(guide), (1 + q.sum((0, 2)), 1 + q.sum(0), rows), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_one_state_is_a_confusion_matrix():
    data = crowd(30, seed=1)
    settings = {"batch_size": None, "step_size": 1.0, "epochs": 10, "progress": False}
    results = []
    for annotators in (
        ClassStates(WORKERS, CLASSES, [0.7], 6.0),
        ConfusionMatrices(WORKERS, CLASSES, 4.2, 1.8),
    ):
        model = DawidSkene(annotators)
        results.append(fit(model, ClassLabelGuide(model), data, **settings))
    assert results[0].elbo == pytest.approx(results[1].elbo, abs=1e-9)
    np.testing.assert_allclose(*(result.probabilities for result in results), atol=1e-10)
    np.testing.assert_allclose(*(result.guide.confusion() for result in results), atol=1e-8)


def test_an_answer_is_predicted_from_the_state_that_the_others_tell():
    guide, data = random_guide(), crowd()
    asked = torch.tensor([0, 3, 4]), torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0])
    found = guide.answer_probabilities(full_batch(data).class_labels, *asked)
    q = looped(guide, data)[1]
    state = q / q.sum(2, keepdims=True)
    rows = concentrations(guide)[2]
    mean = rows / rows.sum(-1, keepdims=True)
    for number, (i, j, a) in enumerate(zip(*asked, strict=True)):
        np.testing.assert_allclose(found[number], (state[i] * mean[j, :, :, a]).sum(1))


def test_confusion_is_the_mean_over_states_with_its_deviation():
    """Against draws of shares and rows; what is not known of the shares counts, too."""
    guide = random_guide()
    mean, sd, lower, upper = guide.confusion()
    _, states, rows = concentrations(guide)
    rng = np.random.default_rng(0)
    share = rng.dirichlet(states[1], 100_000)
    each = np.stack([rng.dirichlet(row, 100_000) for row in rows[2, 1]], 1)
    draws = (share[..., None] * each).sum(1)
    np.testing.assert_allclose(mean[2, 1], draws.mean(0), atol=3e-3)
    np.testing.assert_allclose(sd[2, 1], draws.std(0), atol=2e-3)
    known = np.sqrt(((states[1] / states[1].sum())[:, None] ** 2 * each.var(0)).sum(0))
    assert (sd[2, 1] > known + 0.01).any()
    np.testing.assert_allclose(mean.sum(-1), 1)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    np.testing.assert_allclose(lower[2, 1], low, atol=0.03)
    np.testing.assert_allclose(upper[2, 1], high, atol=0.03)


def test_all_answers_about_an_item_are_drawn_in_the_same_state():
    annotators = ClassStates(WORKERS, CLASSES, (0.9, 0.6))
    # In the first state workers name the class, in the second the next one.
    right = torch.eye(CLASSES, dtype=torch.float64)
    sure = torch.stack([right, right.roll(1, 1)], 1).flatten(0, 1).clamp_min(1e-300).log()
    values = {"confusion": sure.repeat(WORKERS, 1), "states": torch.zeros(CLASSES, STATES)}
    labels = full_batch(crowd(200, seed=2)).class_labels
    classes = torch.randint(CLASSES, (200,), generator=torch.Generator().manual_seed(0))
    one_hot = torch.nn.functional.one_hot(classes, CLASSES).double()
    rows = LabelLikelihood(annotators, values).log_rows(one_hot, labels)
    away = (rows.argmax(1) - classes[labels.item]) % CLASSES
    assert set(away.tolist()) == {0, 1}
    for item in labels.item.unique():
        assert len(away[labels.item == item].unique()) == 1


@pytest.mark.parametrize("accuracies", [[], [0.0], [0.9, 1.0]])
def test_accuracies_that_are_none(accuracies):
    with pytest.raises(ValueError, match="give one or more between 0 and 1"):
        ClassStates(WORKERS, CLASSES, accuracies)


def test_states_are_drawn_with_the_shares_of_their_class():
    guide, draws = random_guide(), 4000
    values = {name: posterior.mean() for name, posterior in guide.posteriors.items()}
    shares = values["states"].softmax(-1)
    classes = torch.eye(CLASSES, dtype=torch.float64)
    for k in range(CLASSES):
        drawn = guide.model.annotators.draw_states(values, classes[[k] * draws]).mean(0)
        expected = torch.zeros(CLASSES, STATES, dtype=torch.float64)
        expected[k] = shares[k]
        error = (expected * (1 - expected) / draws).sqrt()
        assert ((drawn.unflatten(0, (CLASSES, -1)) - expected).abs() <= 5 * error + 1e-9).all()


def test_rows_and_shares_are_drawn_given_what_is_counted(monkeypatch):
    """Compared are the concentrations of which they are drawn."""
    monkeypatch.setattr(item_states, "draw_log_shares", lambda a, rng: torch.from_numpy(a))
    rng = np.random.default_rng(0)
    counts = rng.integers(9, size=(WORKERS, CLASSES, STATES, CLASSES)).astype(float)
    items = rng.integers(9, size=(CLASSES, STATES)).astype(float)
    annotators = ClassStates(WORKERS, CLASSES, (0.9, 0.6), 5.0)
    found = annotators.draw({}, counts.reshape(WORKERS, -1, CLASSES), items.ravel(), rng)
    rows = np.array([[prior_row(k, s) for s in range(STATES)] for k in range(CLASSES)])
    np.testing.assert_allclose(found["confusion"], (rows + counts).reshape(-1, CLASSES))
    np.testing.assert_array_equal(found["states"], 1 + items)
