"""Advice is given where it is due, and only there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.advice import advice
from pyro_crowdclust.simulation import simulate_pairs

FINE = np.arange(120) % 12  # twelve kinds, in two far groups of six
FEATURES = 30.0 * (FINE % 2)[:, None] + np.random.default_rng(0).normal(size=(120, 2))
PAIRS = simulate_pairs(FINE, [0.95] * 3, [0.95] * 3, pairs_per_worker=300, seed=0)


def test_nothing_to_say_of_a_good_fit():
    coarse = simulate_pairs(FINE % 2, [0.95] * 3, [0.95] * 3, pairs_per_worker=100, seed=0)
    assert advice(cluster(FEATURES, coarse, num_clusters=6, progress=False)) == []


def test_clusters_coarser_than_what_workers_were_asked():
    (sentence,) = advice(cluster(FEATURES[:, :1], PAIRS, num_clusters=1, progress=False))
    assert sentence.startswith("most answers come from workers who seem to guess")


def test_training_that_was_cut_short():
    result = cluster(FEATURES, num_clusters=6, epochs=10, step_size=0.02, progress=False)
    assert advice(result) == ["the ELBO was still rising at the end: train for more epochs"]


@pytest.mark.parametrize("stop_reason", ["converged: ...", "interrupted by the user"])
def test_only_a_budget_cuts_training_short(stop_reason):
    class Result:
        history = pd.DataFrame({"elbo": np.arange(20.0)})
        clusters = pd.DataFrame({"assigned_items": [5, 0]})
        data = cluster(FEATURES, num_clusters=2, epochs=1, progress=False).data
        guide = None

    Result.stop_reason = stop_reason
    assert advice(Result) == []
