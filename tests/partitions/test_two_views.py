"""Two partitions of the same items, against a crowd in which two workers see their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaln

from pyro_crowdclust.partitions import two_views
from pyro_crowdclust.partitions.two_views import SeenPairs, draw_views

from ..shared_views import FEW, KINDS, MISREAD, crowd_of_two_views


def pairs_of(table):
    worker = np.unique(table["worker"], return_inverse=True)[1]
    left, right = table["left"].to_numpy(), table["right"].to_numpy()
    return SeenPairs(left, right, worker, table["label"].to_numpy() == 1)


@pytest.fixture(scope="module")
def drawn():
    """Three runs with two views, and three with one."""
    table = crowd_of_two_views(MISREAD)
    pairs = pairs_of(table)
    is_of_few = np.tile(table["worker"].isin(FEW), (6, 1))
    every = np.ones_like(is_of_few)
    return pairs, is_of_few[0], draw_views(pairs, is_of_few, every, np.arange(6) < 3, 0)


def test_the_few_and_the_others_have_the_clusters_that_they_see(drawn):
    pairs, is_of_few, draws = drawn
    best = draws.score[:3].argmax()
    seen = np.where(
        is_of_few,
        MISREAD[pairs.left] == MISREAD[pairs.right],
        KINDS[pairs.left] == KINDS[pairs.right],
    )
    assert ((draws.same[best] > 0.5) == seen).mean() > 0.95
    differs = (MISREAD[pairs.left] == MISREAD[pairs.right]) != (
        KINDS[pairs.left] == KINDS[pairs.right]
    )
    assert ((draws.alike[best] < 0.5) == differs).mean() > 0.95


def test_two_views_explain_such_answers_better_than_one(drawn):
    *_, draws = drawn
    assert draws.score[:3].max() > draws.score[3:].max() + 10


def test_one_view_is_the_same_for_all(drawn):
    *_, draws = drawn
    np.testing.assert_array_equal(draws.alike[3:], 1)


def test_held_out_answers_have_no_part_in_the_draws(monkeypatch):
    monkeypatch.setattr(two_views, "_WITHOUT", 8)
    monkeypatch.setattr(two_views, "_WITH", 12)
    table = crowd_of_two_views(MISREAD, 120)
    other = table.assign(label=np.where(np.arange(120) < 30, 1 - table["label"], table["label"]))
    is_of_few = table["worker"].isin(FEW).to_numpy()[None]
    in_fit = (np.arange(120) >= 30)[None]
    one, two = (
        draw_views(pairs_of(said), is_of_few, in_fit, np.array([True]), 0)
        for said in (table, other)
    )
    np.testing.assert_array_equal(one.same, two.same)


def test_the_score_integrates_the_rates_out(monkeypatch):
    # One item pair, so that what is said of it is right or wrong for sure.
    monkeypatch.setattr(two_views, "_CLUSTERS", 1)
    pairs = SeenPairs(*(np.array([place] * 5) for place in (0, 1, 0)), np.arange(5) < 3)
    every = np.ones((1, 5), dtype=bool)
    draws = draw_views(pairs, ~every, every, np.array([False]), 0)
    right, wrong = two_views._FLAT
    assert draws.score[0] == pytest.approx(betaln(right + 3, wrong + 2) + betaln(right, wrong))
