"""What a sorted page teaches of components, against sums over draws and over what can be seen."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import bernoulli

from pyro_crowdclust.asking.information import mutual_information
from pyro_crowdclust.asking.page_teaching import (
    ItemsTeaching,
    PageTeaching,
    _promising,
    representatives,
)

RNG = np.random.default_rng(0)
# Partitions of five components, named after their first ones, of which some are likelier.
DRAWS = np.array(
    [
        [0, 0, 0, 0, 4],
        [0, 0, 2, 2, 0],
        [0, 1, 1, 3, 3],
        [0, 1, 2, 3, 1],
        [0, 0, 2, 0, 4],
        [0, 1, 0, 1, 2],
        [0, 1, 0, 1, 2],
    ]
)
UNASKED = np.array([20.0, 10.0, 6.0, 3.0, 8.0])
STRENGTHS = np.array([0.9, 0.8, 1.0, 0.4, 0.7])
NOTHING = np.zeros(5)


def information(left, right):
    """I in nats of two columns of numbers, a row for every draw, of some weight."""
    joint = np.zeros((left.max() + 1, right.shape[1]))
    np.add.at(joint, left, right)
    joint = joint / joint.sum()
    apart = joint.sum(1, keepdims=True) * joint.sum(0)
    return float((xlogy(joint, joint) - xlogy(joint, apart)).sum())


def goes_with(page, one):
    """With whom an item goes in every draw: the first other one of its cluster, or none."""
    others = [other for other in page if other != one]
    truly = [
        next((place for place, k in enumerate(others) if draw[k] == draw[one]), len(others))
        for draw in DRAWS
    ]
    return np.eye(len(page))[truly]


def seen(page, one):
    """p(what is seen of an item | draw)."""
    found = goes_with(page, one)
    return STRENGTHS[one] * found + (1 - STRENGTHS[one]) * found.mean(0)


def tells(page):
    """max_i I(c_m; o_i) for every m, by sums over all draws and all that is seen."""
    of_items = [[information(clusters, seen(page, one)) for clusters in DRAWS.T] for one in page]
    return np.array(of_items).max(0)


def teaching(page, told=NOTHING, times=3000):
    """Of so many draws that what chance would seem to tell is nothing."""
    draws = np.repeat(DRAWS, times, axis=0)
    found = PageTeaching(draws, mutual_information(draws), UNASKED, told)
    for component in page:
        found.place(component, STRENGTHS[component])
    return found


@pytest.mark.parametrize("page", [[1], [3, 1], [4, 0, 2], [2, 0, 1, 3]])
@pytest.mark.parametrize("told", [NOTHING, np.array([0.0, 0.3, 0.1, 0.8, 0.2])])
def test_a_page_tells_what_the_sum_over_draws_and_what_is_seen_says(page, told):
    before = np.maximum(tells(page), told)
    found = teaching(page, told)
    np.testing.assert_allclose(found.gained, before, atol=2e-3)
    expected = [
        np.maximum(tells([*page, more]) - before, 0) @ UNASKED
        for more in range(5)
        if more not in page
    ]
    others = np.delete(found.values(STRENGTHS), page)
    np.testing.assert_allclose(others, expected, atol=0.05)


@pytest.mark.parametrize("page", [[0, 1], [1, 2], [0, 1, 2], [4, 3, 1], [0, 1, 2, 3, 4]])
def test_all_of_a_page_tells_at_least_as_much_and_of_two_items_the_same(page):
    found = teaching([])
    for component in page:
        found.place(component, 1.0)
    groups = [tuple(list(draw).index(cluster) for cluster in draw) for draw in DRAWS[:, page]]
    _, sorted_page = np.unique(groups, axis=0, return_inverse=True)
    of_page = np.eye(len(DRAWS))[sorted_page.ravel()]
    exact = np.array([information(clusters, of_page) for clusters in DRAWS.T])
    assert (found.gained <= exact + 2e-3).all()
    if len(page) == 2:
        np.testing.assert_allclose(found.gained, exact, atol=2e-3)
    assert found.gained @ UNASKED > 0.4 * (exact @ UNASKED)


@pytest.mark.parametrize("page", [[1], [3, 1], [4, 0, 2], [2, 0, 1, 3]])
def test_of_few_draws_what_chance_tells_is_taken_off(page):
    """``s^2 (outcomes - 1) (clusters - 1) / 2 R``, of all that was on the page at any time."""
    expected = NOTHING
    for size in range(1, len(page) + 1):
        for one in page[:size]:
            said = seen(page[:size], one)
            outcomes = goes_with(page[:size], one).any(0).sum()
            chance = STRENGTHS[one] ** 2 * (outcomes - 1) / (2 * 2 * len(DRAWS))
            found = [
                information(clusters, said) - chance * (len(set(clusters)) - 1)
                for clusters in DRAWS.T
            ]
            expected = np.maximum(expected, found)
    order = [3, 1, 4, 0, 2]
    draws = np.repeat(DRAWS[:, order], 2, axis=0)
    few = PageTeaching(draws, np.zeros((5, 5)), UNASKED, NOTHING)
    for component in page:
        few.place(order.index(component), STRENGTHS[component])
    np.testing.assert_allclose(few.gained, expected[order], atol=1e-12)
    if len(page) > 1:
        assert (expected > 0).sum() > 2


def test_few_draws_of_what_is_unrelated_tell_nothing():
    values = []
    for _ in range(20):
        draws = np.stack([np.zeros(64, int), RNG.integers(2, size=64), RNG.integers(3, size=64)], 1)
        found = PageTeaching(draws, np.zeros((3, 3)), np.array([0.0, 0.0, 1.0]), np.zeros(3))
        found.place(0, 1.0)
        values.append(found.values(np.ones(3))[1])
    assert np.mean(values) < 2 * 1 / (2 * 64)


def beliefs(number=3, per_component=4, draws=2000):
    """Items of components that may be one or not; of each one is heard, and one is not bound."""
    components = np.repeat(np.eye(number), per_component, axis=0)
    # Each is one with the first one, or not, whatever the others are.
    roots = np.where(RNG.random((draws, number)) < 0.5, 0, np.arange(number))
    together = (roots[:, :, None] == roots[:, None]).mean(0)
    return SimpleNamespace(
        components=components,
        bound=np.tile([1.0, 0.95, 0.8, 0.3], number),
        answered=np.tile([0.9, 0.0, 0.0, 0.0], number),
        roots=roots,
        together=together,
        information=mutual_information(roots),
        unasked=np.full(number, 10.0),
    )


def test_the_core_speaks_for_a_component_and_not_what_was_heard():
    of_items = ItemsTeaching(beliefs(), np.arange(12), 1.0, told := np.zeros(3))
    of_items.place(1)
    values = of_items.values(np.ones(12, dtype=bool))
    assert values[4] < 0.02 * values[5]
    of_items.place(5)
    assert told[1] == pytest.approx(0.8 * np.log(2), rel=0.1)
    assert told[2] == pytest.approx(0.0, abs=0.01)
    after = of_items.values(np.ones(12, dtype=bool))
    assert after[5] < 0.2 * values[5]  # it was told
    assert after[9] > 0.9 * values[9]
    # Of another page of the batch, too; but an item that is not bound tells nothing.
    again = ItemsTeaching(beliefs(), np.arange(12), 1.0, told)
    again.place(3)
    again.place(11)
    assert told[2] == pytest.approx(0.0, abs=0.01)


def test_an_item_has_the_square_of_its_share_in_what_its_best_one_tells():
    of = beliefs()
    of.components = 0.85 * of.components + 0.05
    of_items = ItemsTeaching(of, np.arange(12), 0.8, np.zeros(3))
    page = PageTeaching(of.roots, of.information, of.unasked, np.zeros(3))
    strength = 0.8 * (1 - of.answered) * of.bound * 0.9
    share = np.array([0.1, 0.95, 0.8, 0.3]) / 0.95
    for place in (None, 1, 6):
        if place is not None:
            of_items.place(place)
            page.place(place // 4, strength[place])
        best = page.values(np.full(3, strength[1]))
        values = of_items.values(np.ones(12, dtype=bool))
        np.testing.assert_allclose(values, np.outer(best, share**2).ravel())
        assert values.max() > 1


def test_before_there_is_a_page_an_item_tells_of_its_cluster_as_far_as_that_is_seen():
    found = teaching([], np.full(5, 0.1))
    told = np.outer(STRENGTHS**2, np.ones(5)) * mutual_information(np.repeat(DRAWS, 3000, axis=0))
    np.testing.assert_allclose(found.values(STRENGTHS), (told - 0.1).clip(0) @ UNASKED)


def test_a_page_is_about_components_of_which_there_is_something_to_tell():
    many = beliefs(60, draws=200)
    everywhere = many.together.copy()
    many.together[:, 30:] = many.together[30:] = 0.0
    np.fill_diagonal(many.together, 1.0)
    chosen = _promising(many, np.zeros(60))
    assert len(chosen) == 40
    assert set(range(30)) <= set(chosen)
    told = np.zeros(60)
    told[1:15] = np.log(2)
    many.together = everywhere
    chosen = _promising(many, told)
    assert 0 in chosen  # which the others may be one with
    assert len(set(range(1, 15)) & set(chosen)) <= 3


def test_components_are_chosen_by_what_is_left_to_tell_of_them_and_of_those_in_doubt():
    many = beliefs(60, draws=200)
    many.unasked, told = RNG.uniform(0, 20, 60), RNG.uniform(0, 1.5, 60)
    left = [
        count * max(1 - heard / max(own, 1e-9), 0)
        for count, heard, own in zip(many.unasked, told, many.information.diagonal(), strict=True)
    ]
    doubt = bernoulli.entropy(many.together)
    score = [
        sum(doubt[one, other] * (left[one] + left[other]) for other in range(60))
        for one in range(60)
    ]
    assert set(_promising(many, told)) == set(np.argsort(score)[20:])


def test_every_component_has_somebody_to_speak_for_it():
    found = representatives(beliefs(), 1)
    assert found.tolist() == [1, 5, 9]
    # What was heard speaks last.
    assert representatives(beliefs(), 3).tolist() == [1, 2, 3, 5, 6, 7, 9, 10, 11]
    assert len(representatives(beliefs(), 100)) == 12
