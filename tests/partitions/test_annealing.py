"""Annealed chains: their evidence against a sum over all assignments, and what they find."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import gammaln

from pyro_crowdclust.metrics import adjusted_rand_index
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.partitions.annealing import anneal
from pyro_crowdclust.simulation import simulate_pairs

from .partitions import complete_pairs, every_partition

FIVE = complete_pairs(5)


def of_number(labels: torch.Tensor, number: int, concentration: float = 1.0) -> float:
    """``log p(z | K)`` of a partition: K! / (K - T)! assignments of labelled clusters."""
    sizes, a = np.bincount(labels), concentration
    log_prob = gammaln(number + 1) - gammaln(number - len(sizes) + 1)
    log_prob += gammaln(number * a) - gammaln(number * a + sizes.sum())
    return float(log_prob + (gammaln(a + sizes) - gammaln(a)).sum())


def test_evidence_is_the_sum_over_all_assignments():
    evidence = 2 * torch.randn(
        FIVE.num_pairs, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    total = torch.logsumexp(
        torch.stack(
            [
                of_number(z, 3) + (evidence * FIVE.together(z)).sum()
                for z in every_partition(5)
                if int(z.max()) < 3
            ]
        ),
        0,
    )
    chains = 60
    found = anneal(
        evidence.repeat(chains, 1),
        FIVE,
        torch.full((chains,), 3),
        1.0,
        torch.Generator().manual_seed(1),
    )
    error = float(found.log_evidence.std()) / chains**0.5
    assert float(found.log_evidence.mean()) == pytest.approx(float(total), abs=4 * error)
    assert error < 0.1
    # The last sweeps are draws of the posterior.
    exact = sum(
        FIVE.together(torch.tensor(z)).double()
        * np.exp(float((evidence * FIVE.together(torch.tensor(z))).sum()) - float(total))
        * assignment_prior(z)
        for z in product(range(3), repeat=5)
    )
    np.testing.assert_allclose(found.together.mean(0), exact, atol=0.15)


def assignment_prior(z: tuple[int, ...]) -> float:
    """Of labelled clusters under a = 1: the partition's over the assignments that it is."""
    labels = torch.unique(torch.tensor(z), return_inverse=True)[1]
    used = int(labels.max()) + 1
    orders = np.prod(np.arange(3, 3 - used, -1))
    return float(np.exp(of_number(labels, 3))) / orders


def test_the_evidence_of_one_cluster_is_exact():
    evidence = torch.tensor([[1.0, -3.0, 0.5]] * 2, dtype=torch.float64)
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3]]), 4)
    found = anneal(evidence, pairs, torch.tensor([1, 1]), 1.0, torch.Generator())
    torch.testing.assert_close(found.log_evidence, evidence.sum(1))


def test_finds_what_few_answers_tell():
    truth = np.arange(60) % 4
    rates = [0.85] * 5
    answers = simulate_pairs(truth, rates, rates, pairs_per_worker=120, seed=0)
    pairs = AskedPairs.of(torch.tensor(answers[["left", "right"]].to_numpy()), 60)
    sure = np.log(0.85 / 0.15) * (2 * answers["label"].to_numpy() - 1.0)
    numbers = torch.tensor([1, 2, 3, 4, 8])
    found = anneal(
        pairs.total(torch.tensor(sure)).repeat(5, 1),
        pairs,
        numbers,
        1.0,
        torch.Generator().manual_seed(0),
    )
    assert int(numbers[found.log_evidence.argmax()]) >= 4
    assert adjusted_rand_index(truth, found.labels[3].numpy()) > 0.8
    assert found.labels.max(1).values.tolist()[:2] == [0, 1]


def test_what_answers_leave_no_doubt_of_is_so_in_all_of_the_last_sweeps():
    truth = torch.tensor([0, 0, 1, 1, 1])
    evidence = torch.where(FIVE.together(truth), 50.0, -50.0).repeat(4, 1)
    numbers, generator = torch.full((4,), 3), torch.Generator().manual_seed(0)
    found = anneal(evidence, FIVE, numbers, 1.0, generator)
    expected = FIVE.together(truth).double().expand(4, -1)
    torch.testing.assert_close(found.together, expected)
