"""Links that are held out, and what predicts them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.known_labels import Links
from pyro_crowdclust.interface.holding_out.links import LinkSplit, link_split

from ..small_choices import linked_part, small, wide_clusters


@pytest.mark.long
def test_links_held_out_are_predicted_by_who_is_together():
    features, kinds = wide_clusters()
    data = CrowdData(features, **linked_part(kinds))
    one = link_split(data, 0.4, torch.Generator().manual_seed(0))
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


@pytest.mark.parametrize(("number", "held"), [(37, None), (38, 10), (80, 20)])
def test_the_number_that_is_held_out_does_not_depend_on_the_draw(number, held):
    items = np.arange(number)
    data = CrowdData(np.eye(120), must_link={"left": items, "right": items + 1})
    for seed in range(20):
        one = link_split(data, 0.25, torch.Generator().manual_seed(seed))
        assert (one and one.held_out.num_links) == held
