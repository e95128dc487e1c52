"""What is read from draws, against cases that can be seen at a glance."""

from __future__ import annotations

import numpy as np
import torch

from pyro_crowdclust.partitions import Memberships, consensus

from .partitions import DRAWS


def test_names_of_clusters_in_a_draw_mean_nothing():
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.stack([torch.randperm(6, generator=generator)[draw] for draw in DRAWS])
    assert torch.equal(consensus(shuffled), consensus(DRAWS))


def test_shares_of_memberships():
    found = Memberships.of(DRAWS, consensus(DRAWS))
    assert consensus(DRAWS).tolist() == [0, 0, 0, 1, 1, 2]
    places = zip(found.item.tolist(), found.cluster.tolist(), strict=True)
    entries = dict(zip(places, found.share.tolist(), strict=True))
    assert entries[5, 2] == 0.75
    assert entries[5, 1] == 0.25
    assert entries[0, 0] == entries[3, 1] == 1
    np.testing.assert_allclose(found.alone, 0, atol=1e-15)


def test_an_item_that_is_rarely_with_its_cluster_is_alone():
    draws = torch.tensor([[0, 0, 1], [0, 1, 2], [0, 1, 2], [0, 0, 1]])
    assert consensus(draws[[1, 2, 3, 1, 0]]).tolist() == [0, 1, 2]
    assert consensus(draws[[0, 3, 0, 1, 0]]).tolist() == [0, 0, 1]


def test_clusters_are_numbered_from_the_largest():
    draws = torch.tensor([[0, 1, 1, 1, 2, 2]]).repeat(3, 1)
    assert consensus(draws).tolist() == [2, 0, 0, 0, 1, 1]
