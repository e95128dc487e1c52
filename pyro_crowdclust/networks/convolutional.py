"""Convolutional and residual networks between images and latents, with a linear skip path.

Images are rows of ``channels * height * width`` numbers, channels first, so that these networks can
replace a ``SkipMLP``. No layer normalizes over a batch, because the images of a page are not a
random sample, but often of a few classes, and because the bound is a sum over items.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.files.parts import described
from pyro_crowdclust.networks.perceptrons import SkipNetwork

# Halvings of the resolution in every network here: 28 to 7, 32 to 8.
_HALVINGS = 2


def _smallest(image_shape: tuple[int, int, int]) -> tuple[int, int]:
    """Height and width after all halvings."""
    _, height, width = image_shape
    step = 2**_HALVINGS
    if height % step or width % step:
        raise ValueError(
            f"images of {height} x {width} cannot be halved {_HALVINGS} times: pad them to "
            f"multiples of {step}"
        )
    return height // step, width // step


def _initialize(layers: nn.Module) -> None:
    for layer in layers.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    for layer in layers.modules():
        if isinstance(layer, ResidualBlock):
            nn.init.zeros_(layer.last.weight)


class ResidualBlock(nn.Module):
    """``x + conv(relu(conv(relu(x))))``, the identity before training; He et al. 2016.

    Parameters
    ----------
    channels
        Channels of input and output.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.last = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(
        self, x: Float[Tensor, "item channel height width"]
    ) -> Float[Tensor, "item channel height width"]:
        return x + self.last(torch.relu(self.first(torch.relu(x))))


class _SkipImageNetwork(SkipNetwork):
    """A ``SkipNetwork`` whose layers take and return images or rows, of one leading axis."""

    def draw_parameters(self) -> None:
        _initialize(self.hidden)
        super().draw_parameters()

    def residual(self, x: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:
        rows = self.output(self.hidden(x.reshape(-1, x.shape[-1])))
        return rows.reshape(*x.shape[:-1], -1)


@described
class ConvolutionalEncoder(_SkipImageNetwork):
    """``f(o) = A o + b + CNN(o)``: two strided convolutions and a hidden layer.

    Parameters
    ----------
    image_shape
        Channels, height and width; both sizes multiples of 4.
    num_outputs
        Number of outputs: 2 d for ``GaussianRecognition``.
    channels
        Channels after the two convolutions.
    hidden
        Size of the hidden layer.

    Raises
    ------
    ValueError
        If the images cannot be halved twice.

    Examples
    --------
    >>> import torch
    >>> ConvolutionalEncoder((1, 28, 28), 16)(torch.rand(5, 784)).shape
    torch.Size([5, 16])
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_outputs: int,
        channels: tuple[int, int] = (16, 32),
        hidden: int = 256,
    ) -> None:
        first, second = channels
        layers = nn.Sequential(
            nn.Unflatten(-1, image_shape),
            nn.Conv2d(image_shape[0], first, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(first, second, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(second * math.prod(_smallest(image_shape)), hidden),
            nn.ReLU(),
        )
        output = nn.Linear(hidden, num_outputs, bias=False)
        super().__init__(layers, output, nn.Linear(math.prod(image_shape), num_outputs))


@described
class ResidualEncoder(_SkipImageNetwork):
    """``f(o) = A o + b + ResNet(o)``: five residual blocks, 32 x 32 to 8 x 8.

    The networks of Luo et al. 2018, appendix B, for CIFAR-10. Before the second and the fourth
    block a strided convolution doubles the channels.

    Parameters
    ----------
    image_shape
        Channels, height and width; both sizes multiples of 4.
    num_outputs
        Number of outputs: 2 d for ``GaussianRecognition``.
    width
        Channels of the first block.

    Raises
    ------
    ValueError
        If the images cannot be halved twice.

    Examples
    --------
    >>> import torch
    >>> ResidualEncoder((3, 32, 32), 128, width=4)(torch.rand(5, 3072)).shape
    torch.Size([5, 128])
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_outputs: int,
        width: int = 32,
    ) -> None:
        layers = [
            nn.Unflatten(-1, image_shape),
            nn.Conv2d(image_shape[0], width, 3, padding=1),
            ResidualBlock(width),
        ]
        for channels in (2 * width, 4 * width):
            layers.append(nn.Conv2d(channels // 2, channels, 3, stride=2, padding=1))
            layers += [ResidualBlock(channels), ResidualBlock(channels)]
        layers += [nn.ReLU(), nn.Flatten()]
        size = 4 * width * math.prod(_smallest(image_shape))
        output = nn.Linear(size, num_outputs, bias=False)
        skip = nn.Linear(math.prod(image_shape), num_outputs)
        super().__init__(nn.Sequential(*layers), output, skip)


@described
class ResidualDecoder(_SkipImageNetwork):
    """``f(x) = W x + b + ResNet(x)``: the mirror image of ``ResidualEncoder``.

    Parameters
    ----------
    dim
        Dimension d of the latent.
    image_shape, width
        As for ``ResidualEncoder``.

    Raises
    ------
    ValueError
        If the images cannot be halved twice.

    Examples
    --------
    >>> import torch
    >>> ResidualDecoder(64, (3, 32, 32), width=4)(torch.randn(5, 64)).shape
    torch.Size([5, 3072])
    """

    def __init__(self, dim: int, image_shape: tuple[int, int, int], width: int = 32) -> None:
        small = _smallest(image_shape)
        layers = [
            nn.Linear(dim, 4 * width * math.prod(small)),
            nn.Unflatten(-1, (4 * width, *small)),
        ]
        for channels in (4 * width, 2 * width):
            layers += [ResidualBlock(channels), ResidualBlock(channels)]
            layers.append(nn.ConvTranspose2d(channels, channels // 2, 4, stride=2, padding=1))
        layers += [ResidualBlock(width), nn.ReLU()]
        output = nn.Conv2d(width, image_shape[0], 3, padding=1, bias=False)
        super().__init__(nn.Sequential(*layers), output, nn.Linear(dim, math.prod(image_shape)))


@described
class ConvolutionalClassifier(nn.Module):
    """Nine convolutions, an average over the image, and logits: q(z | o); Laine and Aila 2017.

    Three layers of ``width`` channels, three of twice as many, then of 4, 2 and 1 times ``width``.
    Every layer is normalized over the channels and pixels of its own item.

    Parameters
    ----------
    image_shape
        Channels, height and width; both sizes multiples of 4, and at least 12.
    num_outputs
        Number of outputs, K.
    width
        Channels of the first layers.

    Raises
    ------
    ValueError
        If the images cannot be halved twice, or are too small.

    Examples
    --------
    >>> import torch
    >>> ConvolutionalClassifier((3, 32, 32), 10, width=4)(torch.rand(5, 3072)).shape
    torch.Size([5, 10])
    """

    def __init__(
        self, image_shape: tuple[int, int, int], num_outputs: int, width: int = 128
    ) -> None:
        super().__init__()
        if min(_smallest(image_shape)) < 3:
            raise ValueError(
                f"images of shape {image_shape} are too small: pad them to at least 12 x 12"
            )
        layers: list[nn.Module] = [nn.Unflatten(-1, image_shape)]
        channels = image_shape[0]
        for size in (width, 2 * width):
            for _ in range(3):
                layers += _normalized(nn.Conv2d(channels, size, 3, padding=1))
                channels = size
            layers.append(nn.MaxPool2d(2))
        layers += _normalized(nn.Conv2d(channels, 4 * width, 3))
        layers += _normalized(nn.Conv2d(4 * width, 2 * width, 1))
        layers += _normalized(nn.Conv2d(2 * width, width, 1))
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_outputs)]
        self.layers = nn.Sequential(*layers)
        self.draw_parameters()

    def draw_parameters(self) -> None:
        """Draw all layers anew."""
        _initialize(self.layers)

    def forward(self, images: Float[Tensor, "item feature"]) -> Float[Tensor, "item output"]:
        """Logits of images, each a row of pixels."""
        return self.layers(images)


def _normalized(layer: nn.Conv2d) -> list[nn.Module]:
    return [layer, nn.GroupNorm(1, layer.out_channels), nn.LeakyReLU(0.1)]
