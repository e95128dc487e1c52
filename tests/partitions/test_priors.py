"""Priors of partitions, against sums over all partitions of a few items."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import torch

from pyro_crowdclust.partitions import (
    AskedPairs,
    Choices,
    FewClusters,
    ManySmall,
    PitmanYor,
    priors,
    sweep,
)

from .partitions import complete_pairs, every_partition
from .test_annealing import of_number

FIVE = complete_pairs(5)


@pytest.mark.parametrize(("discount", "concentration"), [(0.0, 1.0), (0.4, 0.3), (0.1, 7.0)])
def test_pitman_yor_sums_to_one(discount, concentration):
    prior = PitmanYor(discount, concentration)
    total = sum(float(prior.log_prob(z, FIVE).exp()) for z in every_partition(5))
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("prior", [FewClusters(2.0), PitmanYor(0.3, 2.0)])
def test_parts_that_no_pair_connects_have_priors_of_their_own(prior):
    """The product of those of each part, whose partitions add up to one."""
    torch.set_default_dtype(torch.float32)  # that of a user's process
    ends = torch.tensor([[0, 2], [2, 5], [1, 3]])  # parts 0 2 5 and 1 3, nobody was asked about 4
    pairs, three, two = AskedPairs.of(ends, 6), complete_pairs(3), complete_pairs(2)
    total = 0.0
    for one, other in itertools.product(every_partition(3), every_partition(2)):
        labels = torch.empty(6, dtype=torch.int64)
        # Clusters of different parts may have the same number.
        labels[[0, 2, 5]], labels[[1, 3]], labels[4] = one, other, 0
        found = prior.log_prob(labels, pairs)
        assert found == pytest.approx(
            float(prior.log_prob(one, three) + prior.log_prob(other, two)), abs=1e-12
        )
        assert found == prior.log_prob(pairs.split(labels), pairs)
        total += float(found.exp())
    assert total == pytest.approx(1, abs=1e-12 if isinstance(prior, PitmanYor) else 1e-10)


def test_clusters_of_many_parts_teach_that_each_part_has_few():
    """Thirty parts of eight items in one cluster each: few new ones, though there are thirty."""
    eight, prior = torch.combinations(torch.arange(8)), PitmanYor()
    ends = torch.cat([eight + 8 * part for part in range(30)])
    for _ in range(10):
        prior.learn(torch.arange(240) // 8, AskedPairs.of(ends, 240), Choices())
    assert float(prior.concentration) < 0.1
    assert float(prior.discount) < 0.3


@pytest.mark.parametrize(
    "prior",
    [
        FewClusters(2.0),
        PitmanYor(0.3, 2.0),
        ManySmall(-1.0),
        ManySmall(2.0, -0.5),
        ManySmall(0.5, None),
    ],
)
def test_odds_of_an_item_are_those_of_whole_partitions(prior):
    """Joining a cluster against being alone, all else the same."""
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4]]), 5)
    choices = Choices(*map(np.array, ([2, 1], [1, 1], [2], [2])))
    prior.learn(torch.tensor([0, 0, 0, 1, 2]), pairs, choices)
    together, alone = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 0, 1, 2])
    alone_beside_two = prior.log_alone(range(1, 4), 5)[1]
    log_odds = prior.log_join(5)[3] + 2 * prior.closure + prior.asked - alone_beside_two
    if not isinstance(prior, ManySmall):
        whole = prior.log_prob(together, pairs) - prior.log_prob(alone, pairs)
    else:
        whole = field_score(prior, together, pairs) - field_score(prior, alone, pairs)
    assert log_odds == pytest.approx(float(whole), abs=1e-9)


def field_score(prior, labels, pairs):
    """The exponent of the random field, cluster by cluster."""
    joins, score = prior.log_join(len(labels)), 0.0
    asked = pairs.together(labels)
    for k in labels.unique():
        size = int((labels == k).sum())
        inside = int((asked & (labels[pairs.left] == k)).sum())
        score += sum(joins[1:size]) + prior.closure * (size * (size - 1) / 2 - inside)
        score += prior.asked * inside
    return score


def test_pseudo_likelihood_is_that_of_every_item_by_hand():
    torch.set_default_dtype(torch.float32)  # that of a user's process
    prior = ManySmall(0.5, -1.5)
    prior.log_odds.copy_(torch.randn(24))
    prior.of_asked.fill_(0.4)
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]]), 5)
    labels = torch.tensor([0, 0, 1, 1, 2])
    joins, total = prior.log_join(5), 0.0
    for i in range(4):  # item 4 was compared with nobody
        near = {*pairs.neighbors[i]}
        scores, own = {-1: 0.0}, int(labels[i])
        for k in {int(labels[j]) for j in near}:
            others = [j for j in range(5) if j != i and labels[j] == k]
            unasked = sum(j not in near for j in others)
            scores[k] = joins[len(others)] + prior.closure * unasked
            scores[k] += prior.asked * (len(others) - unasked)
        total += scores[own] - math.log(sum(math.exp(s) for s in scores.values()))
    assert float(prior.log_prob(labels, pairs)) == pytest.approx(total, abs=1e-9)


def test_odds_of_joining_a_large_cluster_may_exceed_all_floats():
    """Two clusters of 2,000; an item was compared with 1,500 of its own, others with three."""
    prior, size = ManySmall(closure=None), 2000
    labels = torch.arange(2).repeat_interleave(size)
    of_one = torch.stack([torch.zeros(1500, dtype=torch.long), torch.arange(1, 1501)], 1)
    one = torch.arange(2 * size)
    rings = [torch.stack([one, one // size * size + (one + step) % size], 1) for step in (1, 7, 50)]
    pairs = AskedPairs.of(torch.cat([of_one, *rings]), 2 * size)
    degree = torch.bincount(pairs.items.flatten()).numpy()
    one_each = np.ones(2 * size, dtype=int)
    choices = Choices((size - 1) * one_each, degree, one_each, (size - 1) * one_each)
    prior.learn(labels, pairs, choices)
    assert 1500 * prior.asked > 1000
    assert prior.log_odds.isfinite().all()
    log_odds = np.array(prior.log_join(size)[size - 1])
    score = log_odds + prior.closure * (size - 1 - degree) + prior.asked * degree
    expected = -np.logaddexp(0, -score).sum()
    assert float(prior.log_prob(labels, pairs)) == pytest.approx(expected, rel=1e-9)


def test_learning_raises_what_it_maximizes():
    torch.manual_seed(0)
    labels = torch.tensor([0] * 30 + [1] * 25 + [2, 3, 3])
    pairs = complete_pairs(len(labels))
    for prior in (PitmanYor(0.8, 30.0), ManySmall()):
        before = float(prior.log_prob(labels, pairs))
        sure = torch.where(pairs.together(labels), 50.0, -50.0).double()
        for _ in range(10):
            again, choices = sweep(labels, pairs, sure, prior)
            assert torch.equal(pairs.together(again), pairs.together(labels))
            prior.learn(again, pairs, choices)
        assert float(prior.log_prob(labels, pairs)) > before + 1


def test_discount_and_concentration_are_learned_under_their_priors():
    """Beta(1, 4) and Gamma(1.1, rate 0.1): the mode, in unconstrained coordinates, as scipy's."""
    labels = torch.tensor([0] * 9 + [1] * 5 + [2, 2, 3, 3, 4, 5, 6])
    pairs, prior = complete_pairs(len(labels)), PitmanYor(0.3, 2.0)
    for _ in range(10):
        prior.learn(labels, pairs, Choices())

    def loss(point: np.ndarray) -> float:
        discount, concentration = scipy.special.expit(point[0]), np.exp(point[1])
        log_prior = scipy.stats.beta(1, 4).logpdf(discount) + np.log(discount * (1 - discount))
        log_prior += scipy.stats.gamma(1.1, scale=10).logpdf(concentration) + point[1]
        there = PitmanYor(float(discount), float(concentration))
        return -float(there.log_prob(labels, pairs)) - log_prior

    best = scipy.optimize.minimize(loss, [0.0, 0.0], method="Nelder-Mead", tol=1e-9).x
    learned = [float(prior.discount.logit()), float(prior.concentration.log())]
    assert learned == pytest.approx(best.tolist(), abs=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("concentration", [0.5, 1.0, 3.0])
def test_numbers_of_few_clusters_are_summed_out(concentration):
    """``sum_K p(K) p(z | K)``; all partitions add up to one."""
    prior, total = FewClusters(concentration), 0.0
    numbers = np.arange(1, 1006)
    share = 1 / (numbers * (numbers + 1))
    for labels in every_partition(5):
        used = numbers >= int(labels.max()) + 1
        given = [of_number(labels, number, concentration) for number in numbers[used]]
        expected = np.exp(given) @ share[used] / share.sum()
        found = float(prior.log_prob(labels, FIVE).exp())
        assert found == pytest.approx(expected, rel=1e-10)
        total += found
    assert total == pytest.approx(1, abs=1e-10)


def test_ranges_of_sizes_grow_as_written():
    written = [[1], [2], [3], [4, 5], [6, 7], range(8, 12), range(12, 16), range(16, 23)]
    for number, sizes in enumerate(written):
        assert set(ManySmall()._range(torch.tensor([*sizes])).tolist()) == {number}
    assert ManySmall()._range(torch.tensor([23, 10**6])).tolist() == [8, 23]


@pytest.mark.parametrize("closure", [0.0, -0.4])
def test_odds_are_learned_under_their_smoothness(closure):
    """The slope of ``sum_i log p(z_i | rest)`` less its penalties is zero where it was learned.

    Of a cluster of n items the item was compared with the first (n + 1) / 2.
    """
    generator = torch.Generator().manual_seed(0)
    sizes = [
        torch.randint(1, 12, (n,), generator=generator).tolist() for n in (1, 2, 3, 4, 2, 1, 3)
    ]
    chosen = [sizes[0][0], sizes[1][1], 0, sizes[3][2], 0, sizes[5][0], sizes[6][1]]
    number = [len(of_item) for of_item in sizes]
    offered = np.array([*itertools.chain(*sizes)])
    choices = Choices(offered, (offered + 1) // 2, *map(np.array, (number, chosen)))
    prior = ManySmall(-1.5, closure)
    prior.learn(torch.arange(3), complete_pairs(3), choices)
    odds = prior.log_odds.clone().requires_grad_()

    def of_size(size: int) -> torch.Tensor:
        return odds[int(prior._range(torch.tensor(size)))] + closure * (size // 2)

    total = -odds.diff().square().sum() / 4 - (odds + 1.5).square().sum() / 20
    for own, joined in zip(sizes, chosen, strict=True):
        offered = torch.stack([torch.zeros(()), *(of_size(size) for size in own)])
        total = total + (of_size(joined) if joined else 0.0) - offered.logsumexp(0)
    (slope,) = torch.autograd.grad(total, odds)
    torch.testing.assert_close(slope, torch.zeros(24), atol=1e-6, rtol=0.0)
    assert odds.std() > 0.1


@pytest.mark.parametrize(("same", "expected"), [(0.2, math.log(0.25)), (0.0, -1.5)])
def test_odds_start_at_those_of_an_asked_pair(same, expected, monkeypatch):
    monkeypatch.setattr(priors, "settled", lambda *arguments: "settled")
    prior = ManySmall(-1.5)
    prior.log_odds.zero_()
    assert prior.start(SimpleNamespace(same=same), FIVE, torch.Generator()) == ["settled"]
    torch.testing.assert_close(prior.log_odds, torch.full((24,), expected))


@pytest.mark.parametrize(("discount", "concentration"), [(1.0, 1.0), (-0.1, 1.0), (0.2, 0.0)])
def test_bad_parameters_are_named(discount, concentration):
    with pytest.raises(ValueError, match="discount is"):
        PitmanYor(discount, concentration)


def test_few_clusters_need_a_concentration():
    with pytest.raises(ValueError, match="concentration is 0"):
        FewClusters(0)


def asked_at(rate_same: float, rate_others: float, labels: torch.Tensor) -> AskedPairs:
    """Pairs that were asked about with these probabilities, but chains that hold clusters."""
    left, right = torch.triu_indices(len(labels), len(labels), 1)
    same = labels[left] == labels[right]
    asked = torch.rand(len(left)) < torch.where(same, rate_same, rate_others)
    asked |= same & (right == left + 1)
    return AskedPairs.of(torch.stack([left, right], 1)[asked], len(labels))


@pytest.mark.parametrize(("rate_same", "rate_others"), [(0.6, 0.02), (0.9, 0.3), (0.3, 0.3)])
def test_what_an_unasked_pair_says_is_learned(rate_same, rate_others):
    labels = torch.arange(6).repeat_interleave(30)
    prior = ManySmall(closure=None)
    assert prior.closure == 0
    prior.learn(labels, asked_at(rate_same, rate_others, labels), Choices())
    expected = math.log((1 - rate_same) / (1 - rate_others))
    assert prior.closure == pytest.approx(expected, abs=0.1)
    # A cluster in which as many pairs were asked about as in others says nothing.
    assert prior.asked * rate_same + prior.closure * (1 - rate_same) == pytest.approx(0, abs=0.03)
    fixed = ManySmall()
    fixed.learn(labels, FIVE, Choices())
    assert (fixed.closure, fixed.asked) == (-12, 0)


def test_an_unasked_pair_that_no_chain_connects_says_nothing():
    """In thirty parts all pairs were asked about with the same probability."""
    generator = torch.Generator().manual_seed(0)
    of_part = torch.combinations(torch.arange(12))
    ends = torch.cat([of_part + 12 * part for part in range(30)])
    ends = ends[torch.rand(len(ends), generator=generator) < 0.6]
    prior = ManySmall(closure=None)
    prior.learn(torch.arange(360) // 4, AskedPairs.of(ends, 360), Choices())
    assert prior.closure == pytest.approx(0, abs=0.1)


def test_pairs_without_a_third_say_nothing_of_unasked_ones():
    """As if two more were known, of which .95 were asked about."""
    prior, labels = ManySmall(closure=None), torch.tensor([0, 0, 1, 1, 2])
    prior.learn(labels, asked_at(0.0, 0.0, labels), Choices())
    assert prior.closure == pytest.approx(math.log(0.05), abs=1e-12)


def test_clusters_that_nothing_holds_together_any_more_say_nothing():
    """More pairs than are needed to hold a cluster together were not asked about."""
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3]]), 4)
    prior = ManySmall(closure=None)
    prior.learn(torch.tensor([0, 1, 0, 1]), pairs, Choices())
    assert (prior.closure, prior.asked) == (0, 0)
