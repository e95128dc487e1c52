"""A residual network for q(z | o) of photographs, small enough for a CPU.

Images are rows of ``channels * height * width`` numbers, channels first. Batch normalization uses
the statistics of a batch only in training mode (``train()``), for batches of random items, and its
running statistics otherwise: the images of a page are not a random sample, but often of a few
classes, and the bound is a sum over items.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.parts import described

# Size, stride and padding of the first filters, in pixels.
_SIZE, _STRIDE, _BORDER = 4, 2, 1
# This share of the mean variance of patches is added to every variance before whitening.
_ADDED_VARIANCE = 0.01


class _HalvingBlock(nn.Module):
    """``x + relu(norm(conv(x)))`` with ``x = relu(norm(max_pool_2x2(conv(image))))``."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(
            nn.Conv2d(channels, size, 3, padding=1, bias=False),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.BatchNorm2d(size),
            nn.ReLU(),
        )
        self.change = nn.Sequential(
            nn.Conv2d(size, size, 3, padding=1, bias=False), nn.BatchNorm2d(size), nn.ReLU()
        )

    def forward(
        self, image: Float[Tensor, "item channel height width"]
    ) -> Float[Tensor, "item size small_height small_width"]:
        x = self.enter(image)
        return x + self.change(x)


@described
class ResidualClassifier(nn.Module):
    """Whitened patches, three residual blocks that halve the resolution, and logits: q(z | o).

    Patches of 4 x 4 pixels with stride 2 are whitened by filters that ``learn_patterns`` computes
    and that are not trained; a step then takes a quarter of the time at full resolution. Logits are
    linear in the maximum of every channel over the image.

    Parameters
    ----------
    image_shape
        Channels, height and width.
    num_outputs
        Number of outputs, K.
    width
        Channels of the first block; the others have twice as many.

    Examples
    --------
    >>> import torch
    >>> ResidualClassifier((3, 32, 32), 10, width=4)(torch.rand(5, 3072)).shape
    torch.Size([5, 10])
    """

    whitening: Tensor

    def __init__(
        self, image_shape: tuple[int, int, int], num_outputs: int, width: int = 64
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        entries = image_shape[0] * _SIZE**2
        self.register_buffer("whitening", torch.eye(entries))
        self.blocks = nn.Sequential(
            _HalvingBlock(entries, width),
            _HalvingBlock(width, 2 * width),
            _HalvingBlock(2 * width, 2 * width),
        )
        self.head = nn.Linear(2 * width, num_outputs)
        self.eval()

    def draw_parameters(self) -> None:
        """Draw all layers; the first filters are learned, not drawn."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
                layer.reset_parameters()

    @torch.no_grad()
    def learn_patterns(
        self,
        images: Float[Tensor, "item feature"],
        generator: torch.Generator,
        num_patches: int = 40_000,
    ) -> None:
        """Compute the filters that whiten patches: principal components with unit variance."""
        patches = self._patches(images.unflatten(-1, self.image_shape))
        drawn = torch.randint(len(patches), (num_patches,), generator=generator)
        values, vectors = torch.linalg.eigh(torch.cov(patches[drawn].mT))
        self.whitening.copy_((vectors / (values + _ADDED_VARIANCE * values.mean()).sqrt()).mT)

    @staticmethod
    def _patches(
        images: Float[Tensor, "item channel height width"],
    ) -> Float[Tensor, "patch entry"]:
        windows = images.unfold(2, _SIZE, _STRIDE).unfold(3, _SIZE, _STRIDE)
        return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(0, 2)

    def forward(self, images: Float[Tensor, "item feature"]) -> Float[Tensor, "item output"]:
        """Logits of images, each a row of pixels."""
        pixels = images.unflatten(-1, self.image_shape)
        # Convolutions on a CPU are faster if the channels of a pixel are adjacent in memory.
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        filters = self.whitening.unflatten(1, (-1, _SIZE, _SIZE))
        white = nn.functional.conv2d(pixels, filters, stride=_STRIDE, padding=_BORDER)
        return self.head(self.blocks(white).amax((2, 3)))
