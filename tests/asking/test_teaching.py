"""What answers about pairs teach of components, against sums over draws and answers."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import xlogy

from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.teaching import ItemTeaching, PairTeaching

RNG = np.random.default_rng(0)
# Partitions of four components, named after their first ones, of which some are likelier.
PARTITIONS = np.array(
    [[0, 0, 0, 0], [0, 0, 2, 2], [0, 1, 1, 3], [0, 1, 2, 3], [0, 0, 2, 0], [0, 1, 0, 1]]
)
UNASKED = np.array([20.0, 10.0, 6.0, 3.0])
COMPONENTS = np.array([[0, 1], [2, 3], [1, 0], [0, 3], [1, 2]])


def channels(number, labels=2, rng=None):
    return (RNG if rng is None else rng).dirichlet(np.ones(labels), size=(number, 2))


def teaching(of_questions, times=4000):
    """Of so many draws that what chance would seem to tell is nothing."""
    draws = np.repeat(PARTITIONS[[0, 1, 1, 2, 3, 4, 5, 5]], times, axis=0)
    return PairTeaching(draws, UNASKED, COMPONENTS, of_questions)


def said(draws, question, of_questions):
    """p(L | draw) of a question."""
    left, right = COMPONENTS[question]
    one = (draws[:, left] == draws[:, right]).astype(int)
    return of_questions[question][one]


def information(clusters, answers):
    """I(c; L) in nats, of one component, draws being equally likely."""
    joint = np.stack([answers[clusters == one].sum(0) for one in np.unique(clusters)])
    joint = joint / joint.sum()
    apart = joint.sum(0) * joint.sum(1, keepdims=True)
    return float((xlogy(joint, joint) - xlogy(joint, apart)).sum())


def weighted(draws, answers):
    return sum(
        number * information(clusters, answers)
        for number, clusters in zip(UNASKED, draws.T, strict=True)
    )


@pytest.mark.parametrize("labels", [2, 3])
def test_a_question_tells_what_the_sum_over_draws_and_answers_says(labels):
    of_questions = channels(len(COMPONENTS), labels)
    draws = PARTITIONS[[0, 1, 1, 2, 3, 4, 5, 5]]
    expected = [weighted(draws, said(draws, one, of_questions)) for one in range(len(COMPONENTS))]
    np.testing.assert_allclose(teaching(of_questions).values(), expected, atol=5e-3)


def test_beyond_one_question_the_next_tells_what_the_sum_over_both_answers_says():
    # Of some channels no question tells much of what another does.
    of_questions = channels(len(COMPONENTS), rng=np.random.default_rng(1))
    draws = PARTITIONS[[0, 1, 1, 2, 3, 4, 5, 5]]
    first = said(draws, 1, of_questions)
    found = teaching(of_questions)
    found.expect(1)
    counted = 0
    for one in (1, 3, 4):  # two others are about the same two components, and one stands for both
        second = said(draws, one, of_questions)
        expected = sum(
            share.mean() * weighted(draws, second * (share / share.mean())[:, None])
            for share in first.T
        )
        alone = weighted(draws, second)
        assert found.values()[one] == pytest.approx(min(expected, alone), abs=5e-3)
        counted += expected < 0.9 * alone
    assert counted


def test_the_same_again_tells_little_and_what_is_unrelated_as_much_as_before():
    perfect = np.tile(np.eye(2), (len(COMPONENTS), 1, 1))
    roots = np.zeros((4096, 4), dtype=int)
    roots[:, 1] = RNG.integers(2, size=4096)
    roots[:, 2] = 2
    roots[:, 3] = 2 + RNG.integers(2, size=4096)
    found = PairTeaching(roots, UNASKED, COMPONENTS, perfect)
    before = found.values()
    assert before[0] == pytest.approx(10 * np.log(2), rel=0.01)
    assert before[1] == pytest.approx(3 * np.log(2), rel=0.01)
    found.expect(0)
    np.testing.assert_allclose(found.values()[[0, 2]], 0.0, atol=1e-9)
    assert found.values()[1] == pytest.approx(before[1], rel=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_answered_for_sure_is_worth_nothing_more_however_shares_are_rounded(seed):
    roots = np.zeros((4096, 2), dtype=int)
    roots[:, 1] = np.random.default_rng(seed).integers(2, size=4096)
    found = PairTeaching(roots, np.ones(2), np.array([[0, 1]]), np.eye(2)[None])
    found.expect(0)
    np.testing.assert_allclose(found.values(), 0.0, atol=1e-9)


def test_few_draws_of_what_is_unrelated_tell_nothing():
    roots = np.stack([np.zeros(64, int), RNG.integers(2, size=64), RNG.integers(3, size=64)], 1)
    perfect = np.eye(2)[None]
    of_others = [
        PairTeaching(roots[RNG.permutation(64)], np.array([0, 0, 1.0]), np.array([[0, 1]]), perfect)
        for _ in range(3)
    ]
    mixed = PairTeaching(
        np.column_stack([roots[:, :2], np.tile([0, 1, 2, 2], 16)]),
        np.array([0.0, 0.0, 1.0]),
        np.array([[0, 1]]),
        perfect,
    )
    assert np.mean([one.values()[0] for one in [*of_others, mixed]]) < 1.5 * 2 / (2 * 64)


def test_what_is_said_of_a_pair_depends_on_its_components_as_far_as_both_items_are_bound():
    """By enumeration: both are bound or not, and their components are one or not."""
    channel = np.array([[0.7, 0.2, 0.1], [0.15, 0.25, 0.6]])
    components = np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8], [0.3, 0.7, 0.0]])
    bound, together = np.array([0.95, 0.6, 0.8]), np.array([[1, 0.3, 0.4], [0.3, 1, 0.2]])
    beliefs = SimpleNamespace(
        components=components,
        bound=bound,
        together=np.vstack([together, [0.4, 0.2, 1]]),
        roots=PARTITIONS[:, :3],
        unasked=np.ones(3),
    )
    items, loose = np.array([[0, 1], [2, 0]]), np.array([0.35, 0.15])  # same if not both are bound
    both = np.array([0.95 * 0.9 * 0.6 * 0.8, 0.8 * 0.7 * 0.95 * 0.9])
    same = both * [0.4, 0.3] + (1 - both) * loose
    found = PairTeaching.of(beliefs, items, same, channel)
    assert found.components.tolist() == [[0, 2], [1, 0]]
    for question, one in itertools.product(range(2), range(2)):
        elsewhere = loose[question] * channel[1] + (1 - loose[question]) * channel[0]
        said = both[question] * channel[one] + (1 - both[question]) * elsewhere
        np.testing.assert_allclose(found.channels[question, one], said)
    # What the items themselves are believed to be may say more, or less, than can be.
    never = PairTeaching.of(beliefs, items, np.zeros(2), channel).channels
    np.testing.assert_allclose(never[:, 0], np.tile(channel[0], (2, 1)))
    always = PairTeaching.of(beliefs, items, np.ones(2), channel).channels
    np.testing.assert_allclose(always[:, 1], np.tile(channel[1], (2, 1)))


def test_items_one_by_one_teach_a_share_of_what_knowing_them_tells():
    components, bound = RNG.dirichlet(np.ones(3), 4), np.array([0.9, 0.5, 0.7, 1.0])
    information = np.array([[0.5, 0.1, 0.0], [0.1, 0.6, 0.2], [0.0, 0.2, 0.3]])
    untold, share = np.array([9.0, 4.0, 6.0]), np.array([0.3, 1.4])
    items = np.array([[0, 1], [3, 2]])
    nothing = np.zeros(4)
    beliefs = Beliefs(
        probabilities=np.ones((4, 1)),
        entropies=nothing,
        answered=nothing,
        wanted=nothing,
        components=components,
        bound=bound,
        together=np.eye(3),
        information=information,
        roots=np.arange(3)[None],
        unasked=untold,
        remaining=untold,
    )
    found = ItemTeaching(beliefs, items, share)

    def values(left):
        return [
            part * sum(bound[i] * (components[i] ** 2 @ information @ left) for i in own)
            for part, own in zip(share, items, strict=True)
        ]

    np.testing.assert_allclose(found.values(), values(untold))
    left = untold.copy()
    for question in (0, 1):
        found.expect(question)
        for i, m in itertools.product(items[question], range(3)):
            told = bound[i] * components[i] @ information[:, m] / information[m, m]
            left[m] *= 1 - min(share[question], 1) * told
        np.testing.assert_allclose(found.values(), values(left))
    np.testing.assert_array_equal(beliefs.remaining, untold)
