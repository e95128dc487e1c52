"""What is held out of which data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.holding_out.known_classes import KnownSplit
from pyro_crowdclust.interface.holding_out.links import LinkSplit
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit
from pyro_crowdclust.interface.holding_out.pairs import PairSplit
from pyro_crowdclust.interface.holding_out.splits import split

from ..small_choices import answered, two_rings


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


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"num_links": 38, "num_known": 100}, LinkSplit),
        ({"num_links": 37, "num_known": 100}, KnownSplit),
        ({"num_links": 0, "num_known": 38}, KnownSplit),
        ({"num_links": 37, "num_known": 37}, type(None)),
        ({"num_links": 0, "num_known": 0}, type(None)),
    ],
)
def test_every_draw_holds_out_the_same_kind(said, kind):
    """Scores of several splits are averaged, and nats a label are not nats a link."""
    ends = np.arange(said["num_links"])
    data = CrowdData(
        np.eye(120),
        known=[row % 3 if row < said["num_known"] else None for row in range(120)],
        must_link={"left": ends, "right": ends + 3} if len(ends) else None,
    )
    for seed in range(20):
        assert type(split(data, 0.25, torch.Generator().manual_seed(seed))) is kind


def test_answers_come_before_labels():
    features, ring = two_rings(120)
    known, item, generator = list(ring), np.arange(120), torch.Generator().manual_seed(0)
    page = {"page": item // 12, "item": item, "group": ring, "worker": item // 12}
    pages = CrowdData(features, known=known, placements=page)
    assert isinstance(split(pages, 0.25, generator), PlacementSplit)
    pairs = answered(features, ring).with_parts(known=pages.known)
    assert isinstance(split(pairs, 0.25, generator), PairSplit)
