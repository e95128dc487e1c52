"""Gibbs sweeps against the exact posterior of all partitions of a few items."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions import (
    AskedPairs,
    Choices,
    FewClusters,
    ManySmall,
    PitmanYor,
    sweep,
    sweep_chains,
    sweeps,
)

from .partitions import complete_pairs, every_partition
from .test_priors import field_score

COMPLETE = complete_pairs(4)
CHAIN = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [2, 3]]), num_items=4)
PARTS = AskedPairs.of(torch.tensor([[0, 2], [1, 3]]), num_items=4)
# What answers say for "same", of as many of these as there are pairs.
WEIGHTS = torch.tensor([1.5, -1.0, 0.3, 0.8, -0.4, 0.0], dtype=torch.float64)


@pytest.mark.long
@pytest.mark.parametrize(
    ("prior", "pairs"),
    [
        (PitmanYor(0.2, 1.5), COMPLETE),
        (PitmanYor(0.2, 1.5), CHAIN),
        (FewClusters(0.7), COMPLETE),
        (FewClusters(0.7), CHAIN),
        (ManySmall(-0.5, -1.0), COMPLETE),
        (ManySmall(-0.5, None), COMPLETE),
    ],
)
def test_draws_have_the_exact_probabilities(prior, pairs):
    if isinstance(prior, ManySmall):
        prior.learn(torch.tensor([0, 0, 1, 1]), CHAIN, Choices())
    weights = WEIGHTS[: pairs.num_pairs]
    score = (
        (lambda labels, pairs: field_score(prior, labels, pairs))
        if isinstance(prior, ManySmall)
        else prior.log_prob
    )
    known = {}
    for labels in every_partition(4):
        log_joint = score(labels, pairs) + weights[pairs.together(labels)].sum()
        known[tuple(COMPLETE.together(labels).tolist())] = float(log_joint)
    exact = np.exp(np.array([*known.values()]))
    exact /= exact.sum()
    labels, counts = torch.arange(4), dict.fromkeys(known, 0)
    sweeps = 2500
    for _ in range(sweeps):
        labels, _ = sweep(labels, pairs, weights, prior)
        counts[tuple(COMPLETE.together(labels).tolist())] += 1
    found = np.array([*counts.values()]) / sweeps
    assert np.abs(found - exact).max() < 0.03
    assert exact.max() < 0.75  # else there would be little to find out


@pytest.mark.parametrize("prior", [PitmanYor(), FewClusters(), ManySmall(2.0, 1.0)])
def test_items_that_no_chain_of_pairs_connects_stay_apart(prior):
    pairs = AskedPairs.of(torch.tensor([[0, 1], [1, 2], [3, 4]]), num_items=7)
    weights = torch.full((3,), 3.0, dtype=torch.float64)
    labels = torch.zeros(7, dtype=torch.int64)
    for _ in range(20):
        labels, choices = sweep(labels, pairs, weights, prior)
        assert not set(labels[:3].tolist()) & set(labels[3:].tolist())
        assert (labels == labels[5]).sum() == (labels == labels[6]).sum() == 1
        assert len(choices.number) == len(choices.chosen) == 5
        assert len(choices.sizes) == choices.number.sum()


def test_choices_say_with_how_many_of_every_cluster_an_item_was_compared():
    ends = torch.tensor([[0, 1], [1, 2], [2, 3], [3, 4], [0, 4], [1, 4]])
    pairs, labels = AskedPairs.of(ends, 6), [0, 0, 0, 1, 1, 1]
    together = pairs.together(torch.tensor(labels))
    held = torch.where(together, 99.0, -99.0).double()
    drawn, choices = sweep(torch.tensor(labels), pairs, held, ManySmall(0.0, 0.0))
    assert torch.equal(pairs.together(drawn), together)
    expected = []
    for item in range(5):  # nobody was asked about the last one, which is in no cluster
        others = [b if a == item else a for a, b in ends.tolist() if item in (a, b)]
        for cluster in {labels[other] for other in others}:
            size = sum(labels[other] == cluster for other in range(5) if other != item)
            expected.append((size, sum(labels[other] == cluster for other in others)))
    found = zip(choices.sizes.tolist(), choices.compared.tolist(), strict=True)
    assert sorted(found) == sorted(expected)


def test_many_small_clusters_are_not_joined_by_items_they_were_not_compared_with():
    weights = torch.tensor([3.0, -20.0, 3.0], dtype=torch.float64)
    for prior, expected in ((ManySmall(2.0, 1.0), False), (PitmanYor(), True)):
        labels, met = torch.arange(4), False
        for _ in range(20):
            labels, _ = sweep(labels, CHAIN, weights, prior)
            met = met or bool(labels[0] == labels[3])
        assert met == expected


def test_costs_do_not_grow_with_the_number_of_clusters():
    """Choices are offered by the graph: with pairs only, one each, whatever the number of items."""
    items = torch.arange(20_000).reshape(-1, 2)
    pairs = AskedPairs.of(items, num_items=20_000)
    weights = torch.zeros(len(items), dtype=torch.float64)
    labels, choices = sweep(torch.arange(20_000), pairs, weights, ManySmall())
    assert choices.number.max() == 1
    assert len(labels.unique()) < 20_000


@pytest.mark.long
@pytest.mark.parametrize("window", [1, 16])
@pytest.mark.parametrize("prior", [PitmanYor(0.2, 1.5), FewClusters(0.7)])
@pytest.mark.parametrize("pairs", [COMPLETE, CHAIN, PARTS])
def test_draws_of_every_chain_have_the_exact_probabilities(prior, pairs, window, monkeypatch):
    """Two kinds of chains, of which one uses half; and however far the odds are known ahead."""
    torch.manual_seed(0)
    monkeypatch.setattr(sweeps, "_WINDOW", window)
    weights = torch.tensor([[1.0], [0.5]], dtype=torch.float64) * WEIGHTS[: pairs.num_pairs]
    every = [
        labels
        for labels in every_partition(4)
        if len(pairs.split(labels).unique()) == len(labels.unique())
    ]
    exact = torch.tensor([float(prior.log_prob(labels, pairs)) for labels in every])
    together = torch.stack([pairs.together(labels) for labels in every]).double()
    exact = (exact + weights @ together.mT).softmax(1)
    place = {tuple(labels.tolist()): number for number, labels in enumerate(every)}
    labels, counts = torch.zeros(120, 4, dtype=torch.int64), np.zeros(exact.shape)
    for turn in range(60):
        labels, _ = sweep_chains(labels, pairs, weights.repeat(60, 1), prior)
        for chain, one in enumerate(labels.tolist() if turn >= 10 else []):
            counts[chain % 2, place[tuple(map(list(dict.fromkeys(one)).index, one))]] += 1
    np.testing.assert_allclose(counts / counts.sum(1, keepdims=True), exact, atol=0.03)


@pytest.mark.parametrize("prior", [PitmanYor(), FewClusters()])
def test_what_is_drawn_of_a_part_does_not_depend_on_how_many_others_there_are(prior):
    """Of 200 parts, each as likely in one cluster as a part alone is in 200 chains."""
    ends, parts = complete_pairs(6).items, 200
    many = AskedPairs.of(torch.cat([ends + 6 * part for part in range(parts)]), 6 * parts)
    weights = torch.full((many.num_pairs,), 0.2, dtype=torch.float64)
    shares = []
    for pairs, chains in ((many, 1), (complete_pairs(6), parts)):
        labels, together = torch.zeros(chains, pairs.num_items, dtype=torch.int64), []
        for _ in range(20):
            evidence = weights[: pairs.num_pairs].repeat(chains, 1)
            labels, _ = sweep_chains(labels, pairs, evidence, prior)
            together.append(pairs.together(labels).double().mean())
        shares.append(float(torch.stack(together[5:]).mean()))
    assert shares[0] == pytest.approx(shares[1], abs=0.04)
    assert 0.2 < shares[1] < 0.97


@pytest.mark.parametrize("prior", [PitmanYor(), FewClusters(), ManySmall()])
def test_from_one_cluster_to_as_many_as_there_are_items_and_back(prior):
    pairs, labels = complete_pairs(40), torch.zeros(2, 40, dtype=torch.int64)
    apart = torch.full((2, pairs.num_pairs), -50.0, dtype=torch.float64)
    labels, choices = sweep_chains(labels, pairs, apart, prior)
    assert [sorted(one) for one in labels.tolist()] == [list(range(40))] * 2
    assert not choices.chosen.any()
    for _ in range(4):
        labels, choices = sweep_chains(labels, pairs, -apart, prior)
    assert (labels == 0).all()
    assert choices.chosen.tolist() == choices.sizes.tolist() == [39] * 40
