"""Annotators who are told which two items an answer is about."""

from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.diagnostics.answer_likelihood import answer_log_likelihoods
from pyro_crowdclust.diagnostics.draws import global_draws
from pyro_crowdclust.distributions import TwoCoinAnswer
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import NUM_CLUSTERS, NUM_FEATURES, NUM_WORKERS, crowd, fit_plain


class Eased:
    """Two-coin workers whose answers count by how easy their items are."""

    def __init__(self, workers: TwoCoin, ease: torch.Tensor) -> None:
        self.workers, self.ease, self.num_workers = workers, ease.unsqueeze(1), workers.num_workers

    def priors(self):
        return self.workers.priors()

    def answer(self, same, rates, worker):
        return TwoCoinAnswer(same, *(self.ease * rates[name][worker] for name in self.priors()))

    def log_likelihood_ratio(self, rates, worker, label):
        return self.ease[:, 0] * self.workers.log_likelihood_ratio(rates, worker, label)


class WithHardItems(TwoCoin):
    """Items of ease 0 are not heard about at all."""

    def __init__(self, num_workers: int, ease: torch.Tensor) -> None:
        super().__init__(num_workers)
        self.register_buffer("ease", ease)

    def about(self, items):
        return Eased(self, self.ease[items].prod(1))


def fitted(annotators: TwoCoin, data: CrowdData):
    model = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, NUM_FEATURES),
        Identity(),
        annotators,
    )
    return fit_plain(model, MessagePassingGuide(model), data, epochs=8)


def test_answers_about_items_that_are_too_hard_are_as_if_not_given():
    data = crowd(60)
    hard = torch.zeros(60, dtype=torch.bool)
    hard[data.annotated_items[::4]] = True
    pairs = data.pairs
    about_hard = hard[data.answers.left] | hard[data.answers.right]
    assert 0 < about_hard.sum() < len(pairs)
    told = fitted(WithHardItems(NUM_WORKERS, (~hard).double()), data)
    without = fitted(TwoCoin(NUM_WORKERS), CrowdData(data.features, pairs[~about_hard.numpy()]))
    np.testing.assert_allclose(told.probabilities, without.probabilities, atol=1e-6)
    columns = ["sensitivity", "specificity", "weight"]
    np.testing.assert_allclose(told.workers[columns], without.workers[columns], atol=1e-6)
    # Diagnostics tell them the same items.
    with told.inside():
        likelihoods = answer_log_likelihoods(
            told, global_draws(told, 3), torch.arange(data.num_pairs)
        )
    for of_end in likelihoods:
        np.testing.assert_allclose(of_end[:, about_hard], 0, atol=1e-12)
        assert (of_end[:, ~about_hard] < 0).all()


def test_a_batch_knows_whom_it_asked_about():
    data = crowd(30)
    batch = full_batch(data)
    expected = torch.stack([data.answers.left, data.answers.right], 1)
    assert torch.equal(batch.asked_items, expected)
