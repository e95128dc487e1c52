"""Access to ArviZ, in both versions: 0.x with InferenceData, 1.x with DataTree.

No other file depends on the version. ArviZ is imported when a function here is called.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    import xarray

# A variable is its dimensions, chain first, and its values.
Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]
Groups = dict[str, Variables]


def arviz() -> ModuleType:
    """The installed ArviZ, without its once-a-day announcement of version 1."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "\\s*ArviZ is undergoing a major refactor", FutureWarning)
        import arviz as module
    return module


def _has_data_tree(module: ModuleType) -> bool:
    return int(module.__version__.split(".")[0]) >= 1


def as_tree(groups: Mapping[str, xarray.Dataset], attributes: Mapping[str, Any]) -> Any:
    """Groups in ArviZ's type: ``InferenceData`` before version 1, ``xarray.DataTree`` since."""
    module = arviz()
    if not _has_data_tree(module):
        tree = module.InferenceData(**groups)
        tree.attrs.update(attributes)
        return tree
    import xarray

    tree = xarray.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
    tree.attrs.update(attributes)
    return tree


def dataset(
    variables: Variables, coordinates: dict[str, np.ndarray], attributes: dict[str, Any]
) -> xarray.Dataset:
    """A group with its coordinates; 0, 1, 2, ... for a dimension without ids."""
    import xarray

    sizes: dict[str, int] = {}
    for dims, values in variables.values():
        sizes |= dict(zip(dims, values.shape, strict=True))
    own = {
        dim: coordinates[dim] if len(coordinates.get(dim, ())) == size else np.arange(size)
        for dim, size in sizes.items()
    }
    return xarray.Dataset(variables, coords=own, attrs=attributes)


def pareto_shape(log_ratios: Float[np.ndarray, " draw"]) -> float:
    """Pareto-k of ``log p - log q``.

    If the largest ratios are all the same, there is no tail to fit, and k is minus infinity.
    """
    count = len(log_ratios)
    largest = np.sort(log_ratios)[-min(count // 5, int(3 * count**0.5)) :]
    if largest[0] == largest[-1]:
        return -math.inf
    module = arviz()
    if not _has_data_tree(module):
        return float(module.psislw(log_ratios.copy())[1])
    import xarray

    # ArviZ 1.x takes the negative ratios.
    ratios = xarray.DataArray(-log_ratios, dims="draw")
    return float(ratios.azstats.psislw(dim="draw")[1])
