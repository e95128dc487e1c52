"""Unit conversion for coordinates that begin with numbers, followed by other columns."""

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
    """Convert the numbers among some columns to the units of their features; keep the others.

    Parameters
    ----------
    inner
        The emission whose coordinates the numbers are.
    numbers
        For each number, its position among the coordinates of ``inner``.
    location, columns
        As for ``Identity.in_feature_units``.
    """
    places = [place for place, column in enumerate(columns) if column < len(numbers)]
    own = [numbers[columns[place]] for place in places]
    found = location.clone()
    found[:, places] = inner.in_feature_units(location[:, places], own)
    return found
