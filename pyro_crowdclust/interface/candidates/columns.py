"""Components that suit what the columns of a table hold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float

from pyro_crowdclust.data import Columns, CrowdData
from pyro_crowdclust.emissions import OF_SEVERAL
from pyro_crowdclust.interface.about_data import feature_shape
from pyro_crowdclust.mixture import (
    BernoulliComponents,
    CategoricalComponents,
    Components,
    GaussianComponents,
    HurdleGaussianComponents,
    MixedComponents,
    PoissonComponents,
)

# The prior of a rate counts as this many items; its mean is that of the column.
_PRIOR_ITEMS = 0.5


def components_for(
    data: CrowdData,
    real: Callable[[int, int], Components] = GaussianComponents,
    hurdle: Callable[[int, int], Components] = HurdleGaussianComponents,
    coordinates: Sequence[int] | None = None,
) -> Callable[[int, int], Components]:
    """The argument ``components`` of ``mixture_for`` that suits the columns of some data.

    Columns of yes and no get ``BernoulliComponents``, categories ``CategoricalComponents``, and
    counts ``PoissonComponents`` with a prior around the mean of their column. Given the cluster,
    columns of different kinds are independent.

    Parameters
    ----------
    data
        Items with features; ``data.columns`` says what the columns hold.
    real
        Makes the components of the real columns from the numbers of clusters and of these columns.
    hurdle
        Makes the components of real columns that have an atom.
    coordinates
        For every coordinate of the components its column, or ``OF_SEVERAL`` for a real number that
        depends on several; None: all columns in their order. Columns with atoms have two
        coordinates, the number and whether it is the atom.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [31.5, 52.0, 40.5], "smokes": [True, False, True]})
    >>> make = components_for(CrowdData(people))
    >>> [type(part).__name__ for part in make(5, 2).parts]
    ['GaussianComponents', 'BernoulliComponents']
    """
    own = list(range(math.prod(feature_shape(data)))) if coordinates is None else list(coordinates)
    columns = data.columns or Columns.of_numbers(max(own) + 1)
    kinds = _kinds(columns, own)
    if {*kinds} == {"real"}:
        return real

    def categories(num_clusters: int, places: list[int]) -> Components:
        levels = (columns.levels[own[place]] for place in places)
        return CategoricalComponents(num_clusters, [len(one) for one in levels if one is not None])

    def counts(num_clusters: int, places: list[int]) -> Components:
        mean = _means(data, [own[place] for place in places]).clamp_min(1e-3)
        rate = _PRIOR_ITEMS / mean
        return PoissonComponents(num_clusters, len(places), shape=_PRIOR_ITEMS, rate=rate)

    makers = {
        "real": lambda num_clusters, places: real(num_clusters, len(places)),
        "count": counts,
        "hurdle": lambda num_clusters, places: hurdle(num_clusters, len(places) // 2),
        "binary": lambda num_clusters, places: BernoulliComponents(num_clusters, len(places)),
        "category": categories,
    }
    places: dict[str, list[int]] = {}
    for kind in makers:  # of the two coordinates of a column, the number comes first
        found = [place for place, held in enumerate(kinds) if held == kind]
        if found:
            places[kind] = found

    def components(num_clusters: int, num_features: int) -> Components:
        parts = [makers[kind](num_clusters, held) for kind, held in places.items()]
        return parts[0] if len(parts) == 1 else MixedComponents(parts, [*places.values()])

    return components


def _kinds(columns: Columns, coordinates: list[int]) -> list[str]:
    """The kind of every coordinate."""
    number = Counter(coordinates)
    of_own = {column: columns.kinds[column] for column in number if column != OF_SEVERAL}
    of_own |= {column: "hurdle" for column in of_own if number[column] == 2}
    return [of_own.get(column, "real") for column in coordinates]


def _means(data: CrowdData, places: list[int]) -> Float[torch.Tensor, " column"]:
    rows = data.all_rows()
    return rows[:, places].double().nanmean(0)
