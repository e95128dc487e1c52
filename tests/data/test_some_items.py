"""Parts of data keep what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import some_items

from ..interface.small_choices import known_part, linked_part, sorted_part, wide_clusters


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


def test_a_page_without_items_stays_with_one_empty_group():
    pages = {
        "page": list("aabb"),
        "item": [0, 1, 2, 3],
        "worker": list("uuvv"),
        "group": [0, 1] * 2,
    }
    part = some_items(CrowdData(None, placements=pages), torch.tensor([0, 1]))
    assert part.placements.page_sizes.tolist() == [2, 0]
    assert part.placements.num_groups.tolist() == [2, 1]


def _among(said: dict, items: list[int]) -> dict:
    """The rows of what is said that are about these items alone."""
    if "known" in said:
        return {"known": [said["known"][item] for item in items]}
    ends = ["item"] if "placements" in said else ["left", "right"]
    return {name: table[table[ends].isin(items).all(axis=1)] for name, table in said.items()}


def test_a_part_keeps_answers_between_its_items():
    pairs = {"left": [0, 1, 2], "right": [1, 3, 3], "worker": list("aab"), "label": [1, 0, 1]}
    part = some_items(CrowdData(np.arange(8.0).reshape(4, 2), pairs), torch.tensor([1, 2, 3]))
    assert part.answers.left.tolist() == [0, 1]
    assert part.answers.right.tolist() == [2, 2]
    assert part.answers.worker.tolist() == [0, 1]
    assert part.item_ids.tolist() == [1, 2, 3]
    assert part.num_workers == 2


def test_a_part_of_items_without_features_has_none():
    said = {"left": [0, 1], "right": [1, 3], "worker": list("ab"), "label": [1, 0]}
    part = some_items(CrowdData(None, said, item_ids=range(4)), torch.tensor([1, 3]))
    assert part.features is None
    assert part.pairs[["left", "right", "worker"]].to_numpy().tolist() == [[1, 3, "b"]]
