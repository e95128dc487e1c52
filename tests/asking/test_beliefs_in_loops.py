"""All that is believed of items and components, against the formulas item by item."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, logit

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.evidence import component_gain
from pyro_crowdclust.asking.information import mutual_information
from pyro_crowdclust.asking.partitions import draw_roots
from pyro_crowdclust.distributions.summaries import MixtureSummary

NUM_ITEMS, COINS = 40, np.array([[[0.9, 0.1], [0.2, 0.8]]])
# Five components, one of which nothing is of, and the clusters that own them. Clusters come in
# falling order of their sizes, and within these components do.
OWNERS = np.array(
    [[0.1, 0.9, 0.0], [0.8, 0.2, 0.0], [0.0, 0.3, 0.7], [0.2, 0.0, 0.8], [1.0, 0.0, 0.0]]
)
HARD = np.eye(3)[[2, 2, 0, 0, 1]]
IN_ORDER, PLAIN_ORDER = [3, 2, 1, 0], [3, 1, 2, 0]


def result_of(owners: np.ndarray | None, guide: object = None) -> SimpleNamespace:
    rng = np.random.default_rng(1)
    sizes = np.array([1.0, 2.0, 1.8, 4.0])
    alone, after = (np.zeros((NUM_ITEMS, 5)) for _ in range(2))
    alone[:, :4], after[:, :4] = (
        rng.dirichlet(sizes / 5, NUM_ITEMS),
        rng.dirichlet(sizes / 5, NUM_ITEMS),
    )
    said = {"left": [0, 1, 2, 3], "right": [10, 11, 12, 13], "worker": ["ann"] * 4}
    return SimpleNamespace(
        data=CrowdData(np.zeros((NUM_ITEMS, 1)), said | {"label": [1, 0, 0, 1]}),
        probabilities=after,
        component_probabilities=torch.from_numpy(after),
        component_probabilities_by_features=torch.from_numpy(alone),
        owners=owners,
        guide=guide,
        model=None,
        latent_means=np.random.default_rng(2).normal(size=(NUM_ITEMS, 2)),
    )


class Mixture:
    """A guide that has places of the components alone."""

    places = np.random.default_rng(3).normal(size=(5, 2))

    def mixture(self) -> MixtureSummary:
        spread = torch.tensor([[4.0, 0.5], [0.5, 1.0]]).double().expand(5, 2, 2)
        weights = torch.tensor([0.1, 0.3, 0.2, 0.4, 0.0])
        return MixtureSummary(weights, torch.from_numpy(self.places), spread)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    away = np.subtract(one, other)
    return float(away @ np.linalg.solve([[4.0, 0.5], [0.5, 1.0]], away))


def near_larger(order: list[int], is_mixture: bool) -> np.ndarray:
    """Shares of the larger components, by distances that are ruled by that to the nearest one."""
    near = np.tril(np.ones((4, 4)), -1)
    if is_mixture:
        squares = np.array(
            [
                [distance(one, other) for other in Mixture.places[order]]
                for one in Mixture.places[order]
            ]
        )
        np.fill_diagonal(squares, np.inf)
        near *= np.exp(-2 * squares / squares.min(1).mean())
    return near / np.maximum(near.sum(1, keepdims=True), 1e-300)


def depths(alone: np.ndarray, order: list[int], points: np.ndarray) -> np.ndarray:
    """Of every item the rank of its distance among those of its component."""
    component, depth = alone.argmax(1), np.zeros(NUM_ITEMS)
    far = [
        distance(point, Mixture.places[order[k]])
        for point, k in zip(points, component, strict=True)
    ]
    for i in range(NUM_ITEMS):
        mates = [j for j in range(NUM_ITEMS) if component[j] == component[i]]
        nearer = sum(far[j] < far[i] for j in mates)
        depth[i] = 0.5 - (nearer + 0.5) / len(mates)
    return depth


@pytest.mark.parametrize("is_mixture", [False, True])
@pytest.mark.parametrize(
    ("owners", "order"),
    [(OWNERS, IN_ORDER), (HARD, IN_ORDER), (None, PLAIN_ORDER)],
    ids=["owners", "hard owners", "no owners"],
)
def test_beliefs_are_what_the_formulas_say(owners, order, is_mixture):
    rng = np.random.default_rng(0)
    result = result_of(owners, Mixture() if is_mixture else None)
    heard = np.where(np.arange(NUM_ITEMS) < 15, rng.random(NUM_ITEMS), 0.0)
    wanted = (np.arange(NUM_ITEMS) % 3 > 0).astype(float)
    found = Beliefs.of(result, heard, wanted, COINS, np.random.default_rng(5))

    alone = result.component_probabilities_by_features.numpy()[:, order]
    after = result.component_probabilities.numpy()[:, order]
    clusters = np.eye(5)[order] if owners is None else owners[order]
    kept, left = np.full(4, 9.0), np.full(4, 1.0)
    for h, by_answers, by_features in zip(heard, after, alone, strict=True):
        stayed = sum(
            by_answers[k] * by_features[m] * (1 if k == m else clusters[k] @ clusters[m])
            for k in range(4)
            for m in range(4)
        )
        kept, left = kept + h * stayed * by_features, left + h * (1 - stayed) * by_features
    purity = kept / (kept + left)
    depth = depths(alone, order, result.latent_means) if is_mixture else 0.0
    unheard = expit(logit(alone @ purity) + 6 * depth)
    bound = heard + (1 - heard) * unheard
    np.testing.assert_allclose(found.bound, bound)
    components = np.array(
        [h * b + (1 - h) * a for h, a, b in zip(heard, alone, after, strict=True)]
    )
    np.testing.assert_allclose(found.components, components)

    # Draws of what is one, and where clusters own components a third as many of what the fit says.
    near, own = near_larger(order, is_mixture), clusters.argmax(1)
    gain = component_gain(result.data, alone, unheard, COINS)
    roots = draw_roots(gain, near, own, np.random.default_rng(5))
    if owners is not None:
        first = [next(m for m in range(4) if own[m] == own[k]) for k in range(4)]
        roots = np.vstack([roots, [first] * (len(roots) // 3)])
    np.testing.assert_array_equal(found.roots, roots)
    np.testing.assert_allclose(found.information, mutual_information(roots))
    together = [[(roots[:, k] == roots[:, m]).mean() for m in range(4)] for k in range(4)]
    np.testing.assert_allclose(found.together, together)

    named = np.array([[(roots[:, k] == c).mean() for c in range(4)] for k in range(4)])
    q = [
        b * (z @ named) + (1 - b) * (a @ near @ named)
        for b, z, a in zip(bound, components, alone, strict=True)
    ]
    np.testing.assert_allclose(found.probabilities, [row / row.sum() for row in q])
    np.testing.assert_allclose(found.entropies, stats.entropy(np.array(q), axis=1))
    unasked = sum(w * (1 - h) * a * purity for w, h, a in zip(wanted, heard, alone, strict=True))
    np.testing.assert_allclose(found.unasked, unasked)
    answered = sum(h * a for h, a in zip(heard, alone, strict=True))
    np.testing.assert_allclose(found.remaining, unasked / (1 + answered / 5))
    check_items(found)


def check_items(found: Beliefs) -> None:
    """What is read of beliefs about items."""
    q, bound, components = found.probabilities, found.bound, found.components
    left, right = np.array([0, 3, 20]), np.array([7, 30, 39])
    expected = []
    for i, j in zip(left, right, strict=True):
        both = bound[i] * bound[j]
        expected.append(
            both * components[i] @ found.together @ components[j] + (1 - both) * q[i] @ q[j]
        )
    np.testing.assert_allclose(found.same(left, right), expected)
    np.testing.assert_allclose(found.own(left), found.wanted[left] * found.entropies[left])
    for number in (1, 2, 6):
        surest = {i for column in q.T for i in np.argsort(-column)[:number]}
        assert set(found.most_certain(number)) == surest
    assert len(found.most_certain(1000)) == NUM_ITEMS
    every = np.arange(NUM_ITEMS)
    known = [found.answered[i] > 0.5 and max(q[i]) > 0.9 for i in every]
    assert found.is_known(every).tolist() == known
    assert 0 < sum(known) < 10
