"""Known labels in the wrong clusters: moved where the whole objective gains, and else left."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks import ClassMoves
from pyro_crowdclust.interface import mixture_for
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.results import known_class_probabilities
from pyro_crowdclust.simulation import simulate_pairs
from pyro_crowdclust.starts import default_start

KINDS = np.arange(90) % 3
# Classes a, b and c are in rows 0, 1 and 2 of the table, or in others.
TABLES = {
    "in a circle": [[0, 0, 1], [1, 0, 0], [0, 1, 0]],
    "two exchanged": [[0, 1, 0], [1, 0, 0], [0, 0, 1]],
    "two in one cluster": [[1, 0, 0], [0, 1, 1], [0, 0, 0]],
}


def crowd(distance):
    rng = np.random.default_rng(0)
    features = distance * np.eye(3)[KINDS] + rng.normal(size=(90, 3))
    said = simulate_pairs(KINDS, [0.9, 0.9], [0.9, 0.9], pairs_per_worker=150, seed=0)
    return CrowdData(features, said, known={item: "abc"[KINDS[item]] for item in range(3)})


def fit_from(table, callbacks, distance=2.0):
    """A fit whose class table begins with these counts, 20 times."""
    recipe = mixture_for(crowd(distance), num_clusters=3, components=GaussianComponents)

    def start(model, guide, data, generator):
        default_start(model, guide, data, generator)
        # Clusters in the order of the kinds, as the first three items have these.
        order = guide.infer(full_batch(data)).assignments[:3].argmax(1)
        rows = guide.posteriors["class_table"].natural_parameters
        with torch.no_grad():
            rows[order] += 20.0 * torch.tensor(table, dtype=rows.dtype)

    options = {"initialize": start, "callbacks": callbacks, "progress": False, "seed": 0}
    return recipe.fit(**options)


def accuracy(result):
    return float((known_class_probabilities(result).argmax(1) == KINDS).mean())


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_classes_move_to_the_clusters_that_have_them(table):
    left, moved = fit_from(table, []), fit_from(table, [ClassMoves()])
    assert accuracy(left) < 0.9
    assert accuracy(moved) > 0.95
    assert moved.elbo > left.elbo + 5
    (moves,) = [one.moves for one in moved.callbacks]
    assert min(gain for *_, gain in moves) > 0
    assert moved.history["class_moves"].sum() == len(moves)


def test_classes_that_are_right_stay():
    moved = fit_from(np.eye(3).tolist(), [ClassMoves()], distance=3.0)
    assert accuracy(moved) > 0.95
    assert moved.history["class_moves"].sum() == 0
