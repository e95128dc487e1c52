"""Loops that are compiled; what they draw is tested with those who call them."""

from __future__ import annotations

import numpy as np

from pyro_crowdclust.partitions import gibbs


def test_places_are_drawn_by_their_odds():
    log_odds, chances = np.log([0.2, 0.5, 0.3, 9.0]), np.random.default_rng(0).random(4000)
    places = [gibbs.place_of(log_odds.copy(), 3, chance) for chance in chances]
    np.testing.assert_allclose(np.bincount(places) / 4000, [0.2, 0.5, 0.3], atol=0.03)
    assert gibbs.place_of(np.array([-np.inf, 0.0, -np.inf]), 3, 1.0) == 1
