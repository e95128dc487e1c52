"""What is held out, what predicts it, and parts of data that keep what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import normalized_mutual_info_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.choosing.held_out import (
    KnownSplit,
    LinkSplit,
    connected_items,
    distinct_items,
    some_items,
    split,
)
from pyro_crowdclust.results import class_probabilities

from ..small_choices import (
    answered,
    known_part,
    linked_part,
    small,
    sorted_part,
    two_rings,
    wide_clusters,
)


def test_classes_of_held_out_items_are_predicted_by_the_table():
    features, kinds = wide_clusters()
    data = CrowdData(features, known=[*kinds[:45], *[None] * 45])
    one = split(data, 0.4, torch.Generator().manual_seed(0))
    assert isinstance(one, KnownSplit)
    assert bool((one.data.known[one.block] == -1).all())
    assert one.classes.tolist() == kinds[one.block].tolist()
    kept = one.data.known[one.data.known >= 0]
    shares = (torch.bincount(kept, minlength=3) + 1.0) / (len(kept) + 3)
    assert one.chance == pytest.approx(float(shares[one.classes].log().mean()))
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    found = one.log_probability(result)
    np.testing.assert_allclose(
        np.exp(found), class_probabilities(result)[one.block, one.classes], atol=1e-6
    )
    assert found.mean() > one.chance


def test_links_held_out_are_predicted_by_who_is_together():
    features, kinds = wide_clusters()
    data = CrowdData(features, **linked_part(kinds))
    one = split(data, 0.4, torch.Generator().manual_seed(0))
    assert isinstance(one, LinkSplit)
    assert one.held_out.num_links + one.data.links.num_links == data.links.num_links
    result = small(one.data, 3, forms=1).forms[0].recipe(one.data, 3).fit(progress=False)
    ends = one.held_out.left.tolist(), one.held_out.right.tolist()
    same = result.same_cluster_probability(*ends)
    right = np.where(one.held_out.must, same, 1 - same)
    np.testing.assert_allclose(np.exp(one.log_probability(result)), right, atol=1e-5)
    assert one.log_probability(result).mean() > one.chance


def test_too_few_labels_or_links_are_not_held_out():
    features, kinds = wide_clusters()
    few = CrowdData(features, known=[*kinds[:12], *[None] * 78])
    assert split(few, 0.4, torch.Generator()) is None


@pytest.mark.parametrize("said", [known_part, linked_part, sorted_part])
def test_a_part_of_the_items_keeps_what_is_said_of_them(said):
    features, kinds = wide_clusters()
    data = CrowdData(features, **said(kinds))
    items = torch.arange(5, 60)
    part = some_items(data, items)
    whole = CrowdData(features[5:60], item_ids=range(5, 60), **_among(said(kinds), items.tolist()))
    if data.known is not None:
        assert part.known.tolist() == whole.known.tolist()
    if data.links is not None:
        assert torch.equal(part.links.left, whole.links.left)
        assert torch.equal(part.links.must, whole.links.must)
    if data.placements is not None:
        assert torch.equal(part.placements.item, whole.placements.item)
        assert torch.equal(part.placements.group, whole.placements.group)
        assert part.placements.num_groups.tolist() == whole.placements.num_groups.tolist()


def _among(said: dict, items: list[int]) -> dict:
    """The rows of what is said that are about these items alone."""
    if "known" in said:
        return {"known": [said["known"][item] for item in items]}
    ends = ["item"] if "placements" in said else ["left", "right"]
    return {name: table[table[ends].isin(items).all(axis=1)] for name, table in said.items()}


def test_copies_of_rows_are_no_clusters():
    rng = np.random.default_rng(0)
    features = np.repeat([[0.0, 0.0], [9.0, 0.0]], 20, axis=0) + rng.normal(size=(40, 2))
    copies = CrowdData(features[rng.integers(0, 40, 300)])
    _, chosen = small(copies, 2, 13, forms=1).run(progress=False)
    assert chosen.winner.endswith("2 components")
    # Whole numbers repeat of themselves.
    counts = CrowdData(rng.poisson(3, size=(300, 2)).astype(float))
    assert distinct_items(counts) is counts


def test_answers_about_copies_are_about_one_row():
    features = np.array([[0.1, np.nan], [3.7, 2.0], [0.1, np.nan], [8.3, 5.0], [3.7, 2.0]])
    said = {"left": [0, 2, 1, 4], "right": [1, 0, 3, 3], "worker": list("abac"), "label": [0] * 4}
    distinct = distinct_items(CrowdData(features, said))
    assert distinct.item_ids.tolist() == [0, 1, 3]
    assert distinct.pairs[["left", "right", "worker"]].to_numpy().tolist() == [
        [0, 1, "a"],
        [1, 3, "a"],
        [1, 3, "c"],
    ]


def test_copies_of_rows_are_found_where_they_would_be_alone():
    rng, kinds = np.random.default_rng(3), np.arange(60) % 3
    rows = 6 * np.eye(3)[kinds] + rng.normal(size=(60, 3))
    often = rng.integers(2, 6, 60)
    result = cluster(np.repeat(rows, often, axis=0), progress=False)
    assert normalized_mutual_info_score(np.repeat(kinds, often), result.assignments) == 1


def test_answers_about_held_out_items_are_kept_out():
    features, ring = two_rings(60)
    data = answered(features, ring)
    one = split(data, 0.25, torch.Generator().manual_seed(0))
    assert len(one.held_out.label) + one.data.num_pairs == data.num_pairs
    held = set(one.block.tolist())
    ends = torch.cat([one.data.answers.left, one.data.answers.right]).tolist()
    assert held.isdisjoint(ends)
    assert one.data.num_workers == data.num_workers


def test_too_few_answers_cannot_choose():
    data = CrowdData(np.eye(3), {"left": [0], "right": [1], "worker": [0], "label": [1]})
    assert split(data, 0.5, torch.Generator().manual_seed(0)) is None


def test_a_part_keeps_answers_between_its_items():
    pairs = {"left": [0, 1, 2], "right": [1, 3, 3], "worker": list("aab"), "label": [1, 0, 1]}
    part = some_items(CrowdData(np.arange(8.0).reshape(4, 2), pairs), torch.tensor([1, 2, 3]))
    assert part.answers.left.tolist() == [0, 1]
    assert part.answers.right.tolist() == [2, 2]
    assert part.answers.worker.tolist() == [0, 1]
    assert part.item_ids.tolist() == [1, 2, 3]
    assert part.num_workers == 2


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


def test_parts_of_data_hold_answers_that_are_connected():
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 3000, (2, 3000))
    ends = ends[:, ends[0] != ends[1]]
    pairs = {"left": ends[0], "right": ends[1], "worker": [0] * ends.shape[1]}
    data = CrowdData(rng.normal(size=(4000, 1)), pairs | {"label": [1] * ends.shape[1]})
    items = connected_items(data, 400, torch.Generator().manual_seed(0))
    assert len(items) == 400
    assert (items.diff() > 0).all()
    assert some_items(data, items).num_pairs > 250
