"""Draws of categories: how often each is drawn, and that what is impossible never is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.partitions.categorical_draws import draw_categories, draw_categories_by


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_shares_of_draws_are_the_softmax(library):
    probabilities = np.array([[0.5, 0.3, 0.2, 0.0], [0.05, 0.0, 0.05, 0.9]])
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities) + [[3.0], [-40.0]]
    many = np.broadcast_to(logits, (20_000, 2, 4))
    if library == "torch":
        torch.manual_seed(0)
        drawn = draw_categories(torch.tensor(many)).numpy()
    else:
        drawn = draw_categories_by(np.random.default_rng(0), many)
    shares = (drawn[..., None] == np.arange(4)).mean(0)
    deviation = np.sqrt(probabilities * (1 - probabilities) / len(many))
    assert (np.abs(shares - probabilities) <= 4 * deviation).all()
