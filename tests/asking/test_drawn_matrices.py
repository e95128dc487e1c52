"""Classes and labels under draws of confusion matrices, by Bayes' rule for one item at a time."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.drawn_matrices import DrawnMatrices

# Cem cannot be asked, and dee has not answered yet.
SAID = {
    "item": [0, 0, 1, 1, 3, 3],
    "worker": ["ann", "bob", "ann", "cem", "bob", "cem"],
    "label": [0, 1, 2, 2, 0, 1],
}
DATA = CrowdData(None, labels=SAID, item_ids=range(5))
LABELS = {0: [("ann", 0), ("bob", 1)], 1: [("ann", 2), ("cem", 2)], 3: [("bob", 0), ("cem", 1)]}
ASKABLE = ["bob", "dee", "ann"]
PRIOR = np.array([0.5, 0.3, 0.2])
RNG = np.random.default_rng(0)
MEAN = dict(zip(["ann", "bob", "cem", "dee"], RNG.dirichlet(np.ones(3), (4, 3)), strict=True))
DRAWS = [dict(zip(MEAN, RNG.dirichlet(np.ones(3), (4, 3)), strict=True)) for _ in range(6)]


def given(labels, matrices):
    """``p(z = c)`` after labels by (worker, label)."""
    p = PRIOR.copy()
    for worker, label in labels:
        p = p * matrices[worker][:, label]
    return p / p.sum()


class Drawn:
    """A crowd with these draws, one after the other."""

    def __init__(self, names):
        self.ids = names
        self.codes = DATA.worker_ids.get_indexer(names)
        self.rates, self._draws = self, iter(DRAWS)

    def draw(self, generator):
        of_all = next(self._draws)
        # Who has answered is drawn once, among everybody.
        here = self.ids == ["ann", "bob", "cem"]
        return np.stack([of_all[name] if here or name == "dee" else np.eye(3) for name in self.ids])

    def label_channels(self, rates, num_clusters=None):
        """Of rates, or, as a crowd, of the means."""
        return np.stack([MEAN[name] for name in self.ids]) if num_clusters is None else rates


def drawn():
    """q is that of the mean matrices, so that draws give what Bayes' rule gives with them."""
    q = np.stack([given(LABELS.get(item, []), MEAN) for item in range(5)])
    parts = {
        "crowd": Drawn(ASKABLE),
        "everybody": Drawn(["ann", "bob", "cem"]),
        "generator": np.random.default_rng(1),
        "beliefs": SimpleNamespace(probabilities=q),
        "asked": Asked(DATA),
    }
    return DrawnMatrices(SimpleNamespace(**parts), len(DRAWS))


def test_classes_are_those_of_the_drawn_matrices():
    items = np.array([3, 0, 2])
    found = drawn().classes(items)
    expected = [[given(LABELS.get(item, []), draw) for item in items] for draw in DRAWS]
    np.testing.assert_allclose(found, expected)


def test_labels_are_those_of_the_drawn_classes_and_matrices():
    items = np.array([1, 4])
    found = drawn().labels(items)
    expected = [
        [[given(LABELS.get(item, []), draw) @ draw[who] for who in ASKABLE] for item in items]
        for draw in DRAWS
    ]
    np.testing.assert_allclose(found, expected)


def test_items_without_labels_have_one_that_may_come():
    """By a worker who is best in some draw; items with labels keep those alone."""
    best = {max(ASKABLE, key=lambda who: np.trace(draw[who])) for draw in DRAWS}
    assert len(best) > 1
    possible = {
        (worker, label): np.stack([given([(worker, label)], draw) for draw in DRAWS])
        for worker in best
        for label in range(3)
    }
    expected = np.stack([given(LABELS[0], draw) for draw in DRAWS])
    one, came = drawn(), []
    for _ in range(300):
        found = one.classes_to_come(np.array([0, 2, 4]))
        np.testing.assert_allclose(found[:, 0], expected)
        for item in (1, 2):
            same = [key for key, p in possible.items() if np.allclose(found[:, item], p)]
            assert len(same) == 1
            came += same
    # Labels have the shares that the prior and the mean matrices predict.
    for worker in best:
        labels = np.array([label for by, label in came if by == worker])
        shares = np.bincount(labels, minlength=3) / len(labels)
        np.testing.assert_allclose(shares, PRIOR @ MEAN[worker], atol=0.12)
