"""Checks of the arguments of a simulation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from pyro_crowdclust.errors import check_probabilities, check_whole
from pyro_crowdclust.metrics import label_codes


def worker_rates(**rates: ArrayLike) -> list[Float[np.ndarray, " worker"]]:
    """Check that every rate has one probability per worker, for the same number of workers."""
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in rates.items()}
    for name, array in arrays.items():
        if array.ndim != 1 or array.size == 0:
            raise ValueError(
                f"{name} must hold one probability per worker, but its shape is {array.shape}"
            )
        check_probabilities(name, array, ": rows are workers")
    if len({array.size for array in arrays.values()}) > 1:
        sizes = " and ".join(f"{name} has {array.size}" for name, array in arrays.items())
        raise ValueError(f"the rates must have one probability for each worker, but {sizes}")
    return list(arrays.values())


def asked_items(
    labels: ArrayLike, items: ArrayLike | None
) -> tuple[Int[np.ndarray, " asked"], Int[np.ndarray, " asked"]]:
    """Class codes and positions of the items that are asked about."""
    truth = label_codes(labels)
    if items is None:
        return truth, np.arange(len(truth))
    asked = positions(items, len(truth), "items")
    if len(np.unique(asked)) < len(asked):
        raise ValueError("items names a position more than once; pass each item once")
    return label_codes(truth[asked], "items"), asked


def positions(values: ArrayLike, num_items: int, name: str) -> Int[np.ndarray, " item"]:
    """Positions of items, at least one and all below ``num_items``."""
    array = np.asarray(values)
    if array.size == 0:
        raise ValueError(f"{name} is empty; pass at least one position")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be one-dimensional integer positions, but is {array.dtype} of shape "
            f"{array.shape}; np.flatnonzero turns a mask into positions"
        )
    outside = (array < 0) | (array >= num_items)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"{name} must lie in 0 to {num_items - 1}, but row {row} holds {array[row]}"
        )
    return array.astype(np.int64)


def require_pages(pages_per_worker: int, page_size: int, num_items: int) -> None:
    """Check that each worker has pages, and that there are enough items to fill a page."""
    check_whole("pages_per_worker", pages_per_worker, least=1)
    check_whole("page_size", page_size, least=2)
    if page_size > num_items:
        raise ValueError(
            f"a page of {page_size} distinct items cannot be filled from {num_items}; lower "
            "page_size or pass more items"
        )
