"""A residual network for q(z | o) of photographs, small enough for a processor.

Images are rows of ``channels * height * width`` numbers, channels first. No layer normalizes over a
batch, as in ``convolutional.py``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.description import described


class _NormalizedBlock(nn.Module):
    """``s(x) + conv(relu(norm(conv(relu(norm(x))))))``; He et al. 2016, figure 1 (b).

    s is the identity, or a convolution of single pixels where channels or resolution change.
    """

    def __init__(self, channels: int, size: int, stride: int) -> None:
        super().__init__()
        self.enter = nn.Sequential(_group_norm(channels), nn.ReLU())
        self.first = nn.Sequential(
            nn.Conv2d(channels, size, 3, stride, padding=1, bias=False),
            _group_norm(size),
            nn.ReLU(),
        )
        self.last = nn.Conv2d(size, size, 3, padding=1, bias=False)
        same = channels == size and stride == 1
        self.skip = None if same else nn.Conv2d(channels, size, 1, stride, bias=False)

    def forward(
        self, x: Float[Tensor, "item channel height width"]
    ) -> Float[Tensor, "item size small_height small_width"]:
        entered = self.enter(x)
        skipped = x if self.skip is None else self.skip(entered)
        return skipped + self.last(self.first(entered))


def _group_norm(channels: int) -> nn.GroupNorm:
    """Groups of 16 channels, as is usual (Wu and He 2018), or one group of fewer."""
    return nn.GroupNorm(channels // 16 if channels % 16 == 0 else 1, channels)


@described
class ResidualClassifier(nn.Module):
    """Residual blocks at a half, a quarter and an eighth of the resolution, and logits: q(z | o).

    A strided convolution halves the image before the first block, so that a step takes a quarter
    of the time that it would at full resolution. Every layer is normalized over groups of channels
    of its own item.

    Parameters
    ----------
    image_shape
        Channels, height and width.
    num_outputs
        Numbers that come out, K.
    width
        Channels of the first blocks; the next have twice and four times as many.
    blocks
        Residual blocks at every resolution.

    Examples
    --------
    >>> import torch
    >>> ResidualClassifier((3, 32, 32), 10, width=4)(torch.rand(5, 3072)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_outputs: int,
        width: int = 32,
        blocks: int = 1,
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        layers: list[nn.Module] = [nn.Conv2d(image_shape[0], width, 4, stride=2, padding=1)]
        channels = width
        for stride, size in ((1, width), (2, 2 * width), (2, 4 * width)):
            for block in range(blocks):
                layers.append(_NormalizedBlock(channels, size, stride if block == 0 else 1))
                channels = size
        layers += [_group_norm(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        self.layers = nn.Sequential(*layers, nn.Linear(channels, num_outputs))
        self.draw_parameters()

    def draw_parameters(self) -> None:
        for layer in self.layers.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear | nn.GroupNorm):
                layer.reset_parameters()
        # Blocks are the identity, or a change of channels, before training.
        for layer in self.layers:
            if isinstance(layer, _NormalizedBlock):
                nn.init.zeros_(layer.last.weight)

    def forward(self, images: Float[Tensor, "item feature"]) -> Float[Tensor, "item output"]:
        pixels = images.unflatten(-1, self.image_shape)
        # Convolutions on a processor are faster where the channels of a pixel are side by side.
        return self.layers(pixels.contiguous(memory_format=torch.channels_last))
