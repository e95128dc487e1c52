"""Who is asked how often: as often as they are probably the best, in every batch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pyro_crowdclust.asking.criteria import InformationGain, Margin, Random, WorkerInformation
from pyro_crowdclust.asking.whom import Whom

EVEN = np.full((1, 2), 0.5)


def situation_of(codes, prices=None, criterion=None, exploration=0.0, seed=0):
    """Workers with codes -1 have not answered yet."""
    crowd = SimpleNamespace(
        codes=np.array(codes),
        prices=np.ones(len(codes)) if prices is None else np.array(prices),
        rates=SimpleNamespace(pseudo_counts=lambda worker: (3.0 + worker, 1.0)),
    )
    return SimpleNamespace(
        crowd=crowd,
        criterion=criterion or InformationGain(),
        exploration=exploration,
        generator=np.random.default_rng(seed),
    )


def asked(situation, information, count, able=None):
    able = np.ones(information.shape[1], dtype=bool) if able is None else np.array(able)
    whom = Whom(situation, count)
    return [whom.best(information, EVEN, able) for _ in range(count)]


def information_of(counts, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.beta(*pair, size=256) for pair in counts], 1)


@pytest.mark.parametrize("criterion", [InformationGain(), Margin(), Random()])
@pytest.mark.parametrize(("number", "count"), [(3, 6), (4, 8), (3, 7), (10, 30), (10, 4)])
def test_unknown_workers_are_asked_equally_often(number, count, criterion):
    for seed in range(10):
        information = information_of([(3, 1)] * number, seed)
        found = asked(situation_of([-1] * number, None, criterion, seed=seed), information, count)
        times = np.array([np.bincount(found[:n], minlength=number) for n in range(1, count + 1)])
        assert np.ptp(times[-1]) <= 1
        assert not ((times.max(1) > 2) & (times.min(1) == 0)).any()


def test_a_good_worker_is_asked_most_and_a_guesser_hardly():
    found = []
    for seed in range(40):
        information = information_of([(90, 5), (10, 30), (3, 1), (3, 1)], seed)
        found.append(np.bincount(asked(situation_of([0, 1, -1, -1], seed=seed), information, 10)))
        assert np.ptp(found[-1][2:]) <= 1
    assert all(6 <= each[0] <= 8 and each[1] == 0 for each in found)


def test_every_question_goes_to_a_worker_with_the_probability_that_they_are_the_best():
    """As in Thompson sampling, and so often in all but for rounding."""
    information = information_of([(4, 2), (3, 2), (2, 2)])
    share = np.bincount(information.argmax(1)) / len(information)
    first, third = np.zeros(3), np.zeros(3)
    for start in (np.arange(200) + 0.5) / 200:
        situation = situation_of([0, 1, 2])
        situation.generator = SimpleNamespace(random=lambda start=start: start)
        found = asked(situation, information, 5)
        first[found[0]] += 1
        third[found[2]] += 1
        assert (np.abs(np.bincount(found, minlength=3) - 5 * share) < 1).all()
    np.testing.assert_allclose(first / 200, share, atol=0.006)
    np.testing.assert_allclose(third / 200, share, atol=0.006)


def test_exploration_shares_questions_among_all_who_are_able():
    information = np.tile([3.0, 2.0, 1.0], (8, 1))
    found = asked(situation_of([0, 1, 2], exploration=0.5), information, 600)
    assert np.bincount(found).tolist() == [400, 100, 100]
    found = asked(situation_of([0, 1, 2], exploration=0.5), information, 40, [False, True, True])
    assert np.bincount(found).tolist() == [0, 30, 10]
    assert asked(situation_of([0, 1, 2]), information, 1, [False] * 3) == [None]


def test_prices_divide_scores_and_strangers_of_one_price_are_alike():
    information = np.tile([3.0, 2.0, 1.0], (8, 1))
    assert set(asked(situation_of([0, 1, 2], [4.0, 2.0, 2.0]), information, 5)) == {1}
    # Of two who are unknown, chance made one better in all draws.
    found = asked(situation_of([-1, -1, -1], [1.0, 1.0, 0.9]), information, 10)
    assert np.bincount(found, minlength=3).tolist() == [5, 5, 0]


def test_criteria_get_what_is_known_of_each_worker():
    """The one about whom least is known is to be measured."""
    situation = situation_of([0, 1, 2], criterion=WorkerInformation())
    whom = Whom(situation, 2)
    sure = np.array([[0.1, 0.9]])
    found = whom.best(np.ones((4, 3)), sure, np.array([True, True, True]))
    assert found == 0
