"""Coordinates that are numbers first, and then something else."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity


def numbers_in_feature_units(
    inner: Identity,
    numbers: Sequence[int],
    location: Float[Tensor, "cluster column"],
    columns: list[int],
) -> Float[Tensor, "cluster feature_column"]:
    """The numbers among some columns in the units of their features; the others as they are.

    Parameters
    ----------
    inner
        What the numbers are coordinates of.
    numbers
        Of each number its place among the coordinates of ``inner``.
    location, columns
        As for ``Identity.in_feature_units``.
    """
    places = [place for place, column in enumerate(columns) if column < len(numbers)]
    own = [numbers[columns[place]] for place in places]
    found = location.clone()
    found[:, places] = inner.in_feature_units(location[:, places], own)
    return found
