"""Of which items questions are made, and which question is taken."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd

from pyro_crowdclust.asking.criteria import InformationGain
from pyro_crowdclust.asking.situation import Situation


def situation(beliefs: object, number: int, exploration: float) -> Situation:
    chance = np.random.default_rng(0)
    return Situation(
        *(pd.RangeIndex(number), beliefs, None, None, None, InformationGain(), exploration, chance)
    )


def test_of_many_items_the_promising_ones_the_surest_and_some_others_are_taken():
    rng = np.random.default_rng(1)
    own, others, surest = rng.random(9000), 3 * rng.random(9000), rng.permutation(9000)[:120]
    beliefs = SimpleNamespace(
        probabilities=np.ones((9000, 1)),
        own=lambda items: own[items],
        others=lambda items: others[items],
        most_certain=lambda number: surest[: 3 * number],
    )
    pool = situation(beliefs, 9000, 0.0).pool()
    promising = {*np.argsort(-(own + others))[:2000].tolist(), *surest.tolist()}
    assert promising <= {*pool.tolist()}
    # One in nine of the rest.
    rest = len(pool) - len(promising)
    assert abs(rest - (9000 - len(promising)) / 9) < 60
    assert situation(None, 4000, 0.0).pool().tolist() == [*range(4000)]
    among = np.arange(9000) % 2 == 1
    some = situation(beliefs, 9000, 0.0).pool(among)
    assert among[some].all()
    assert len(some) > 2000
    assert situation(None, 9000, 0.0).pool(np.arange(9000) < 5).tolist() == [*range(5)]


def test_the_best_question_is_taken_and_now_and_then_any():
    scores, eligible = (
        np.array([3.0, 1.0, 2.0, 2.0, 0.0]),
        np.array([False, True, True, True, False]),
    )
    found = {}
    for exploration in (0.0, 0.3, 1.0):
        one = situation(None, 5, exploration)
        taken = [one.best(scores, eligible) for _ in range(600)]
        found[exploration] = np.bincount(taken, minlength=5) / 600
    np.testing.assert_allclose(found[0.0], [0, 0, 1 / 2, 1 / 2, 0], atol=0.08)
    np.testing.assert_allclose(found[0.3], [0, 0.1, 0.45, 0.45, 0], atol=0.08)
    np.testing.assert_allclose(found[1.0], [0, 1 / 3, 1 / 3, 1 / 3, 0], atol=0.08)
    assert (found[0.0] > 0).tolist() == [False, False, True, True, False]
    assert one.best(scores, np.zeros(5, dtype=bool)) is None
