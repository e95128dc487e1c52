"""Replicas with powers of the likelihood: against sums over all partitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.inference import replicas as of_replicas
from pyro_crowdclust.inference.pair_evidence import PairEvidence
from pyro_crowdclust.inference.replicas import Replicas, run_replicas
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, LikenessRegression

from ..partitions.partitions import complete_pairs, every_partition

# What two workers said of each pair; their rates and those of the looks are known.
SAID = {(0, 1): [1, 1], (0, 2): [1], (0, 3): [0, 0], (1, 2): [0], (1, 3): [0, 0], (2, 3): [1, 1]}
SENSITIVITY, SPECIFICITY, CLEAR, SURE = 0.9, 0.8, 0.95, 1e7
POWERS, ROUNDS = (0.2, 1.0), 500


# How alike the items of all pairs but the last are; nobody was asked about the second.
ALIKE = {(0, 1): -2.0, (0, 2): 2.0, (0, 3): 1.0, (1, 2): 2.5, (1, 3): -0.5}
NOT_ASKED = (0, 2)


def answers_of(said: dict[tuple[int, int], list[int]]) -> pd.DataFrame:
    rows = [(*ends, worker, one) for ends, all_ in said.items() for worker, one in enumerate(all_)]
    return pd.DataFrame(rows, columns=["left", "right", "worker", "label"])


def evidence() -> PairEvidence:
    data = CrowdData(None, answers_of(SAID), item_ids=range(4))
    rates = [(SURE * rate, SURE * (1 - rate)) for rate in (SENSITIVITY, SPECIFICITY)]
    model = AnsweredPartition(TwoCoin(2, *rates), FewClusters())
    looks = SURE * torch.tensor([[CLEAR, 1 - CLEAR], [1 - CLEAR, CLEAR]], dtype=torch.float64)
    model.looks.set_natural_parameters(looks)
    return PairEvidence(model, PartitionGuide(model, 4).posteriors, full_batch(data))


def together_by_sums(
    power: float,
    said_of: dict[tuple[int, int], list[int]] = SAID,
    alike: dict[tuple[int, int], float] | None = None,
) -> np.ndarray:
    """Probabilities that the items of the pairs are one cluster, over all 15 partitions."""
    pairs, prior, total, found = complete_pairs(4), FewClusters(), 0.0, np.zeros(6)
    alike = {} if alike is None else alike
    for labels in every_partition(4):
        likely, together = float(prior.log_prob(labels, pairs).exp()), pairs.together(labels)
        for (ends, said), is_one in zip(said_of.items(), together, strict=True):
            yes, no = sum(said), len(said) - sum(said)
            looks_same = SENSITIVITY**yes * (1 - SENSITIVITY) ** no
            looks_other = (1 - SPECIFICITY) ** yes * SPECIFICITY**no
            share = CLEAR if is_one else 1 - CLEAR
            looks_same *= np.exp(alike.get(ends, 0.0))
            likely *= share * looks_same**power + (1 - share) * looks_other**power
        total, found = total + likely, found + likely * together.numpy()
    return found / total


def shares_together(heard: PairEvidence, rounds: int = ROUNDS) -> np.ndarray:
    """How often items are one cluster in two chains of two replicas each."""
    torch.manual_seed(0)
    given = {
        name: prior.natural_parameters.expand(4, -1, -1)
        for name, prior in heard.model.priors().items()
    }
    labels = torch.arange(4).repeat(4, 1)
    replicas, found = Replicas(labels, torch.zeros_like(labels), given), np.zeros((4, 6))
    for turn in range(rounds):
        replicas, _ = run_replicas(replicas, POWERS, heard, turn % 2)
        found += heard.pairs.together(replicas.labels).numpy() / rounds
    return found.reshape(2, 2, 6)


@pytest.mark.long
def test_every_replica_has_the_distribution_of_its_power():
    expected = np.stack([together_by_sums(power) for power in POWERS])
    assert np.abs(expected[0] - expected[1]).max() > 0.2
    np.testing.assert_allclose(shares_together(evidence()), [expected, expected], atol=0.07)


def evidence_and_likeness() -> PairEvidence:
    """The same and how alike items are, which is all that is known of one pair."""
    heard = evidence()
    asked = [ends != NOT_ASKED for ends, all_ in SAID.items() for _ in all_]
    frame = pd.DataFrame([[*ends, value] for ends, value in ALIKE.items()])
    alike = frame.set_axis(["left", "right", "value"], axis=1)
    data = CrowdData(None, answers_of(SAID)[asked], item_ids=range(4), likeness=alike)
    heard.model.likeness = LikenessRegression(1)
    heard.model.likeness.coefficients.fill_(1.0)
    return PairEvidence(heard.model, heard.posteriors, full_batch(data))


@pytest.mark.long
def test_draws_use_how_alike_items_are():
    """Against sums over all partitions, likelier by exp g where a pair looks the same."""
    found = shares_together(evidence_and_likeness(), 2 * ROUNDS)
    said = SAID | {NOT_ASKED: []}
    expected = np.stack([together_by_sums(power, said, ALIKE) for power in POWERS])
    assert np.abs(expected[1] - together_by_sums(1.0, said)).max() > 0.2
    np.testing.assert_allclose(found, [expected, expected], atol=0.08)


LABELS = ([0, 0, 1, 1], [0, 1, 2, 2], [0, 0, 0, 1])


def states_of(states: list[tuple[list[int], float]], heard: PairEvidence) -> of_replicas._States:
    """Replicas, workers and looks of each of which are all right so often."""
    labels = torch.tensor([labels for labels, _ in states])
    right = torch.tensor([rate for _, rate in states], dtype=torch.float64)
    log = torch.stack([right, 1 - right], 1).log()
    rates = {name: log.unsqueeze(1).expand(-1, 2, -1) for name in ("sensitivity", "specificity")}
    rows = torch.stack([log, log.flip(1)], 1)
    hard = torch.zeros_like(labels)
    relation = heard.model.relations(labels, hard, heard.pairs)
    log_shares = torch.stack([of_each[row] for of_each, row in zip(rows, relation, strict=True)])
    likely = heard.log_likelihoods(rates)
    return of_replicas._States(labels, hard, rates, relation, log_shares, likely)


def of_pair(state: tuple[list[int], float], pair: int, power: float) -> list[float]:
    """``s_y p(answers | y)^b`` of both looks, if workers and looks are right so often."""
    ends, said = list(SAID.items())[pair]
    yes, no = sum(said), len(said) - sum(said)
    labels, rate = state
    shares = [1 - rate, rate] if labels[ends[0]] == labels[ends[1]] else [rate, 1 - rate]
    likely = [(1 - rate) ** yes * rate**no, rate**yes * (1 - rate) ** no]
    return [share * one**power for share, one in zip(shares, likely, strict=True)]


def log_answers(state: tuple[list[int], float], power: float) -> float:
    return sum(np.log(sum(of_pair(state, pair, power))) for pair in range(len(SAID)))


@pytest.mark.parametrize(("first", "place"), [(0, 0), (1, 1)])
@pytest.mark.parametrize("better", [False, True])
def test_neighbours_exchange_as_often_as_their_answers_say(monkeypatch, first, place, better):
    """Chance is put just below and just above the ratio of the densities."""
    heard, powers = evidence(), [0.1, 0.4, 1.0]
    states = list(zip(LABELS, (0.7, 0.8, 0.75), strict=True))
    (low, high), (own, other) = powers[place : place + 2], states[place : place + 2]
    before = log_answers(own, low) + log_answers(other, high)
    log_ratio = log_answers(other, low) + log_answers(own, high) - before
    if (log_ratio > 0) != better:
        states[place], states[place + 1], log_ratio = other, own, -log_ratio
    changed = [0, 1, 2]
    changed[place], changed[place + 1] = place + 1, place
    stacked, of_each = states_of(states, heard), torch.tensor(powers, dtype=torch.float64)
    for chance in (0.999, 0.999 * np.exp(min(log_ratio, 0.0)), 1.001 * np.exp(log_ratio)):
        if chance < 1:
            drawn = torch.tensor([chance], dtype=torch.float64)
            monkeypatch.setattr(torch, "rand", lambda *_, drawn=drawn: drawn)
            found = of_replicas._exchanged(stacked, of_each, first, 3)
            assert found.tolist() == (changed if np.log(chance) < log_ratio else [0, 1, 2])


def test_looks_are_drawn_and_sites_follow_from_them():
    """Means of what a replica learns, over draws of the looks, with answers that weigh double."""
    torch.manual_seed(0)
    heard, power = evidence(), 0.5
    heard.batch = replace(heard.batch, pair_weight=2 * heard.batch.pair_weight)
    state = (LABELS[0], 0.7)
    stacked, of_each = states_of([state], heard), torch.tensor([power], dtype=torch.float64)
    draws = [of_replicas._replicas(stacked, of_each, heard).given for _ in range(400)]

    def learned(name: str) -> Tensor:
        prior = heard.model.priors()[name].natural_parameters
        return torch.cat([draw[name] for draw in draws]).mean(0) - prior

    looks, rates = (
        np.zeros((2, 2)),
        {"sensitivity": np.zeros((2, 2)), "specificity": np.zeros((2, 2))},
    )
    for pair, (ends, said) in enumerate(SAID.items()):
        both = np.array(of_pair(state, pair, power))
        different, same = both / both.sum()
        looks[int(state[0][ends[0]] == state[0][ends[1]])] += 2 * different, 2 * same
        for worker, answer in enumerate(said):
            rates["sensitivity"][worker, 1 - answer] += 2 * power * same
            rates["specificity"][worker, answer] += 2 * power * different
    np.testing.assert_allclose(learned("looks"), looks, atol=0.2)
    for name, expected in rates.items():
        np.testing.assert_allclose(learned(name), expected, atol=0.2)
