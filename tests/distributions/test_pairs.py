"""Answers about pairs, and whether the ends share a cluster."""

from __future__ import annotations

import itertools
import math

import pyro
import pytest
import scipy.stats
import torch
from pyro import poutine
from pyro.infer.inspect import get_model_relations

from pyro_crowdclust.distributions import (
    Assignment,
    SameCluster,
    TwoCoinAnswer,
)
from pyro_crowdclust.distributions import pairs as pair_distributions

from ..comparisons import same
from .expectations import worker_rates


def test_two_coin_answer_of_real_values():
    alpha, beta = 0.8, 0.65
    for same_cluster, label in itertools.product([0.0, 1.0], [0.0, 1.0]):
        answer = TwoCoinAnswer(
            torch.tensor([same_cluster]), worker_rates(alpha), worker_rates(beta)
        )
        yes = alpha if same_cluster else 1 - beta
        expected = scipy.stats.bernoulli.logpmf(int(label), yes)
        assert answer.log_prob(torch.tensor([label])).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_two_coin_answer_at_means_is_the_expectation(label):
    """Over both ends' clusters and over possible rates, all independent."""
    left, right = torch.randn(2, 3).softmax(-1)
    alphas, betas = {0.9: 0.25, 0.6: 0.75}, {0.8: 0.5, 0.3: 0.5}
    expected = 0.0
    for i, j in itertools.product(range(3), repeat=2):
        for (alpha, p), (beta, r) in itertools.product(alphas.items(), betas.items()):
            yes = alpha if i == j else 1 - beta
            weight = left[i] * right[j] * p * r
            expected += weight.item() * scipy.stats.bernoulli.logpmf(int(label), yes)
    sensitivity = sum(p * worker_rates(alpha) for alpha, p in alphas.items())
    specificity = sum(p * worker_rates(beta) for beta, p in betas.items())
    answer = TwoCoinAnswer((left @ right)[None], sensitivity, specificity)
    assert answer.log_prob(torch.tensor([label])).item() == pytest.approx(expected, abs=1e-12)


def test_two_coin_answers_are_drawn_with_their_rates():
    together = (torch.arange(20_000) % 2).double()
    answer = TwoCoinAnswer(
        together, worker_rates(0.85).expand(20_000, 2), worker_rates(0.7).expand(20_000, 2)
    )
    label = answer.rsample()
    error = math.sqrt(0.25 / 10_000)
    assert abs(label[1::2].mean().item() - 0.85) < 6 * error
    assert abs(label[::2].mean().item() - 0.3) < 6 * error


@pytest.mark.parametrize("matrix_limit", [0, 1024])
def test_same_cluster_is_the_agreement_of_both_ends(matrix_limit, monkeypatch):
    monkeypatch.setattr(pair_distributions, "_MATRIX_LIMIT", matrix_limit)
    q = torch.randn(5, 3).softmax(-1).requires_grad_()
    left, right = torch.tensor([0, 3, 3, 1, 0]), torch.tensor([2, 0, 1, 3, 2])
    pairs = SameCluster(q, left, right, 4)
    value = pairs.rsample()
    expected = torch.stack([q[i] @ q[j] for i, j in zip(left, right, strict=True)])
    same(value, expected)
    slope = torch.randn(5)
    ours, theirs = (
        torch.autograd.grad((slope * agreement).sum(), q)[0] for agreement in (value, expected)
    )
    same(ours, theirs)
    # The item plate has counted z already.
    same(pairs.log_prob(value), torch.zeros(5))


def test_same_cluster_of_real_assignments():
    z = torch.eye(3)[torch.tensor([0, 1, 1, 2])]
    pairs = SameCluster(z, torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), 4)
    assert pairs.rsample().tolist() == [0.0, 1.0, 0.0]
    codes = SameCluster(z.argmax(-1), torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), 4)
    assert codes.rsample().tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("is_code", [False, True])
def test_a_graph_of_pyro_shows_what_same_cluster_depends_on(is_code):
    ends = torch.tensor([0, 1]), torch.tensor([1, 2])
    identity = torch.eye(3).double()

    def model() -> None:
        owners = pyro.sample("owners", pyro.distributions.Normal(identity, 1.0).to_event(2))
        with pyro.plate("items", 4):
            z = pyro.sample("z", pyro.distributions.Categorical(torch.ones(3)))
        z = z if is_code else identity[z]
        with pyro.plate("pairs", 2):
            pyro.sample("same", SameCluster(z, *ends, 4, None if is_code else owners))

    found = get_model_relations(model)["sample_sample"]["same"]
    assert found == (["z"] if is_code else ["owners", "z"])


def test_same_cluster_refuses_an_enumerated_assignment():
    """All items share one enumeration dimension, so z[i] == z[j] would always be true."""

    def model() -> None:
        with pyro.plate("items", 4, dim=-1):
            z = pyro.sample("z", Assignment(torch.zeros(4, 3)), infer={"enumerate": "parallel"})
        with pyro.plate("pairs", 2, dim=-1):
            pyro.sample("same", SameCluster(z, torch.tensor([0, 1]), torch.tensor([1, 2]), 4))

    poutine.trace(model).get_trace()
    with pytest.raises(ValueError, match="z is enumerated.*must sample the site 'same'"):
        poutine.trace(poutine.enum(model, first_available_dim=-2)).get_trace()


def test_where_the_guard_against_no_pairs_is_missing_the_error_names_it():
    none = torch.empty(0, dtype=torch.int64)
    enumerated = torch.eye(3).unsqueeze(1)
    with pytest.raises(ValueError, match=r"no answers: .* write 'if batch.num_pairs:' before"):
        SameCluster(enumerated, none, none, 0).sample()
