"""Pages that repeat others: one sorting under two names."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.copied_pages import first_alike
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.simulation import simulate_placements


def two_pages(items="abcabc", workers="wwwwww", groups=(0, 0, 1, 7, 7, 5)):
    columns = {"page": [1, 1, 1, 2, 2, 2], "item": [*items], "worker": [*workers]}
    return pd.DataFrame(columns).assign(group=groups)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_sorting_under_two_names_is_kept_with_a_warning(order):
    said = r"page 2 \(1 such page\): repeats page 1 \(same items, worker and groups\)"
    with pytest.warns(UserWarning, match=said):
        data = CrowdData(None, placements=two_pages()[order])
    assert len(data.placements) == 6


@pytest.mark.parametrize(
    "difference",
    [{"items": "abcabd"}, {"workers": "wwwvvv"}, {"groups": (0, 0, 1, 0, 1, 1)}],
)
def test_pages_that_differ_are_no_copies(difference):
    CrowdData(None, placements=two_pages(**difference))  # warnings are errors


def test_pages_of_one_pair_are_no_copies():
    CrowdData(None, placements=two_pages().drop([2, 5]))


def test_a_single_page_among_many_may_be_asked_twice():
    crowd = simulate_placements(
        np.arange(60) % 4, [0.9] * 3, pages_per_worker=8, page_size=9, seed=0
    )
    again = crowd[crowd["page"] == 0].assign(page=99)
    data = CrowdData(None, placements=pd.concat([crowd, again]))
    first = first_alike(data.placements, np.ones(25, dtype=bool))
    assert first.tolist() == [*range(24), 0]


def test_copies_among_new_pages_are_found_by_the_old_ones():
    """Whatever their names; of old ones nothing is said again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = CrowdData(None, placements=two_pages())
    again = two_pages()[:3].assign(page=0)
    with pytest.warns(UserWarning, match=r"page 0 \(1 such page\): repeats page 1 ") as found:
        extended(data, placements=again)
    assert len(found) == 1
