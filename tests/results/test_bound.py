"""One number for a bound, whether or not it depends on random numbers."""

from __future__ import annotations

import dataclasses
from statistics import fmean, stdev

import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.restarts import fit_restarts
from pyro_crowdclust.results.bound import bound_of, num_draws

from ..crowds import plain_pair, quiet_fit
from ..plain_mixtures import adam, mixture, normal_guide, two_clouds


class Counted:
    """A bound that counts its evaluations."""

    def __init__(self, evaluate) -> None:
        self.evaluate, self.count = evaluate, 0

    def loss(self, model, guide, batch):
        self.count += 1
        return self.evaluate()


def ignores_random_numbers():
    torch.randn(())
    return 2.0


@pytest.mark.parametrize(
    ("evaluate", "count"),
    [(lambda: 2.0, 1), (ignores_random_numbers, 2), (lambda: float(torch.randn(())), 64)],
)
def test_evaluations_are_as_many_as_random_numbers_require(evaluate, count):
    objective = Counted(evaluate)
    torch.manual_seed(0)
    found = bound_of(objective, None, None, full_batch(CrowdData(torch.zeros(9, 2))), None)
    assert objective.count == count
    torch.manual_seed(0)
    assert found == pytest.approx(-fmean(evaluate() for _ in range(count)))


def test_large_batches_have_fewer_draws():
    batch = full_batch(CrowdData(torch.zeros(10, 1)))
    counts = [
        num_draws(dataclasses.replace(batch, features=torch.zeros(1).expand(10, width)))
        for width in (1, 50_000, 3_000_000)
    ]
    assert counts == [64, 39, 4]


@pytest.mark.long
def test_all_reports_of_a_random_bound_have_one_number():
    guide = normal_guide(mixture, "z")
    options = {"epochs": 10, "optim": adam, "progress": False, "dtype": torch.float64}
    data = CrowdData(two_clouds(30).features)
    results = fit_restarts(mixture, guide, data, seeds=[0, 1], **options)
    for result in results:
        batch = full_batch(data).to(None, torch.float64)
        with result.inside(seed=5):
            draws = [
                -float(result.elbo_objective.loss(result.model, result.guide, batch))
                for _ in range(40)
            ]
        assert abs(result.elbo - fmean(draws)) < 5 * stdev(draws) * (1 / 64 + 1 / 40) ** 0.5
        assert f"ELBO {result.elbo:,.1f} nats in " in repr(result)
    tree = to_arviz(results, 2, log_likelihood=False)
    assert tree.attrs["elbo"] == [result.elbo for result in results]


def test_an_exact_bound_is_one_evaluation():
    result = quiet_fit(*plain_pair(), CrowdData(two_clouds(30).features.repeat(1, 4)))
    batch, (model, guide) = full_batch(result.data), (result.model, result.guide)
    objective = Counted(lambda: result.elbo_objective.loss(model, guide, batch))
    with result.inside():
        found = bound_of(objective, model, guide, batch, None)
    assert (found, objective.count) == (result.elbo, 1)
