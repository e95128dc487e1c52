"""Items as points in the plane, coloured by group."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from pyro_crowdclust.metrics import as_array
from pyro_crowdclust.plots.style import (
    COLORS,
    MARKERS,
    SMALL,
    color_of,
    is_large,
    new_axes,
    plain,
    quiet,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection

# Names of so few letters stand at their groups even where they are close together; others are then
# listed, at most so many below each other.
_SHORT, _NAMES_IN_COLUMN = 3, 25


def plot_partition(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    marked: ArrayLike | None = None,
    order: Sequence[Hashable] = (),
    axes: Axes | None = None,
) -> Axes:
    """Points in the plane, coloured by group, with the names of the groups.

    Names stand at their groups if there is room for all of them, and in a list beside the points if
    not. Groups of fewer than one item in a hundred are grey and without a name.

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
    is_new, axes = axes is None, axes or new_axes(5.0, 4.6)
    beside = draw_groups(axes, points, labels, marked=marked, order=order)
    if is_new:
        new: Any = axes.figure
        new.set_figwidth(5.0 + beside)
    return axes


def draw_groups(
    axes: Axes,
    points: Float[np.ndarray, "item 2"],
    labels: np.ndarray,
    *,
    marked: Bool[np.ndarray, " item"] | None,
    order: Sequence[Hashable],
) -> float:
    """Draw ``plot_partition``; returns how many inches the list of names beside it takes."""
    size = float(np.clip(9000 / len(points), 4, 26))
    rasterized = len(points) > 2000
    counts = pd.Series(labels).value_counts()
    groups = dict.fromkeys([*order, *counts.index])
    named: dict[str, tuple[PathCollection, np.ndarray]] = {}
    for rank, label in enumerate(groups):
        inside = points[labels == label]
        large = is_large(len(inside), len(points))
        drawn = axes.scatter(
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
        if large:
            named[str(label)] = drawn, inside
    quiet(axes)
    rings = []
    if marked is not None and marked.any():
        rings = [_ring(axes, points[marked], size, rasterized)]
    places, apart = _places(axes, {name: inside for name, (_, inside) in named.items()})
    if apart or max(map(len, named)) <= _SHORT:
        _write_names(axes, places)
        if rings:
            axes.legend(handles=rings, loc="best", framealpha=0.8, fontsize="small")
        return 0.0
    columns = math.ceil((len(named) + len(rings)) / _NAMES_IN_COLUMN)
    axes.legend(
        handles=[*(drawn for drawn, _ in named.values()), *rings],
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        ncols=columns,
        fontsize=SMALL,
        handlelength=1.0,
        labelspacing=0.3,
        columnspacing=1.0,
        frameon=False,
        markerscale=5 / math.sqrt(size),
    )
    return columns * (width_of(named, SMALL) + 0.4)


def _write_names(axes: Axes, places: Mapping[str, Float[np.ndarray, " 2"]]) -> None:
    for name, place in places.items():
        axes.annotate(
            plain(name),
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


def _places(
    axes: Axes, groups: Mapping[str, Float[np.ndarray, "item 2"]]
) -> tuple[dict[str, Float[np.ndarray, " 2"]], bool]:
    """A point near the middle of each group, away from other names; and whether none overlap."""
    places: dict[str, np.ndarray] = {}
    if not groups:
        return places, True
    every = np.concatenate(list(groups.values()))
    extent = np.ptp(every, axis=0) + 1e-12
    inches = axes.bbox.width / axes.figure.dpi
    all_apart = True
    for name, points in groups.items():
        # The points nearest to the medians lie in the group, unlike the mean of a curved group.
        distance = np.square((points - np.median(points, axis=0)) / extent).sum(1)
        near = points[np.argsort(distance, kind="stable")[: max(len(points) // 3, 1)]]
        gap = np.ones(len(near))
        for other, place in places.items():
            # Two names are apart by half of both widths and a margin, or by the height of a line.
            width = (width_of([name]) + width_of([other])) / 2 / inches + 0.02
            apart = np.array([width, 0.06]) * extent
            gap = np.minimum(gap, np.abs((near - place) / apart).max(1))
        places[name] = near[gap.argmax()]
        all_apart &= bool(gap.max() >= 1)
    return places, all_apart
