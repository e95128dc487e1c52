from __future__ import annotations

import pytest
import torch
from torch import nn

from pyro_crowdclust.networks import SkipMLP

SIZES, DIM = (4, 7, 6, 3), 2


@pytest.mark.parametrize("sizes", [(4, 3), (4, 7, 3), SIZES])
def test_a_skip_mlp_starts_linear(sizes):
    network = SkipMLP(sizes)
    x = torch.randn(5, 2, 4)
    assert torch.equal(network(x), network.skip(x))
    weight, bias = torch.randn(3, 4), torch.randn(3)
    network.set_linear(weight, bias)
    torch.testing.assert_close(network(x), x @ weight.mT + bias)


def test_a_skip_mlp_does_not_stay_linear():
    """The zeros of the last layer have a gradient, and behind it the others."""
    network, x = SkipMLP(SIZES), torch.randn(50, 4)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    target = x.abs()[:, :3]
    losses = []
    for _ in range(150):
        loss = (network(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    linear = torch.cat([x, torch.ones(50, 1)], 1)
    best_linear = torch.linalg.lstsq(linear, target).solution
    assert losses[-1] < (linear @ best_linear - target).square().mean() / 2


def test_a_part_of_the_outputs_is_set_linear():
    network = SkipMLP(SIZES)
    before = network.skip.weight[1:].clone()
    network.set_linear(torch.ones(1, 4), torch.ones(1))
    assert torch.equal(network.skip.weight[0], torch.ones(4))
    assert torch.equal(network.skip.weight[1:], before)


def test_a_skip_mlp_is_drawn_anew():
    torch.manual_seed(0)
    one, other = SkipMLP(SIZES), SkipMLP(SIZES)
    nn.init.normal_(other.output.weight)
    torch.manual_seed(0)
    other.draw_parameters()
    torch.manual_seed(0)
    one.draw_parameters()
    for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)
