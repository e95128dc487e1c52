"""The classifier of photographs against its formula."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, max_pool2d

from pyro_crowdclust.networks import ResidualClassifier

IMAGE = (3, 16, 20)


def some_network() -> ResidualClassifier:
    network = ResidualClassifier(IMAGE, 4, width=5).double()
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            value.copy_(0.2 * torch.randn(value.shape) + (1.0 if "var" in name else 0.0))
    return network


def test_logits_are_those_of_the_formula():
    network = some_network()
    values = network.state_dict()

    def normalized(x: Tensor, name: str) -> Tensor:
        names = "running_mean", "running_var", "weight", "bias"
        return batch_norm(x, *(values[f"{name}.{part}"] for part in names)).relu()

    images = torch.randn(5, *IMAGE, dtype=torch.float64)
    x = conv2d(images, values["whitening"].reshape(48, 3, 4, 4), None, 2, 1)
    for block in range(3):
        name = f"blocks.{block}"
        x = conv2d(x, values[f"{name}.enter.0.weight"], None, 1, 1)
        x = normalized(max_pool2d(x, 2, ceil_mode=True), f"{name}.enter.2")
        change = conv2d(x, values[f"{name}.change.0.weight"], None, 1, 1)
        x = x + normalized(change, f"{name}.change.1")
    expected = x.amax((2, 3)) @ values["head.weight"].mT + values["head.bias"]
    torch.testing.assert_close(network(images.flatten(1)), expected)


def test_others_of_a_batch_matter_while_it_is_taught_and_never_after():
    network = some_network()
    images = torch.randn(6, 960, dtype=torch.float64)
    torch.testing.assert_close(network(images)[:2], network(images[:2]))
    network.train()
    assert not torch.allclose(network(images)[:2], network(images[:2]))


def test_patches_are_white_after_the_first_filters():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(200, *IMAGE, generator=generator, dtype=torch.float64)
    images = images + images.roll(1, 2) + 2 * images.roll(1, 3) + images.mean(1, keepdim=True)
    network = ResidualClassifier(IMAGE, 4, width=2).double()
    network.learn_patterns(images.flatten(1), generator, num_patches=20_000)
    patches = nn.functional.unfold(images, 4, stride=2).transpose(1, 2).flatten(0, 1)
    covariance = torch.cov((patches @ network.whitening.mT).mT)
    torch.testing.assert_close(covariance, torch.eye(48).double(), atol=0.12, rtol=0)
