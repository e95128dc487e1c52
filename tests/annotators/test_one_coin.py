"""One rate of right answers per worker."""

from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.annotators import OneCoin
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions import ConjugatePosterior


def test_an_answer_is_predicted_by_the_others_of_its_worker():
    """Compared are rates counted answer by answer, those of the answer itself left out."""
    rng, prior = np.random.default_rng(0), (3.0, 1.5)
    annotators = OneCoin(2, 3, prior)
    items, worker = np.repeat(np.arange(6), 2), np.tile([0, 1], 6)
    label = rng.integers(3, size=12)
    classes = rng.dirichlet([1.0] * 3, size=6)
    right = classes[items, label]
    posterior = ConjugatePosterior(annotators.accuracy)
    counted = np.array([np.bincount(worker, right), np.bincount(worker, 1 - right)])
    counted = torch.from_numpy(counted + np.array(prior)[:, None])
    posterior.set_natural_parameters(annotators.accuracy.family.natural(*counted))
    labels = LabelMatrix(torch.from_numpy(worker * 3 + label), torch.full((6,), 2), 2, 3)
    found = annotators.log_leave_one_out(
        {"accuracy": posterior}, labels, torch.from_numpy(classes)
    ).exp()
    for row in range(12):
        others = (worker == worker[row]) & (np.arange(12) != row)
        rate = (prior[0] + right[others].sum()) / (sum(prior) + others.sum())
        expected = np.full(3, (1 - rate) / 2)
        expected[label[row]] = rate
        np.testing.assert_allclose(found[row], expected)


def test_all_answers_of_a_worker_about_an_item_are_left_out_together():
    """Worker 0 gives item 0 two labels, which count half each, and item 1 one."""
    annotators = OneCoin(1, 3, (3.0, 1.5))
    weight = torch.tensor([0.5, 0.5, 1.0], dtype=torch.float64)
    labels = LabelMatrix(torch.tensor([0, 2, 1]), torch.tensor([2, 1]), 1, 3, weight=weight)
    classes = torch.tensor([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]], dtype=torch.float64)
    right = 0.5 * (0.5 + 0.3) + 0.8
    posterior = ConjugatePosterior(annotators.accuracy)
    counted = torch.tensor([[3.0 + right], [1.5 + 2 - right]], dtype=torch.float64)
    posterior.set_natural_parameters(annotators.accuracy.family.natural(*counted))
    found = annotators.log_leave_one_out({"accuracy": posterior}, labels, classes).exp()
    of_first, of_second = 3.8 / 5.5, 3.4 / 5.5
    np.testing.assert_allclose(found[[0, 1, 2], [0, 2, 1]], [of_first, of_first, of_second])


def test_answers_that_were_not_counted_are_predicted_by_the_prior():
    annotators = OneCoin(1, 4, (3.0, 1.0))
    posteriors = {"accuracy": ConjugatePosterior(annotators.accuracy)}
    posteriors["accuracy"].set_natural_parameters(annotators.accuracy.natural_parameters)
    labels = LabelMatrix(torch.tensor([2]), torch.tensor([1]), 1, 4)
    classes = torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
    found = annotators.log_leave_one_out(posteriors, labels, classes).exp()
    expected = torch.tensor([[1 / 12, 1 / 12, 0.75, 1 / 12]], dtype=torch.float64)
    torch.testing.assert_close(found, expected)


def test_draws_of_several_chains_are_of_their_counts():
    """Chains with other counts; means and deviations of many draws are those of Betas."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(2, 3, 4, 4)).astype(float)
    annotators = OneCoin(3, 4, (3.0, 1.0))
    drawn = [annotators.draw({}, counts, counts.sum((1, 3)), rng) for _ in range(2000)]
    matrices = np.stack([annotators.log_answers(one).exp().mT.numpy() for one in drawn])
    right = 3 + np.trace(counts, axis1=2, axis2=3)
    mean = right / (4 + counts.sum((2, 3)))
    for k in range(4):
        np.testing.assert_allclose(matrices[..., k, k].mean(0), mean, atol=0.01)
    sd = np.sqrt(mean * (1 - mean) / (5 + counts.sum((2, 3))))
    np.testing.assert_allclose(matrices[..., 0, 0].std(0), sd, rtol=0.1)
    np.testing.assert_allclose(matrices.sum(-1), 1)
