"""What is held out, and what predicts it."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.known_labels import Links
from pyro_crowdclust.interface.holding_out.known_classes import KnownSplit
from pyro_crowdclust.interface.holding_out.links import LinkSplit
from pyro_crowdclust.interface.holding_out.pairs import splits_of_pairs
from pyro_crowdclust.interface.holding_out.splits import split
from pyro_crowdclust.results import known_class_probabilities

from ..small_choices import (
    answered,
    linked_part,
    small,
    two_rings,
    wide_clusters,
)


def test_classes_of_held_out_items_are_predicted_by_the_table():
    features, kinds = wide_clusters()
    data = CrowdData(features, known=[*kinds[:45], *[None] * 45])
    one = split(data, 0.4, torch.Generator().manual_seed(0))
    assert isinstance(one, KnownSplit)
    assert bool((one.data.known[one.item] == -1).all())
    assert one.classes.tolist() == kinds[one.item].tolist()
    kept = one.data.known[one.data.known >= 0]
    shares = (torch.bincount(kept, minlength=3) + 1.0) / (len(kept) + 3)
    assert one.chance == pytest.approx(float(shares[one.classes].log().mean()))
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    found = one.log_probability(result)
    np.testing.assert_allclose(
        np.exp(found), known_class_probabilities(result)[one.item, one.classes], atol=1e-6
    )
    assert found.mean() > one.chance


@pytest.mark.long
def test_links_held_out_are_predicted_by_who_is_together():
    features, kinds = wide_clusters()
    data = CrowdData(features, **linked_part(kinds))
    one = split(data, 0.4, torch.Generator().manual_seed(0))
    assert isinstance(one, LinkSplit)
    assert one.held_out.num_links + one.data.links.num_links == data.links.num_links
    kept, held = one.data.links.must, one.held_out.must
    share = (float(kept.sum()) + 1) / (len(kept) + 2)
    expected = np.log(np.where(held, share, 1 - share)).mean()
    assert one.chance == pytest.approx(expected)
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    ends = one.held_out.left.tolist(), one.held_out.right.tolist()
    same = result.same_cluster_probability(*ends)
    right = np.where(one.held_out.must, same, 1 - same)
    np.testing.assert_allclose(np.exp(one.log_probability(result)), right, atol=1e-5)
    assert one.log_probability(result).mean() > one.chance


def test_links_are_as_likely_as_being_together_and_never_impossible():
    data = CrowdData(np.eye(5))
    links = Links(torch.zeros(4).long(), torch.arange(1, 5), torch.tensor([True, False] * 2))
    together = np.array([0.3, 0.3, 0.0, 1.0])
    result = SimpleNamespace(data=data, same_cluster_by_position=lambda *ends: together)
    found = LinkSplit(data, links).log_probability(result)
    np.testing.assert_allclose(np.exp(found), [0.3, 0.7, 1e-6, 1e-6])


def said_of(kind: str) -> CrowdData:
    """Two rings of which much is said: answers, classes, links, or links beside a few classes."""
    features, ring = two_rings(120)
    if kind == "answers":
        return answered(features, ring, items=range(59))
    if kind == "classes":
        return CrowdData(features, known=ring)
    items = np.arange(118)
    must = {"left": items, "right": items + 2}
    known = list(ring[:8]) + [None] * 112 if kind == "links and classes" else None
    return CrowdData(features, known=known, must_link=must, cannot_link={"left": [0], "right": [1]})


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("answers", 1 - 0.75**2), ("classes", 0.25), ("links", 0.25), ("links and classes", 0.25)],
)
def test_a_share_is_held_out_and_both_parts_are_large_enough(kind, expected):
    """An answer is about two items, either of which may be held out."""
    data = said_of(kind)
    for share in (0.01, 0.99):
        assert split(data, share, torch.Generator().manual_seed(0)) is None
    one = split(data, 0.25, torch.Generator().manual_seed(0))
    total = {"answers": data.num_pairs, "classes": data.num_items}.get(kind, 119)
    assert len(one.item) / total == pytest.approx(expected, abs=0.1)


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
    data = said_of("answers")
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
