"""Information of answers against sums over everything that can be true and be said."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, xlogy

from pyro_crowdclust.asking.information import (
    channel_information,
    entropy,
    mutual_information,
    placement_information,
    rate_information,
)
from pyro_crowdclust.asking.page_questions import _Table


def information_of(joint):
    """I of the first axis and the second, from their joint probabilities."""
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    return float((xlogy(joint, joint) - xlogy(joint, np.where(joint > 0, independent, 1.0))).sum())


@pytest.mark.parametrize("coins", [(0.9, 0.8), (1.0, 1.0), (0.5, 0.5), (0.2, 0.1)])
def test_a_pair_tells_what_the_sum_over_both_clusters_and_the_answer_says(coins):
    sensitivity, specificity = coins
    left, right = np.random.default_rng(0).dirichlet(np.ones(3), 2)
    joint = np.zeros((9, 2))
    for row, (i, j) in enumerate(itertools.product(range(3), repeat=2)):
        yes = sensitivity if i == j else 1 - specificity
        joint[row] = left[i] * right[j] * np.array([1 - yes, yes])
    same = left @ right
    channel = np.array([[specificity, 1 - specificity], [1 - sensitivity, sensitivity]])
    found = channel_information(np.array([[1 - same, same]]), channel)
    assert found[0] == pytest.approx(information_of(joint), abs=1e-12)


def test_a_label_tells_what_the_sum_over_classes_says():
    rng = np.random.default_rng(1)
    q, confusion = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4)
    found = channel_information(q[None], confusion)
    assert found[0] == pytest.approx(information_of(q[:, None] * confusion), abs=1e-12)


@pytest.mark.parametrize("reliability", [0.0, 0.3, 0.9, 1.0])
def test_a_placement_tells_what_the_sum_over_groups_says(reliability):
    outcomes = np.random.default_rng(2).dirichlet(np.ones(5))
    joint = outcomes[:, None] * (
        reliability * np.eye(5) + (1 - reliability) * np.broadcast_to(outcomes, (5, 5))
    )
    found = placement_information(outcomes[None], reliability)
    assert found[0] == pytest.approx(information_of(joint), abs=1e-12)


@pytest.mark.parametrize(
    "counts",
    [(2.0, 1.0), (9.0, 2.0), (1.0, 1.0), (0.5, 0.5), (900.0, 1.0), (3000.0, 300.0), (1e6, 1e5)],
)
def test_a_known_answer_tells_of_a_rate_what_digammas_say(counts):
    right, wrong = counts
    mean = right / (right + wrong)
    expected = sum(
        share * (digamma(count + 1) - digamma(right + wrong + 1))
        for share, count in ((mean, right), (1 - mean, wrong))
    )
    closed = entropy(np.array([mean, 1 - mean])) + expected
    found = rate_information(np.ones(1), right, wrong)[0]
    assert found == pytest.approx(closed, rel=2e-3, abs=1e-12)
    assert rate_information(np.full(1, 0.5), right, wrong)[0] == pytest.approx(0.0, abs=1e-12)


def test_what_draws_tell_of_each_other_is_three_entropies_with_millers_correction():
    rng = np.random.default_rng(4)
    draws = rng.integers(3, size=(40, 4))
    draws[:, 1] = np.where(rng.random(40) < 0.8, draws[:, 0], draws[:, 1])
    draws[:, 2] = np.where(rng.random(40) < 0.6, draws[:, 0], draws[:, 2])

    def corrected(*columns):
        counts = np.array([*Counter(zip(*columns, strict=True)).values()])
        return stats.entropy(counts / 40) + (len(counts) - 1) / 80

    expected = np.array(
        [
            [corrected(one) + corrected(other) - corrected(one, other) for other in draws.T]
            for one in draws.T
        ]
    )
    assert (expected[:3, :3] > 0.05).all()
    np.testing.assert_allclose(mutual_information(draws), expected.clip(0), atol=1e-12)


def page_of(q, components=None, bound=None):
    """A table on which all rows but the last were placed, in order."""
    components = np.empty((len(q), 0)) if components is None else components
    table = _Table(q, components, np.ones(len(q)) if bound is None else bound)
    for place in range(len(q) - 1):
        table.place(place)
    return table


def test_where_an_item_goes_on_a_page_by_enumeration():
    q = np.random.default_rng(3).dirichlet(np.ones(3), 4)
    expected = np.zeros(4)
    for clusters in itertools.product(range(3), repeat=4):
        probability = np.prod(q[np.arange(4), clusters])
        expected[clusters.index(clusters[3])] += probability  # the first of its cluster
    np.testing.assert_allclose(page_of(q).outcomes()[3], expected, atol=1e-12)


def test_items_bound_to_a_component_go_together_wherever_that_goes():
    q = np.array([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]])
    components = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(page_of(q, components).outcomes()[2], [1.0, 0.0, 0.0])
    loose = np.array([1.0, 1.0, 0.0])
    np.testing.assert_allclose(page_of(q, components, loose).outcomes()[2], [0.5, 0.25, 0.25])


def partition_information(q):
    """Entropy of how a perfect worker sorts a page, by enumeration."""
    number, clusters = q.shape
    found = {}
    for assignment in itertools.product(range(clusters), repeat=number):
        key = tuple(assignment.index(cluster) for cluster in assignment)
        probability = np.prod(q[np.arange(number), assignment])
        found[key] = found.get(key, 0.0) + probability
    return float(entropy(np.array(list(found.values()))))


def page_information(q):
    """What the placements of a page are taken to tell, one after the other."""
    return sum(
        placement_information(page_of(q[: place + 1]).outcomes()[-1:], 1.0)[0]
        for place in range(1, len(q))
    )


def test_a_page_of_two_and_one_of_known_items_tell_exactly_as_much():
    q = np.random.default_rng(4).dirichlet(np.ones(4), 2)
    assert page_information(q) == pytest.approx(partition_information(q), abs=1e-12)
    known = np.vstack([np.eye(4)[:3], q[:1]])
    assert page_information(known) == pytest.approx(partition_information(known), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_page_of_unknown_items_tells_at_most_as_much_and_not_much_less(seed):
    q = np.random.default_rng(seed).dirichlet(np.ones(3), 5)
    exact = partition_information(q)
    assert exact <= page_information(q) + 1e-12
    assert page_information(q) <= 1.5 * exact
