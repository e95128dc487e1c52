"""The classifier of photographs against its formula."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, group_norm

from pyro_crowdclust.networks import ResidualClassifier

IMAGE = (3, 8, 12)


def test_logits_are_those_of_the_formula():
    network = ResidualClassifier(IMAGE, 4, width=16).double()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.2)
    values = network.state_dict()

    def normalized(x: Tensor, name: str) -> Tensor:
        groups = x.shape[1] // 16
        return group_norm(x, groups, values[f"{name}.weight"], values[f"{name}.bias"]).relu()

    images = torch.randn(5, *IMAGE, dtype=torch.float64)
    x = conv2d(images, values["layers.0.weight"], values["layers.0.bias"], 2, 1)
    for block, stride in ((1, 1), (2, 2), (3, 2)):
        name = f"layers.{block}"
        entered = normalized(x, f"{name}.enter.0")
        change = conv2d(entered, values[f"{name}.first.0.weight"], None, stride, 1)
        change = normalized(change, f"{name}.first.1")
        if stride > 1:
            x = conv2d(entered, values[f"{name}.skip.weight"], None, stride)
        x = x + conv2d(change, values[f"{name}.last.weight"], None, 1, 1)
    pooled = normalized(x, "layers.4").mean((2, 3))
    expected = pooled @ values["layers.8.weight"].mT + values["layers.8.bias"]
    torch.testing.assert_close(network(images.flatten(1)), expected)


def test_blocks_change_nothing_before_training():
    network = ResidualClassifier(IMAGE, 4, width=16, blocks=2)
    first, second = network.layers[1], network.layers[2]
    x = torch.randn(2, 16, 4, 6)
    assert torch.equal(second(first(x)), x)
