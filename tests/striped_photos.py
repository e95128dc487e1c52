"""Photographs of stripes, which patches tell apart and pixels do not, and a guide to name them."""

from __future__ import annotations

import torch

from pyro_crowdclust.emissions import NormalEmission
from pyro_crowdclust.guides import AmortizedGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, SkipMLP

SIZE = 12


def stripes(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy stripes at any place: down, across, or both ways."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.arange(count) % 3
    start = 6.3 * torch.rand(count, 1, generator=generator)
    wave = torch.sin(1.5 * torch.arange(SIZE) + start)
    down, across = wave[:, None, :].expand(-1, SIZE, -1), wave[:, :, None].expand(-1, -1, SIZE)
    both = down + across
    images = torch.where((kind == 0)[:, None, None], down, across)
    images = torch.where((kind == 2)[:, None, None], both, images)
    noise = torch.randn(count, SIZE, SIZE, generator=generator)
    return (images + 0.5 * noise).flatten(1), kind


def guide_with(classifier: torch.nn.Module) -> AmortizedGuide:
    emission = NormalEmission(SkipMLP((2, 8, SIZE**2)), SIZE**2)
    model = SemiCrowdsourcedMixture(DirichletWeights(3, 1.0), GaussianComponents(3, 2), emission)
    recognition = AmortizedRecognition((SIZE**2, 16), 2, 3, classifier=classifier)
    return AmortizedGuide(model, recognition)
