"""Priors of partitions, against sums over all partitions of a few items."""

from __future__ import annotations

import math

import pytest
import torch

from pyro_crowdclust.partitions import AskedPairs, Choices, FewClusters, ManySmall, PitmanYor, sweep

from .partitions import complete_pairs, every_partition

FIVE = complete_pairs(5)


@pytest.mark.parametrize(("discount", "concentration"), [(0.0, 1.0), (0.4, 0.3), (0.1, 7.0)])
def test_pitman_yor_sums_to_one(discount, concentration):
    prior = PitmanYor(discount, concentration)
    total = sum(float(prior.log_prob(z, FIVE).exp()) for z in every_partition(5))
    assert total == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    "prior", [FewClusters(9, 2.0), PitmanYor(0.3, 2.0), ManySmall(-1.0), ManySmall(2.0, -0.5)]
)
def test_odds_of_an_item_are_those_of_whole_partitions(prior):
    """Joining a cluster against being alone, all else the same."""
    prior.learn(torch.tensor([3.0, 1.0, 1.0]).double(), Choices([[2, 1]], [2]))
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4]]), 5)
    together, alone = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 0, 0, 1, 2])
    log_odds = prior.log_join(5)[3] + 2 * prior.closure - prior.log_alone(2)
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
    return score


def test_pseudo_likelihood_is_that_of_every_item_by_hand():
    prior = ManySmall(0.5, -1.5)
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]]), 5)
    labels = torch.tensor([0, 0, 1, 1, 2])
    joins, total = prior.log_join(5), 0.0
    for i in range(4):  # item 4 was compared with nobody
        near = {*pairs.neighbors[i]}
        scores, own = {-1: 0.0}, int(labels[i])
        for k in {int(labels[j]) for j in near}:
            others = [j for j in range(5) if j != i and labels[j] == k]
            unasked = sum(j not in near for j in others)
            scores[k] = joins[len(others)] + prior.closure * unasked
        total += scores[own] - math.log(sum(math.exp(s) for s in scores.values()))
    assert float(prior.log_prob(labels, pairs)) == pytest.approx(total, abs=1e-9)


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
            prior.learn(pairs.sizes(again), choices)
        assert float(prior.log_prob(labels, pairs)) > before + 1


@pytest.mark.parametrize(("discount", "concentration"), [(1.0, 1.0), (-0.1, 1.0), (0.2, 0.0)])
def test_bad_parameters_are_named(discount, concentration):
    with pytest.raises(ValueError, match="discount is"):
        PitmanYor(discount, concentration)
