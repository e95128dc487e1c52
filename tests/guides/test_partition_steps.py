"""Steps of the guide of clusters from answers alone: what is drawn of what, and by which power."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.inference.replicas import run_replicas
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import (
    AskedPairs,
    ChainStart,
    FewClusters,
    LikenessRegression,
    PitmanYor,
    sweep_chains,
)

from .answered_crowds import LARGE, crowd_of


def test_a_step_of_training_is_a_draw_and_every_third_learns(monkeypatch):
    """The oldest draw makes room; its pairs count by the weights of their answers."""
    monkeypatch.setattr("pyro_crowdclust.guides.partition._LEARN_EVERY", 3)
    batch = full_batch(crowd_of(LARGE[:12], 50))
    batch = dataclasses.replace(batch, pair_weight=1 + torch.rand(batch.num_pairs).double())
    weights = pd.DataFrame(batch.asked_items.numpy()).assign(weight=batch.pair_weight.numpy())
    total = weights.groupby([0, 1])["weight"].mean().sum()
    model = AnsweredPartition(TwoCoin(4), PitmanYor(), hard_items=True)
    guide, first = PartitionGuide(model, 12, num_draws=4), torch.arange(12) % 2
    priors = model.prior, model.annotators
    for _ in range(2):
        workers = {name: 5 + torch.rand(4, 2).double() for name in model.annotators.priors()}
        with torch.no_grad():
            guide._begin([ChainStart(first, workers)])
        assert guide.partition_draws().tolist() == [first.tolist()]
        assert not guide.hard_draws.any()
        for name, natural_parameters in workers.items():
            assert torch.equal(guide.posteriors[name].natural_parameters, natural_parameters)
            assert torch.equal(guide.given[name][0], natural_parameters)
        for steps in range(2, 8):
            before = guide.draws.clone()
            told = [{name: one.clone() for name, one in p.state_dict().items()} for p in priors]
            guide.before_step(batch)
            place = (steps - 1) % 4
            assert torch.equal(guide.labels, guide.draws[place])
            kept = torch.arange(4) != place
            assert torch.equal(guide.draws[kept], before[kept])
            assert len(guide.partition_draws()) == min(steps, 4)
            looks = guide.given["looks"][place] - model.looks.natural_parameters
            assert float(looks.sum()) == pytest.approx(total)
            for prior, was in zip(priors, told, strict=True):
                state = prior.state_dict().items()
                learned = any(not torch.equal(one, was[name]) for name, one in state)
                assert learned == (steps % 3 == 0)


def test_only_what_comes_before_a_step_draws():
    batch = full_batch(crowd_of(LARGE[:12], 50))
    guide = PartitionGuide(AnsweredPartition(TwoCoin(4), FewClusters()), 12, num_draws=4)
    guide.before_step(batch)
    before = {name: value.clone() for name, value in guide.state_dict().items()}
    assert int(guide.steps) == 1
    guide(batch)  # with gradients, as in a step
    for name, value in guide.state_dict().items():
        assert torch.equal(value, before[name])


def test_replicas_go_on_from_their_own_partitions_and_the_last_are_the_draws(monkeypatch):
    """The best of three starts has all answers; of four replicas the first begins there, too."""
    went = []

    def watch(replicas, powers, heard, first):
        went.append((replicas, first))
        return run_replicas(replicas, powers, heard, first)

    monkeypatch.setattr("pyro_crowdclust.guides.partition.run_replicas", watch)
    batch = full_batch(crowd_of(LARGE, 50))
    model = AnsweredPartition(TwoCoin(4), FewClusters())
    guide, names = PartitionGuide(model, 60, 3, num_chains=2), [*model.annotators.priors()]
    states = [{name: k + torch.rand(4, 2).double() for name in names} for k in (2, 3, 4)]
    first = [torch.arange(60) % k for k in (2, 3, 4)]
    guide._begin([ChainStart(*start) for start in zip(first, states, strict=True)])
    assert torch.equal(guide.labels, first[-1])
    assert guide.partition_draws().tolist() == [first[-1].tolist()] * 2
    for step in range(1, 5):
        before = guide.draws.clone()
        guide.before_step(batch)
        places, others = [2 * step % 6, 2 * step % 6 + 1], torch.ones(6, dtype=torch.bool)
        assert torch.equal(guide.draws[places], guide.replica_labels[[3, 7]])
        for name in names:
            given = guide.given[name][places]
            assert torch.equal(given, guide.replica_given[name][[3, 7]])
        others[places] = False
        assert torch.equal(guide.draws[others], before[others])
        # The posteriors move to a draw of each chain in turn.
        assert torch.equal(guide.labels, guide.draws[places[(step + 1) % 2]])
        assert len(guide.partition_draws()) == min(2 * step + 2, 6)
    begun = went[0][0]
    for place, start in enumerate([2, 0, 1, 2] * 2):
        assert torch.equal(begun.labels[place], first[start])
        assert all(torch.equal(begun.given[name][place], states[start][name]) for name in names)
    # 200 answers about 60 items, four sweeps a step.
    assert len(went) == 4 * 4
    assert [turn for _, turn in went[:4]] == [0, 1, 0, 1]


def test_candidates_count_as_answers_do_in_the_number_of_sweeps(monkeypatch):
    """200 answers about 60 items are four sweeps a step, beside 750 candidates two."""
    went = []

    def watch(replicas, powers, heard, first):
        went.append(first)
        return run_replicas(replicas, powers, heard, first)

    monkeypatch.setattr("pyro_crowdclust.guides.partition.run_replicas", watch)
    data = crowd_of(LARGE, 50)
    near = torch.combinations(torch.arange(60))
    asked = AskedPairs.of(data.needed_answers.items, 60)
    unasked = near[~asked.places(near)[1]][: 750 - asked.num_pairs]
    ends = torch.cat([asked.items, unasked])
    table = pd.DataFrame(ends.numpy(), columns=["left", "right"]).assign(alike=1.0)
    candidates = CrowdData(None, data.pairs, likeness=table)
    for crowd, regression, sweeps in (
        (data, None, 4),
        (candidates, LikenessRegression(1), 2),
    ):
        model = AnsweredPartition(TwoCoin(4), FewClusters(), likeness=regression)
        went.clear()
        PartitionGuide(model, 60, 3).before_step(full_batch(crowd))
        assert len(went) == sweeps


@pytest.mark.parametrize("hard_items", [False, True])
def test_items_follow_answers_whatever_pairs_look_like(monkeypatch, hard_items):
    """``log p(answers | same) - log p(answers | different)``, the looks summed out."""
    heard = []

    def listen(labels, pairs, weights, prior):
        heard.append(weights)
        return sweep_chains(labels, pairs, weights, prior)

    monkeypatch.setattr("pyro_crowdclust.inference.replicas.sweep_chains", listen)
    batch = full_batch(crowd_of(LARGE[:9], 20))
    model = AnsweredPartition(TwoCoin(4), PitmanYor(), hard_items)
    guide, rates = PartitionGuide(model, 9, num_draws=1, num_chains=2), {}
    for name in guide.posteriors:
        # So many counts that what is drawn is known.
        counts = guide.replica_given[name]
        counts.copy_(1e12 * (0.2 + torch.rand_like(counts)))
        rates[name] = counts / counts.sum(-1, keepdim=True)
    guide.replica_hard = (torch.arange(18).view(2, 9) % 3 == 0).long() * hard_items
    of_chains = guide.replica_hard.tolist()
    guide.before_step(batch)
    for chain, hard in enumerate(of_chains):
        likely: dict[tuple[int, int], torch.Tensor] = {}
        for ends, worker, label in zip(batch.asked_items, batch.worker, batch.label, strict=True):
            right, rejected = (
                rates[name][chain, worker] for name in ("sensitivity", "specificity")
            )
            said = torch.stack([rejected[int(label)], right[1 - int(label)]])
            pair = tuple(ends.tolist())
            likely[pair] = likely.get(pair, 1.0) * said
        expected = []
        for (i, j), said in sorted(likely.items()):
            kind = 2 * (hard[i] + hard[j])
            different, same = rates["looks"][chain, kind : kind + 2] @ said
            expected.append(float((same / different).log()))
        np.testing.assert_allclose(heard[0][chain], expected, atol=1e-4)
