"""The network of patches against loops, and its patterns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pyro_crowdclust.networks import PatchClassifier

IMAGE = (2, 7, 8)


def some_network(**options: object) -> PatchClassifier:
    network = PatchClassifier(IMAGE, 4, num_patterns=3, size=3, **options).double()
    for name in ("patterns", "offsets", "location", "scale"):
        buffer = getattr(network, name)
        buffer.copy_(torch.rand(buffer.shape) + 0.3)
    return network


def looped(network: PatchClassifier, image: np.ndarray) -> np.ndarray:
    """Mean responses of one image, patch by patch."""
    rows, columns = (range(0, length - 2, network.stride) for length in IMAGE[1:])
    responses = np.empty((3, len(rows), len(columns)))
    for a, row in enumerate(rows):
        for b, column in enumerate(columns):
            patch = image[:, row : row + 3, column : column + 3].ravel()
            normal = patch - patch.mean()
            normal = normal / np.sqrt(patch.var() + 0.05**2)
            responses[:, a, b] = network.patterns.numpy() @ normal - network.offsets.numpy()
    sums = []
    for signed in (responses, -responses):
        kept = torch.from_numpy(np.maximum(signed - 0.25, 0))
        sums.append(nn.functional.adaptive_avg_pool2d(kept, 2).numpy())
    return np.concatenate(sums).ravel()


@pytest.mark.parametrize("options", [{}, {"stride": 2}])
def test_logits_are_those_of_the_formula(options):
    network = some_network(**options)
    images = torch.randn(5, *IMAGE)
    means = np.stack(
        [
            (looped(network, image) + looped(network, image[:, :, ::-1])) / 2
            for image in images.numpy()
        ]
    )
    seen = (means - network.location.numpy()) / network.scale.numpy()
    weight, bias = (parameter.detach().numpy() for parameter in network.head.parameters())
    found = network(images.flatten(1)).detach().numpy()
    np.testing.assert_allclose(found, seen @ weight.T + bias, atol=1e-10)


def test_patterns_are_what_patches_look_like():
    """Stripes down and stripes across: every pattern is one or the other."""
    generator = torch.Generator().manual_seed(0)
    stripes = torch.tensor([1.0, 1.0, -1.0]).repeat(4)
    shifts = torch.randint(3, (200,), generator=generator)
    rows = torch.stack([stripes.roll(int(shift)) for shift in shifts])
    across = torch.arange(200)[:, None, None] % 2 == 0
    images = torch.where(across, rows[:, :, None], rows[:, None, :])
    images = images + 0.01 * torch.randn(200, 12, 12, generator=generator)
    network = PatchClassifier((1, 12, 12), 2, num_patterns=6, size=3).double()
    network.learn_patterns(images.flatten(1), generator, 2000)
    pattern = network.patterns.unflatten(1, (3, 3))
    along = torch.minimum(pattern.std(1).mean(1), pattern.std(2).mean(1))
    assert float((along / pattern.std((1, 2))).max()) < 0.25
    pooled = network.pooled(images.flatten(1))
    network.standardize(pooled)
    torch.testing.assert_close(network.standardized(pooled).mean(0), torch.zeros(6 * 2 * 4))
