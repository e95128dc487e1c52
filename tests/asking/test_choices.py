"""Questions chosen one after the other, in loops over questions and workers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.choices import CandidateQuestions, choose, information_share
from pyro_crowdclust.asking.criteria import (
    InformationGain,
    Margin,
    Prospects,
    WorkerInformation,
)
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.information import channel_information, entropy, rate_information
from pyro_crowdclust.asking.label_questions import Labels
from pyro_crowdclust.asking.pair_questions import Pairs
from pyro_crowdclust.asking.situation import Situation

from .certain_rates import CertainLabelRates, CertainPairRates

ITEMS = np.array([[0, 1], [2, 3], [0, 2], [4, 1], [3, 4], [1, 2]])
SHARE = np.array([0.5, 0.3, 0.4, 0.45, 1.2, 0.2])
OWN = np.array([0.6, 0.9, 0.4, 0.7, 0.8])
OUTCOMES = np.stack([1 - 0.1 * np.arange(4, 10), 0.1 * np.arange(4, 10)], 1)
CHANNELS = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.7, 0.3], [0.1, 0.9]], [[0.6, 0.4], [0.4, 0.6]]])
PRICES, LOADS = np.array([2.0, 1.5, 0.05]), np.array([np.inf, 2.0, 1.0])
ASKED = {(0, 3), (1, 3), (2, 3), (1, 0)}  # of the fourth question nobody is left
ALLOWED = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 0]], dtype=bool)


class Fading:
    """What questions teach of others, which is ever less the more were asked."""

    def __init__(self):
        self.left = np.linspace(0.1, 0.2, len(ITEMS))

    def values(self):
        return self.left

    def expect(self, question):
        self.left = self.left * (0.5 + 0.1 * abs(np.arange(len(ITEMS)) - question))


def greedy(count):
    """Question, worker and gain, in the order in which they are taken."""
    teaching, remaining, loads, left = Fading(), np.ones(5), LOADS.copy(), set(range(len(ITEMS)))
    taken, found = set(), []
    while count and (left or taken):
        if not left:
            left, taken = taken, set()
        of_others = teaching.values()
        gains = {
            one: SHARE[one] * sum(remaining[i] * OWN[i] for i in ITEMS[one]) + of_others[one]
            for one in left
        }
        best = max(gains, key=gains.__getitem__)
        left.remove(best)
        scores = {
            worker: channel_information(OUTCOMES[[best]], CHANNELS[worker])[0] / PRICES[worker]
            for worker in range(3)
            if ALLOWED[best, worker]
            and loads[worker] >= 1
            and (worker, best) not in ASKED
            and (best, worker) not in [one[:2] for one in found]
        }
        if scores:
            worker = max(scores, key=scores.__getitem__)
            loads[worker] -= 1
            count -= 1
            taken.add(best)
            found.append((best, worker, gains[best]))
            for i in ITEMS[best]:
                remaining[i] *= max(1 - SHARE[best], 0)
            teaching.expect(best)
    return found


@pytest.mark.parametrize("count", [2, 10])
def test_questions_are_taken_greedily_and_of_the_worker_who_tells_most_for_the_price(count):
    crowd = SimpleNamespace(
        ids=[*"abc"],
        codes=np.arange(3),
        prices=PRICES,
        loads=LOADS,
        rates=SimpleNamespace(pseudo_counts=lambda worker: (2.0, 1.0)),
    )
    beliefs = SimpleNamespace(own=lambda items: OWN[items])
    situation = Situation(
        pd.RangeIndex(5),
        beliefs,
        crowd,
        crowd,
        None,
        InformationGain(),
        0.0,
        np.random.default_rng(0),
    )
    questions = CandidateQuestions(
        ITEMS,
        OUTCOMES,
        lambda: CHANNELS,
        SHARE,
        lambda codes, question: np.array([(code, question) in ASKED for code in codes]),
        Fading(),
        ALLOWED,
    )
    found = choose(situation, questions, count)
    expected = greedy(count)
    assert [(one.question, one.worker) for one in found] == [one[:2] for one in expected]
    np.testing.assert_allclose([one.gain for one in found], [gain for *_, gain in expected])
    if count == 10:  # a second round asks more workers, until nobody is left
        assert [len({one[0] for one in expected[:n]}) for n in (5, 7)] == [5, 5]
        assert {worker for _, worker, _ in expected} == {0, 1, 2}
        assert len(expected) < count
    assert LOADS.tolist() == [np.inf, 2.0, 1.0]


def test_an_answer_tells_a_share_of_what_is_unknown_of_its_items():
    beliefs = SimpleNamespace(entropies=OWN)
    found = information_share(beliefs, ITEMS, OUTCOMES, CHANNELS[0])
    told = channel_information(OUTCOMES, CHANNELS[0])
    expected = [one / (OWN[i] + OWN[j] + 1e-3) for one, (i, j) in zip(told, ITEMS, strict=True)]
    np.testing.assert_allclose(found, expected)


def test_what_makes_a_question_worth_asking():
    outcomes = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    prospects, generator = Prospects(np.arange(6.0), outcomes, (4.0, 2.0)), None
    lead = [p[0] - p[1] for p in np.sort(outcomes, axis=1)[:, ::-1]]
    np.testing.assert_allclose(Margin().scores(prospects, generator), 1 - np.array(lead))
    alone = Prospects(np.ones(2), np.ones((2, 1)))
    assert Margin().scores(alone, generator).tolist() == [0.0, 0.0]
    of_rate = WorkerInformation().scores(prospects, generator)
    expected = [rate_information(np.array([max(p)]), 4.0, 2.0)[0] for p in outcomes]
    np.testing.assert_allclose(of_rate, expected)


NOBODY = CertainPairRates(np.empty((0, 2, 2)))
COINS = CertainPairRates(np.array([[[8.0, 2.0], [6.0, 3.0]], [[5.0, 4.0], [3.0, 1.0]]]))


def situation_of(q, rates=NOBODY):
    """Items of which these are the clusters, and workers with these rates."""
    items, number = len(q), len(rates.counts)
    nothing, left, ones = np.empty((0, 0)), np.empty(0), np.ones(items)
    beliefs = Beliefs(
        probabilities=q,
        entropies=entropy(q),
        answered=0 * ones,
        wanted=ones,
        components=np.empty((items, 0)),
        bound=0 * ones,
        together=nothing,
        information=nothing,
        roots=np.empty((1, 0), dtype=int),
        unasked=left,
        remaining=left,
    )
    each, nobody = np.ones(number), np.zeros(number, dtype=int)
    crowd = Crowd(
        ids=pd.RangeIndex(number),
        codes=np.arange(number),
        rates=rates,
        prices=each,
        loads=each * np.inf,
        num_answers=nobody,
    )
    asked = Asked(CrowdData(np.zeros((items, 1))))
    chance = np.random.default_rng(0)
    about = pd.RangeIndex(items), beliefs, crowd, crowd, asked
    return Situation(*about, InformationGain(), 0.0, chance)


Q = np.random.default_rng(1).dirichlet(np.ones(3), 8)
CONFUSION = np.random.default_rng(2).dirichlet(np.ones(3), (2, 3))


@pytest.mark.parametrize("rates", [NOBODY, CertainLabelRates(CONFUSION)], ids=["nobody", "a crowd"])
def test_labels_are_worth_what_somebody_of_the_crowd_tells_or_a_stranger(rates):
    found = Labels().compose(situation_of(Q, rates), 8)[0].set_index("item")["gain"]
    stranger = np.full((3, 3), 0.2 / 3) + 0.8 * np.eye(3)
    channel = stranger if rates is NOBODY else sum(CONFUSION) / 2
    unknown = entropy(Q)
    expected = channel_information(Q, channel) * unknown / (unknown + 1e-3)
    np.testing.assert_allclose(found.sort_index(), expected)
    assert found.is_monotonic_decreasing


@pytest.mark.parametrize("rates", [NOBODY, COINS], ids=["nobody", "a crowd"])
def test_pairs_are_worth_what_somebody_of_the_crowd_tells_or_a_stranger(rates):
    """Of different items, so that no answer leaves less to tell for another."""
    ends = np.array([[0, 1], [2, 3], [6, 4], [5, 7]])
    among = pd.DataFrame(ends, columns=["left", "right"])
    found = Pairs(among=among).compose(situation_of(Q, rates), 4)[0]
    # Right of same and of different in .8 and 2/3, and 5/9 and 3/4.
    same, different = ((0.8 + 5 / 9) / 2, (2 / 3 + 0.75) / 2) if rates is COINS else (0.9,) * 2
    channel = np.array([[different, 1 - different], [1 - same, same]])
    assert len(found) == 4
    for row in found.itertuples():
        alike = Q[row.left] @ Q[row.right]
        told = channel_information(np.array([[1 - alike, alike]]), channel)[0]
        unknown = entropy(Q[[row.left, row.right]]).sum()
        assert row.gain == pytest.approx(told * unknown / (unknown + 1e-3))
