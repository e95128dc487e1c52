"""Doubt about listed pairs that no answers connect, pair by pair."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking import Pairs
from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.listed_pairs import doubted

from .certain_rates import CertainPairRates
from .test_choices import situation_of

# 0 = 1 = 2, 0 is not 3, and of 4 and 5 two of three say that they are the same.
SAID = pd.DataFrame(
    [[0, 1, 1], [2, 1, 1], [0, 3, 0], [4, 5, 1], [5, 4, 1], [4, 5, 0]],
    columns=["left", "right", "label"],
).assign(worker=["ann"] * 4 + ["bob", "cem"])
LISTED = np.array([[0, 1], [0, 2], [2, 3], [3, 0], [4, 0], [5, 4], [6, 7], [8, 9], [8, 6]])
OPEN = np.array([False] * 4 + [True, False, True, True, True])


def doubts(q, said=SAID, listed=LISTED):
    beliefs = situation_of(q).beliefs
    asked = Asked(CrowdData(None, said, item_ids=range(len(q))))
    return beliefs, *doubted(beliefs, asked, listed)


def test_pairs_that_no_answers_connect_are_the_same_as_often_as_others_of_the_list():
    """The fit is sure that all are different; of three listed pairs with answers two are not."""
    before, after, same = doubts(np.eye(10))
    share = 2 / (3 + 10)
    np.testing.assert_allclose(same, np.where(OPEN, share, 0.0), atol=1e-12)
    unknown = -share * log(share) - (1 - share) * log(1 - share)
    number = np.array([1, 0, 0, 0, 1, 0, 2, 1, 2, 1])
    expected = np.minimum(number * unknown / 2, np.log1p(number))
    np.testing.assert_allclose(after.entropies, expected, atol=1e-12)
    assert not before.entropies.any()


def test_what_the_fit_expects_of_such_pairs_is_kept():
    """Where it expects as many to be the same as answers say, and where it knows more of some."""
    q = np.tile(np.eye(2)[0], (10, 1))
    before, after, same = doubts(q)
    np.testing.assert_allclose(same, 1.0)
    q = np.eye(10)
    q[9] = 0.6 * q[8] + 0.4 * q[9]
    _, after, same = doubts(q)
    expected = 0.6 / 4
    more = ((2 + 10 * expected) / 13 - expected) / (1 - expected)
    np.testing.assert_allclose(same[[4, 7]], [more, 0.6 + 0.4 * more])
    assert same[OPEN].mean() == pytest.approx((2 + 10 * expected) / 13)
    assert (after.entropies >= before.entropies).all()


@pytest.mark.parametrize("listed", [LISTED[-2:], LISTED[:4]], ids=["none asked", "none open"])
def test_without_answers_about_the_list_or_without_open_pairs_nothing_changes(listed):
    before, after, same = doubts(np.eye(10), listed=listed)
    assert after is before
    assert same.tolist() == (listed[:, 0] == listed[:, 1]).astype(float).tolist()


def test_grades_count_in_part_and_who_cannot_tell_does_not():
    grades = ["no", "perhaps", "yes"]
    said = pd.DataFrame({"left": [0, 0, 1, 2, 3], "right": [1, 1, 2, 3, 4], "worker": [*"abaaa"]})
    said["label"] = ["yes", "perhaps", "no", None, "yes"]
    asked = Asked(CrowdData(None, said, grades=grades))
    keys, share = asked.said_same()
    assert keys.tolist() == [1, 1 * 5 + 2, 3 * 5 + 4]
    np.testing.assert_allclose(share, [0.75, 0.0, 1.0])


def test_a_listed_pair_is_worth_asking_about_although_the_fit_is_sure():
    base, one = situation_of(np.eye(10)), np.ones(1)
    crowd = Crowd(
        ids=pd.Index(["dee"]),
        codes=np.array([-1]),
        rates=CertainPairRates(np.array([[[9.0, 1.0]] * 2])),
        prices=one,
        loads=one * np.inf,
        num_answers=np.zeros(1, dtype=int),
    )
    asked = Asked(CrowdData(None, SAID, item_ids=range(10)))
    situation = replace(base, crowd=crowd, asked=asked)
    among = pd.DataFrame(LISTED, columns=["left", "right"])
    given = situation.beliefs
    entropies = given.entropies.copy()
    found, doubtful = Pairs(among=among).compose(situation, len(LISTED))
    assert situation.beliefs is given
    np.testing.assert_array_equal(given.entropies, entropies)
    assert (doubtful.entropies >= entropies).all()
    assert (doubtful.entropies > entropies).any()
    asked_for = found.loc[found["gain"] > 0.01, ["left", "right"]].to_numpy()
    assert {frozenset(row) for row in asked_for} == {frozenset(row) for row in LISTED[OPEN]}
