"""Views of items: random changes of features that do not change the cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn


class View(Protocol):
    """Interface of views: a function of features and random numbers.

    The random numbers are an argument, so that several processes make the same views as one.

    Attributes
    ----------
    num_random
        Number of random numbers per item.
    """

    num_random: int

    def __call__(
        self, features: Float[Tensor, "item ..."], amounts: Float[Tensor, "item random"]
    ) -> Float[Tensor, "item ..."]:
        """A view of every item, from random numbers that are uniform between -1 and 1."""


@dataclass(frozen=True)
class RandomAffine:
    """Images rotated, stretched, slanted and shifted by small random amounts.

    ``v(o)[p] = o[A p + b]`` for pixel positions p from the centre, with bilinear interpolation and
    zeros outside.

    Attributes
    ----------
    image_shape
        Channels, height and width; images are rows of that many numbers, or of that shape.
    degrees
        Maximum rotation.
    stretch
        Maximum change of height and width, independently, as a fraction.
    slant
        Maximum shift of a row against the row above it, in pixels.
    shift
        Maximum vertical and horizontal shift, in pixels.

    Examples
    --------
    >>> import torch
    >>> images = torch.rand(5, 12)
    >>> view = RandomAffine((1, 3, 4))
    >>> view(images, torch.rand(5, view.num_random)).shape
    torch.Size([5, 12])
    >>> torch.allclose(view(images, torch.zeros(5, view.num_random)), images, atol=1e-6)
    True
    """

    image_shape: tuple[int, int, int]
    degrees: float = 12.0
    stretch: float = 0.1
    slant: float = 0.15
    shift: float = 2.0

    num_random: ClassVar[int] = 6

    @torch.no_grad()
    def __call__(
        self, features: Float[Tensor, "item ..."], amounts: Float[Tensor, "item 6"]
    ) -> Float[Tensor, "item ..."]:
        """A view of every image; ``amounts`` of each change, between -1 and 1."""
        images = _images_of(features, self.image_shape)
        maps = self._maps(amounts.to(images))
        grid = nn.functional.affine_grid(maps, list(images.shape), align_corners=False)
        viewed = nn.functional.grid_sample(images, grid, align_corners=False)
        return viewed.reshape(features.shape)

    def _maps(self, amounts: Float[Tensor, "item 6"]) -> Float[Tensor, "item 2 3"]:
        """``[A b]``, in the units of ``affine_grid``: every image is 2 wide and 2 high."""
        _, height, width = self.image_shape
        turn, across, down, slant, right, below = amounts.unbind(-1)
        turn = math.radians(self.degrees) * turn
        across, down = 1 + self.stretch * across, 1 + self.stretch * down
        in_pixels = (
            *(across * turn.cos(), self.slant * slant - down * turn.sin(), self.shift * right),
            *(across * turn.sin(), down * turn.cos(), self.shift * below),
        )
        units = 1, height / width, 2 / width, width / height, 1, 2 / height
        entries = [unit * entry for unit, entry in zip(units, in_pixels, strict=True)]
        return torch.stack(entries, -1).view(-1, 2, 3)


@dataclass(frozen=True)
class RandomPhoto:
    """Photographs moved, mirrored, with other light and color, and with a square hidden.

    They are moved as by ``RandomAffine``, and half of them mirrored. Then, with m the mean of all
    numbers of an image and g that of a pixel's channels,

        v(o) = m + (1 + c) (g - m + (1 + s) (o - g)) + b

    for random contrast c, saturation s and brightness b, and zeros in a square about a random
    pixel. Zero should be gray.

    Attributes
    ----------
    image_shape
        Channels, height and width; images are rows of that many numbers, or of that shape.
    degrees, stretch, shift
        See ``RandomAffine``.
    light
        Maximum change of contrast and saturation, as a fraction, and of brightness, in the units of
        the features.
    hidden
        Side of the square, in pixels; it may lie partly outside.

    Examples
    --------
    >>> import torch
    >>> images = torch.randn(5, 48)
    >>> view = RandomPhoto((3, 4, 4), hidden=2)
    >>> view(images, 2 * torch.rand(5, view.num_random) - 1).shape
    torch.Size([5, 48])
    """

    image_shape: tuple[int, int, int]
    degrees: float = 10.0
    stretch: float = 0.15
    shift: float = 4.0
    light: float = 0.25
    hidden: float = 12.0

    num_random: ClassVar[int] = 12

    @torch.no_grad()
    def __call__(
        self, features: Float[Tensor, "item ..."], amounts: Float[Tensor, "item 12"]
    ) -> Float[Tensor, "item ..."]:
        """A view of every image; ``amounts`` of each change, between -1 and 1."""
        moves, others = amounts.to(features).split((6, 6), 1)
        mirrored, contrast, saturation, brightness, *place = others[..., None, None, None].unbind(1)
        affine = RandomAffine(self.image_shape, self.degrees, self.stretch, 0.0, self.shift)
        images = affine(features, moves).reshape(-1, *self.image_shape)
        images = torch.where(mirrored > 0, images.flip(-1), images)
        gray, mean = images.mean(1, keepdim=True), images.mean((1, 2, 3), keepdim=True)
        colored = gray - mean + (1 + self.light * saturation) * (images - gray)
        lit = (1 + self.light * contrast) * colored + mean + self.light * brightness
        return lit.masked_fill(self._is_hidden(*place), 0.0).reshape(features.shape)

    def _is_hidden(
        self, down: Float[Tensor, "item 1 1 1"], across: Float[Tensor, "item 1 1 1"]
    ) -> Tensor:
        """Mask of the pixels in the square."""
        _, height, width = self.image_shape
        row = torch.arange(height, device=down.device).unsqueeze(1) - (height - 1) / 2
        column = torch.arange(width, device=down.device) - (width - 1) / 2
        near_row = (row - down * height / 2).abs() < self.hidden / 2
        return near_row & ((column - across * width / 2).abs() < self.hidden / 2)


@dataclass(frozen=True)
class ViewOrItself:
    """A view of a random half of the items, and the others unchanged.

    Items are sharper than interpolated images, so a network that is trained on views only is less
    accurate on unchanged items.

    Attributes
    ----------
    view
        How views are made.

    Examples
    --------
    >>> import torch
    >>> view = ViewOrItself(RandomAffine((1, 3, 4)))
    >>> images, amounts = torch.rand(5, 12), 2 * torch.rand(5, view.num_random) - 1
    >>> amounts[:, -1] = -1.0
    >>> torch.equal(view(images, amounts), images)
    True
    """

    view: View

    @property
    def num_random(self) -> int:
        """Random numbers of a view, plus one that decides whether it is used."""
        return self.view.num_random + 1

    def __call__(
        self, features: Float[Tensor, "item ..."], amounts: Float[Tensor, "item random"]
    ) -> Float[Tensor, "item ..."]:
        """The view of an item if its last number is above 0, otherwise the item."""
        taken = (amounts[:, -1] > 0).view(-1, *[1] * (features.dim() - 1))
        return torch.where(taken, self.view(features, amounts[:, :-1]), features)


def _images_of(
    features: Float[Tensor, "item ..."], image_shape: tuple[int, int, int]
) -> Float[Tensor, "item channel height width"]:
    """Images from rows of numbers, or from images, possibly without the axis of one channel."""
    own = tuple(features.shape[1:])
    channels, height, width = image_shape
    as_shown = own in ((channels, height, width), (height, width)) or len(own) == 1
    if not as_shown or math.prod(own) != math.prod(image_shape):
        raise ValueError(
            f"the view is of images of the shape {list(image_shape)} (channels, height, width), "
            f"but an item has features {list(own)}: make a view of their shape"
            + (", and bring the channels first, images.transpose(0, 3, 1, 2)" * (len(own) == 3))
        )
    return features.reshape(-1, channels, height, width)
