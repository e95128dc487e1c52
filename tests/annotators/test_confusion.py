"""What counts of answers say of workers and their communities, rates summed out."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyro
import pytest
import scipy.special
import scipy.stats
import torch

from pyro_crowdclust.annotators import (
    CommunityConfusion,
    ConfusionMatrices,
    LabelLikelihood,
    confusion,
)
from pyro_crowdclust.annotators.confusion import _log_marginal
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.distributions import ConjugatePosterior


def test_counts_have_the_density_of_dirichlet_multinomials():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (5, 3, 4)).astype(float)
    concentration = rng.random((2, 3, 4)) + 0.2
    expected = np.zeros((5, 2))
    for worker, community, k in np.ndindex(5, 2, 3):
        own = counts[worker, k].astype(int)
        row = scipy.stats.dirichlet_multinomial(concentration[community, k], own.sum())
        expected[worker, community] += row.logpmf(own)
        # In one order of the answers, not in any.
        orders = scipy.special.gammaln(own.sum() + 1) - scipy.special.gammaln(own + 1).sum()
        expected[worker, community] -= orders
    np.testing.assert_allclose(_log_marginal(counts, concentration), expected)


def test_no_concentrations_have_a_higher_density_than_those_at_the_mode():
    rows = CommunityConfusion(5, 3, 2).rows
    shape, rate = rows.concentration_prior
    prior = scipy.stats.gamma(shape, scale=1 / rate)
    grid = np.geomspace(1e-3, 1e3, 100_001)
    assert rows.highest_log_prior == pytest.approx(2 * 3 * 3 * prior.logpdf(grid).max(), abs=1e-6)


def test_communities_of_outliers_cost_nothing_and_are_not_learned():
    outliers = CommunityConfusion(5, 3, 2, outliers=[(8.0, 2.0), (2.0, 0.5)])
    plain = CommunityConfusion(5, 3, 2)
    assert outliers.rows.highest_log_prior == plain.rows.highest_log_prior
    concentration = outliers.concentration().detach()
    torch.testing.assert_close(concentration[:2], plain.concentration().detach())
    torch.testing.assert_close(concentration[2, 1], torch.tensor([1.0, 8.0, 1.0]).double())
    torch.testing.assert_close(concentration[3, 2], torch.tensor([0.25, 0.25, 2.0]).double())
    costs = []
    for annotators in (outliers, plain):
        with pyro.poutine.trace() as trace:
            annotators.sample()
        costs.append(trace.trace.nodes["confusion_concentration"]["fn"].log_factor.detach())
    torch.testing.assert_close(*costs)
    rng = np.random.default_rng(0)
    before, responsible = concentration.numpy(), rng.dirichlet(np.ones(4), 5)
    counts = rng.integers(0, 9, (5, 3, 3)).astype(float)
    found = outliers.rows.learned(before, counts, responsible)
    expected = plain.rows.learned(before[:2], counts, responsible[:, :2])
    np.testing.assert_allclose(found, np.concatenate([expected, before[2:]]), rtol=1e-14)


def test_what_is_drawn_has_learned_from_the_communities_of_the_workers(monkeypatch):
    """Compared are the concentrations of which shares are drawn."""
    monkeypatch.setattr(confusion, "draw_log_shares", lambda a, rng: torch.from_numpy(a))
    rng, log_shares = np.random.default_rng(0), np.log([0.3, 0.7])
    counts = rng.integers(0, 3, (12, 3, 3)).astype(float)
    counts[:6] += 2 * np.eye(3)
    annotators = CommunityConfusion(12, 3, 2)
    before = annotators.concentration().detach().numpy()
    responsible = scipy.special.softmax(log_shares + _log_marginal(counts, before), 1)
    learned = annotators.rows.learned(before, counts, responsible)
    community = np.random.default_rng(1).multinomial(1, responsible)
    assert set(community.argmax(1)) == {0, 1}
    values = {"communities": torch.from_numpy(log_shares)}
    found = annotators.draw(values, counts, counts.sum((0, 2)), np.random.default_rng(1))
    np.testing.assert_array_equal(found["confusion_concentration"], learned)
    np.testing.assert_array_equal(found["community"], community)
    np.testing.assert_array_equal(found["communities"], 1 + community.sum(0))
    expected = learned[community.argmax(1)] + counts
    np.testing.assert_allclose(found["confusion"], expected.reshape(-1, 3))


@pytest.mark.parametrize(
    "make", [ConfusionMatrices, partial(CommunityConfusion, num_communities=2)]
)
def test_answers_count_what_their_workers_are_worth(make):
    rng, worker_weights = np.random.default_rng(3), (1.0, 0.4, 0.25)
    cells = torch.from_numpy(rng.integers(0, 9, 20))
    labels = LabelMatrix(cells, torch.full((5,), 4), 3, 3)
    shares = torch.from_numpy(rng.dirichlet(np.ones(3), 9))
    values = {"confusion": shares.log()}
    found = LabelLikelihood(make(3, 3, worker_weights=worker_weights), values)
    expected = torch.zeros(5, 3, dtype=torch.float64)
    for item, worker, label in zip(labels.item, labels.worker, labels.label, strict=True):
        expected[item] += worker_weights[worker] * shares.view(3, 3, 3)[worker, :, label].log()
    torch.testing.assert_close(found.evidence(labels), expected)
    one = LabelLikelihood(make(3, 3), values)
    torch.testing.assert_close(found.log_confusion(), one.log_confusion())


@pytest.mark.parametrize("worker_weights", [(1.0, 0.5), (1.0, 0.0, 1.0), (1.0, float("nan"), 1.0)])
def test_a_weight_is_a_number_above_zero_for_every_worker(worker_weights):
    with pytest.raises(ValueError, match="must be one number above 0 for each of 3 workers"):
        ConfusionMatrices(3, 2, worker_weights=worker_weights)


@pytest.mark.parametrize("accuracies", [[0.6], [0.9, 0.55, 0.2]])
def test_communities_begin_at_accuracies_from_good_to_bad(accuracies):
    """Three pseudo-answers of such workers, who else guess, and half a one of every label."""
    found = CommunityConfusion(2, 4, len(accuracies)).concentration().detach()
    expected = [
        [0.5 + 3 * (accuracy * (k == label) + (1 - accuracy) / 4) for label in range(4)]
        for accuracy in accuracies
        for k in range(4)
    ]
    np.testing.assert_allclose(found.flatten(0, 1), expected)


@pytest.mark.parametrize("num_communities", [0, 2])
def test_what_was_not_counted_is_not_taken_out(num_communities):
    """Of labels that were not learned from there is the prior, as it is or as it was learned."""
    annotators = ConfusionMatrices(3, 4)
    prior = annotators.confusion.family.standard(annotators.confusion.natural_parameters)
    rows = prior.concentration.view(3, 4, 4)
    if num_communities:
        annotators = CommunityConfusion(3, 4, num_communities)
        rows = annotators.concentration().detach().mean(0).expand(3, 4, 4)
    posteriors = {name: ConjugatePosterior(one) for name, one in annotators.priors().items()}
    family = posteriors["confusion"].family
    posteriors["confusion"].set_natural_parameters(family.natural(rows.reshape(12, 4)))
    labels = LabelMatrix(torch.tensor([1, 6, 11]), torch.tensor([2, 1]), 3, 4)
    classes = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    named, total = annotators.leave_one_out_counts(posteriors, labels, classes)
    worker, label = [0, 1, 2], [1, 2, 3]
    torch.testing.assert_close(named, rows[worker, :, label])
    torch.testing.assert_close(total, rows.sum(-1)[worker])


def test_all_answers_of_a_worker_about_an_item_are_left_out_together():
    """Rates without what a worker has said about the item are those counted on the others."""
    rng = np.random.default_rng(0)
    annotators, cells = ConfusionMatrices(2, 3), torch.from_numpy(rng.integers(6, size=20))
    weight = torch.from_numpy(rng.uniform(0.2, 1.0, 20))
    labels = LabelMatrix(cells, torch.full((5,), 4), 2, 3, weight=weight)
    classes = torch.from_numpy(rng.dirichlet(np.ones(3), size=5))
    prior = annotators.confusion.family.standard(annotators.confusion.natural_parameters)
    prior = prior.concentration.view(2, 3, 3)

    def counted(rows):
        counts = prior.clone()
        for row in rows:
            own = weight[row] * classes[labels.item[row]]
            counts[labels.worker[row], :, labels.label[row]] += own
        return counts

    posterior = ConjugatePosterior(annotators.confusion)
    every = counted(range(20)).flatten(0, 1)
    posterior.set_natural_parameters(posterior.family.natural(every))
    named, total = annotators.leave_one_out_counts({"confusion": posterior}, labels, classes)
    for row in range(20):
        same = (labels.item == labels.item[row]) & (labels.worker == labels.worker[row])
        others = counted(torch.where(~same)[0])[labels.worker[row]]
        torch.testing.assert_close(named[row], others[:, labels.label[row]])
        torch.testing.assert_close(total[row], others.sum(-1))


def test_tables_and_draws_count_a_share_of_the_prior(monkeypatch):
    """A quarter of 32 right and 8 wrong answers, beside the answers themselves."""
    monkeypatch.setattr(confusion, "draw_log_shares", lambda a, rng: torch.from_numpy(a))
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(2, 3, 3)).astype(float)
    annotators = ConfusionMatrices(2, 3, 32.0, 8.0, prior_share=0.25)
    expected = counts + np.full((3, 3), 1.0) + 7 * np.eye(3)
    found = annotators.draw({}, counts, counts.sum((0, 2)), rng)
    np.testing.assert_allclose(found["confusion"], expected.reshape(-1, 3))
    posterior = ConjugatePosterior(annotators.confusion)
    rows = torch.from_numpy(counts + np.full((3, 3), 4.0) + 28 * np.eye(3)).reshape(-1, 3)
    posterior.set_natural_parameters(posterior.family.natural(rows))
    summary = annotators.summary({"confusion": posterior}, 0.9)
    beta = scipy.stats.beta(expected, expected.sum(-1, keepdims=True) - expected)
    np.testing.assert_allclose(summary.mean, beta.mean())
    np.testing.assert_allclose(summary.lower, beta.ppf(0.05))
    np.testing.assert_allclose(summary.upper, beta.ppf(0.95))


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_a_share_of_the_prior_is_a_share(share):
    with pytest.raises(ValueError, match=f"prior_share is {share}, but must be above 0"):
        ConfusionMatrices(2, 3, prior_share=share)
