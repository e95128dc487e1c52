"""Items as points in the plane, coloured by group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from pyro_crowdclust.metrics import as_array
from pyro_crowdclust.plots.style import (
    COLORS,
    MARKERS,
    color_of,
    is_large,
    new_axes,
    plain,
    quiet,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection


def plot_partition(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    marked: ArrayLike | None = None,
    order: Sequence[Hashable] = (),
    axes: Axes | None = None,
) -> Axes:
    """Points in the plane, coloured by group, with the names of the groups.

    Groups of fewer than one item in a hundred are grey and without a name.

    Parameters
    ----------
    points
        Shape ``[item, 2]``.
    labels
        One integer or string per item.
    marked
        True or False for each item: whether it is in an answer, and gets a ring.
    order
        Labels that get the first colours, in this order; the others follow, the largest first.
    axes
        Axes to draw in; default: those of a new figure.

    Raises
    ------
    ValueError
        If points are not ``[item, 2]``, or labels or marks are not one per point.
    """
    points, labels = as_array(points), as_array(labels)
    marked = None if marked is None else np.asarray(marked, bool)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must be [item, 2], but have the shape {list(points.shape)}")
    for name, per_item in (("labels", labels), ("marked", marked)):
        if per_item is not None and len(per_item) != len(points):
            raise ValueError(
                f"{name} has {len(per_item)} entries, but points has {len(points)}: pass one entry "
                "per point"
            )
    axes = axes or new_axes(5.0, 4.6)
    size = float(np.clip(9000 / len(points), 4, 26))
    rasterized = len(points) > 2000
    counts = pd.Series(labels).value_counts()
    groups = dict.fromkeys([*order, *counts.index])
    named: dict[Hashable, np.ndarray] = {}
    for rank, label in enumerate(groups):
        inside = points[labels == label]
        large = is_large(len(inside), len(points))
        if large:
            named[label] = inside
        axes.scatter(
            inside[:, 0],
            inside[:, 1],
            s=size,
            c=color_of(rank, large),
            marker=MARKERS[rank // len(COLORS) % len(MARKERS)],
            alpha=0.8,
            linewidths=0,
            rasterized=rasterized,
            zorder=2 if large else 1,
            label=plain(label),
        )
    _write_names(axes, named)
    if marked is not None and marked.any():
        rings = _ring(axes, points[marked], size, rasterized)
        axes.legend(handles=[rings], loc="best", framealpha=0.8, fontsize="small")
    quiet(axes)
    return axes


def _write_names(axes: Axes, groups: dict[Hashable, Float[np.ndarray, "item 2"]]) -> None:
    for label, place in zip(groups, _places(list(groups.values())), strict=True):
        axes.annotate(
            plain(label),
            tuple(place),
            ha="center",
            va="center",
            weight="bold",
            zorder=4,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
        )


def _ring(
    axes: Axes, points: Float[np.ndarray, "item 2"], size: float, rasterized: bool
) -> PathCollection:
    return axes.scatter(
        points[:, 0],
        points[:, 1],
        s=2.2 * size,
        facecolors="none",
        edgecolors="black",
        # Thousands of thick rings would hide the colours below them.
        linewidths=float(np.clip(200 / len(points), 0.1, 0.5)),
        rasterized=rasterized,
        zorder=3,
        label="in an answer",
    )


def _places(groups: list[Float[np.ndarray, "item 2"]]) -> list[Float[np.ndarray, " 2"]]:
    """The place for the name of each group: a point near its middle, but away from other names."""
    if not groups:
        return []
    every = np.concatenate(groups)
    apart = 0.06 * (every.max(0) - every.min(0)) + 1e-12
    places: list[np.ndarray] = []
    for points in groups:
        # The points nearest to the medians lie in the group, unlike the mean of a curved group.
        distance = np.square((points - np.median(points, axis=0)) / apart).sum(1)
        near = points[np.argsort(distance, kind="stable")[: max(len(points) // 3, 1)]]
        gaps = [np.abs((near - place) / apart).max(1) for place in places]
        gap = np.minimum(np.min(gaps, axis=0), 1.0) if gaps else np.ones(len(near))
        places.append(near[gap.argmax()])
    return places
