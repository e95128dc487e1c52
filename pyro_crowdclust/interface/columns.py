"""Columns of a table by what they hold, and components that suit each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyro_crowdclust.errors import did_you_mean
from pyro_crowdclust.mixture import Components, MixedComponents


def mixed_columns(
    columns: Sequence[str] | None,
    kinds: Mapping[Callable[[int, int], Components], Sequence[str]],
    others: Callable[[int, int], Components],
) -> Callable[[int, int], Components]:
    """What ``mixture_for(components=...)`` takes for a table whose columns are of several kinds.

    Parameters
    ----------
    columns
        Names of the columns; None of an array, which has none.
    kinds
        Names of the columns that are to have each kind of components.
    others
        Components of all other columns.

    Raises
    ------
    ValueError
        If there is no such column, or one is named twice.

    Examples
    --------
    >>> from pyro_crowdclust.mixture import (
    ...     BernoulliComponents,
    ...     DiagonalGaussianComponents,
    ... )
    >>> kinds = {BernoulliComponents: ["ill"]}
    >>> make = mixed_columns(["age", "ill", "weight"], kinds, DiagonalGaussianComponents)
    >>> make(5, 3).columns
    [[1], [0, 2]]
    """
    named = [name for names in kinds.values() for name in names]
    if not named:
        return others
    names = list(columns or [])
    for name in named:
        if name not in names or named.count(name) > 1:
            known = "an array has no names" if columns is None else f"the columns are {columns}"
            hint = did_you_mean(name, names)
            raise ValueError(
                f"'{name}' is no column, or said to hold two kinds of numbers: {known}; name each "
                f"column once{hint}"
            )
    rest = [name for name in names if name not in named]
    parts = [*kinds.items(), (others, rest)]

    def components(num_clusters: int, num_features: int) -> MixedComponents:
        of_some = [(make, own) for make, own in parts if own]
        return MixedComponents(
            [make(num_clusters, len(own)) for make, own in of_some],
            [[names.index(name) for name in own] for _, own in of_some],
        )

    return components
