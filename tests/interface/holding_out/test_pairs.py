"""What is held out, and what predicts it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.holding_out.pairs import splits_of_pairs
from pyro_crowdclust.interface.holding_out.splits import split

from ..small_choices import (
    answered,
    two_rings,
)


@pytest.mark.parametrize("asked", [59, 60, 90, 120])
def test_held_out_answers_are_about_items_as_the_users_are(asked):
    """Of 120 items; where half of them or more have answers, some of these count as well."""
    features, ring = two_rings(120)
    data = answered(features, ring, 500, range(asked))
    shares, totals = [], []
    for seed in range(8):
        one = split(data, 0.25, torch.Generator().manual_seed(seed))
        assert one.held_out.num_pairs + one.data.num_pairs == data.num_pairs
        heard = torch.zeros(120, dtype=torch.bool)
        heard[one.data.answers.left] = heard[one.data.answers.right] = True
        of_pairs = heard[one.held_out.left] & heard[one.held_out.right]
        assert not bool(heard[one.item[~of_pairs]].any())
        assert one.of_others.tolist() == (~of_pairs).tolist()
        shares.append(float(of_pairs.double().mean()))
        totals.append(one.held_out.num_pairs / data.num_pairs)
        held, kept = (
            {frozenset(pair) for pair in zip(said.left.tolist(), said.right.tolist(), strict=True)}
            for said in (one.held_out, one.data.answers)
        )
        assert held.isdisjoint(kept) or asked < 60
        assert one.chance == pytest.approx(one.by_chance.mean())
    assert np.mean(totals) == pytest.approx(1 - 0.75**2, abs=0.05)
    assert np.mean(shares) == pytest.approx(asked / 120 if asked >= 60 else 0.0, abs=0.07)


def test_chance_knows_what_every_worker_says_how_often():
    data = answered(*two_rings(120), items=range(59))
    one = split(data, 0.25, torch.Generator().manual_seed(0))
    said = list(zip(one.data.answers.worker.tolist(), one.data.answers.label.tolist(), strict=True))
    for row in range(one.held_out.num_pairs):
        worker, label = int(one.held_out.worker[row]), float(one.held_out.label[row])
        of_all = (sum(other == label for _, other in said) + 1) / (len(said) + 2)
        own = [other for by, other in said if by == worker]
        share = (sum(other == label for other in own) + 4 * of_all) / (len(own) + 4)
        assert one.by_chance[row] == pytest.approx(np.log(share))


def test_answers_about_held_out_items_are_kept_out():
    features, ring = two_rings(60)
    data = answered(features, ring, items=range(29))
    one = split(data, 0.25, torch.Generator().manual_seed(0))
    assert len(one.held_out.label) + one.data.num_pairs == data.num_pairs
    held = set(one.item.tolist())
    ends = torch.cat([one.data.answers.left, one.data.answers.right]).tolist()
    assert held.isdisjoint(ends)
    assert one.data.num_workers == data.num_workers


def test_too_few_answers_cannot_choose():
    data = CrowdData(np.eye(3), {"left": [0], "right": [1], "worker": [0], "label": [1]})
    assert split(data, 0.5, torch.Generator().manual_seed(0)) is None


def test_predictions_of_answers_are_the_mixture_of_both_rates(rings):
    result, _ = rings
    one = split(result.data, 0.25, torch.Generator().manual_seed(1))
    ours = one.log_probability(result)
    workers = result.workers
    for pair in (0, 7, 30):
        i, j = int(one.held_out.left[pair]), int(one.held_out.right[pair])
        same = result.same_cluster_probability(i, j)
        rates = workers.iloc[int(one.held_out.worker[pair])]
        yes = same * rates["sensitivity"] + (1 - same) * (1 - rates["specificity"])
        expected = yes if one.held_out.label[pair] == 1 else 1 - yes
        assert ours[pair] == pytest.approx(np.log(expected))


@pytest.mark.parametrize(("number", "parts"), [(150, 10), (400, 4)])
def test_every_pair_is_held_out_once_with_all_answers_about_it(number, parts):
    features, ring = two_rings(60)
    data = answered(features, ring, number, items=range(29))
    splits = splits_of_pairs(data, torch.Generator().manual_seed(0))
    assert len(splits) == parts
    assert sum(one.held_out.num_pairs for one in splits) == data.num_pairs
    for one in splits:
        assert one.held_out.num_pairs + one.data.num_pairs == data.num_pairs
        held, kept = (
            {frozenset(pair) for pair in zip(said.left.tolist(), said.right.tolist(), strict=True)}
            for said in (one.held_out, one.data.answers)
        )
        assert held.isdisjoint(kept)
    assert splits_of_pairs(CrowdData(features), torch.Generator()) == []


def test_answers_on_one_page_are_held_out_together():
    features, ring = two_rings(60)
    data = answered(features, ring, 200)
    page = torch.arange(data.num_pairs) // 12
    data = data.with_parts(answers=dataclasses.replace(data.answers, page=page))
    for one in splits_of_pairs(data, torch.Generator().manual_seed(0)):
        assert set(one.held_out.page.tolist()).isdisjoint(one.data.answers.page.tolist())
