"""What a classifier says of several views, against the mean of its probabilities."""

from __future__ import annotations

import torch
from torch import nn

from pyro_crowdclust.inference import ViewPool


def test_views_of_an_item_are_averaged():
    class Moved:
        num_random = 2

        def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
            return features + amounts.sum(1, keepdim=True)

    network, features = nn.Linear(3, 4).double(), torch.randn(6, 3, dtype=torch.float64)
    amounts = torch.tensor([[0.0, 0.0], [0.5, 0.2], [-0.3, -0.4]], dtype=torch.float64)
    expected = torch.stack([network(features + by).softmax(1) for by in (0.0, 0.7, -0.7)]).mean(0)
    found = ViewPool(network, Moved(), amounts)(features).softmax(1)
    torch.testing.assert_close(found, expected)
