"""Views of items: random changes of features that leave the cluster as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn


class View(Protocol):
    """What ``ConsistencyTerm`` takes for a view: a callable that says how random it is.

    It gets its random numbers, so that several processes see the views that one would.

    Attributes
    ----------
    num_random
        How many random numbers a view of an item takes.
    """

    num_random: int

    def __call__(
        self, features: Float[Tensor, "item ..."], amounts: Float[Tensor, "item random"]
    ) -> Float[Tensor, "item ..."]:
        """A view of every item, from numbers that are uniform between -1 and 1."""


@dataclass(frozen=True)
class RandomAffine:
    """Images turned, stretched, slanted and shifted a little, each by its own random amount.

    ``v(o)[p] = o[A p + b]`` for pixel positions p from the centre, with bilinear interpolation and
    zeros outside.

    Attributes
    ----------
    image_shape
        Channels, height and width; images are rows of that many numbers, or of that shape.
    degrees
        Most that an image is turned.
    stretch
        Most that height and width, each for itself, grow or shrink, as a fraction.
    slant
        Most that a row is shifted against the row above it, in pixels.
    shift
        Most that an image is shifted down or across, in pixels.

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
        images = features.reshape(-1, *self.image_shape)
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
