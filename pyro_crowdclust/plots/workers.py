"""Plots of the workers: their estimated reliability, and its uncertainty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from pyro_crowdclust.plots.style import COLORS, HALF_OF_90, new_figure, pale, plain, quiet, width_of
from pyro_crowdclust.protocols import FittedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# With more rows than this in a forest plot, their names would overlap.
_MAX_NAMED_ROWS = 80

# Panels side by side that can still be read: the number of rates of four grades and "can't tell".
_MAX_COLUMNS = 5


def plot_worker_weights(
    fitted: FittedModel,
    *,
    truth: pd.DataFrame | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """``log a / (1 - a) + log b / (1 - b)`` of every worker, sorted, with 90 % intervals.

    The interval is the posterior mean plus and minus 1.645 posterior standard deviations.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    truth
        True weights, in a column ``weight`` and indexed by worker, as ``two_coin_rates`` returns
        them. They are drawn next to the estimates, and estimates against them in a second panel;
        infinite ones are left out.
    figure
        Figure to draw in; default: a new one.

    Raises
    ------
    ValueError
        If ``truth`` has no column ``weight``, or there are no workers, or they gave class labels.
    """
    if truth is not None and "weight" not in truth:
        raise ValueError(f"truth has no column 'weight', only {list(truth.columns)}: add it")
    if "weight" not in fitted.workers:
        raise ValueError(
            "the workers gave class labels, whose weight depends on the class: call plot_workers, "
            "or plot_confusion"
        )
    workers = fitted.workers.sort_values("weight", kind="stable")
    width = HALF_OF_90 * workers["weight_sd"]
    figure = figure or new_figure(*_forest_size(workers, 4.5 if truth is None else 8.5))
    panels = figure.subplots(1, 1 if truth is None else 2, squeeze=False)[0]
    _forest(
        panels[0],
        workers["weight"],
        workers["weight"] - width,
        workers["weight"] + width,
        COLORS[0],
    )
    panels[0].axvline(0, color="0.4", linewidth=0.9, linestyle="--", zorder=1)
    panels[0].set_xlabel("worker weight (nats)\n0 is answering at random")
    panels[0].set_ylabel("worker")
    if truth is not None:
        true_weight = truth["weight"].reindex(workers.index).to_numpy(float)
        known = np.isfinite(true_weight)
        _mark_true(panels[0], true_weight[known], np.flatnonzero(known))
        _against_true(panels[1], true_weight[known], workers["weight"][known], width[known])
    return figure


def _mark_true(
    axes: Axes, weight: Float[np.ndarray, " known"], row: Int[np.ndarray, " known"]
) -> None:
    """Draw true weights in the rows of their workers."""
    axes.scatter(
        weight,
        row,
        marker="D",
        s=26,
        facecolors="none",
        edgecolors=COLORS[1],
        linewidths=1.3,
        zorder=3,
        label="true",
    )
    axes.legend(loc="best", fontsize="small")


def _against_true(
    axes: Axes, weight: Float[np.ndarray, " known"], estimate: pd.Series, width: pd.Series
) -> None:
    """Draw estimates and their intervals against true weights."""
    axes.axline((0, 0), slope=1, color="0.4", linewidth=0.8, linestyle="--", zorder=0)
    axes.errorbar(
        weight,
        estimate,
        width,
        fmt="o",
        color=COLORS[0],
        ecolor=pale(COLORS[0]),
        markersize=5,
    )
    axes.set_xlabel("true weight")
    axes.set_ylabel("estimated weight")
    axes.set_aspect("equal", adjustable="datalim")
    quiet(axes, grid="both")


def plot_workers(
    fitted: FittedModel, *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Rates of every worker with 90 % intervals, sorted by weight: sensitivity and specificity.

    Annotator models with other rates have a panel for each of their rates, five in a row. Workers
    who gave class labels are sorted by their accuracy, which has no interval.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    figure
        Figure to draw in; default: a new one.

    Raises
    ------
    ValueError
        If there are no workers.
    """
    workers = fitted.workers
    workers = workers.sort_values("weight" if "weight" in workers else "accuracy", kind="stable")
    names = [name.removesuffix("_lower") for name in workers.columns if name.endswith("_lower")]
    names = names or ["accuracy"]
    shape = math.ceil(len(names) / _MAX_COLUMNS), min(len(names), _MAX_COLUMNS)
    width, height = _forest_size(workers, 6.5)
    figure = figure or new_figure(width, shape[0] * height)
    grid = figure.subplots(*shape, sharex=True, sharey=True, squeeze=False)
    colors = itertools.cycle(COLORS[: shape[1]])
    for axes, name, color in zip(grid.flat, names, colors, strict=False):
        lower, upper = (workers.get(f"{name}_{end}", workers[name]) for end in ("lower", "upper"))
        _forest(axes, workers[name], lower, upper, color)
        axes.set_xlabel(name, fontsize="small" if shape[0] > 1 else "medium")
        axes.set_xlim(-0.02, 1.02)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for axes in grid[:, 0]:
        axes.set_ylabel("worker")
    return figure


def _forest_size(workers: pd.DataFrame, width: float) -> tuple[float, float]:
    """Inches of a picture with panels of this width, beside the names of the workers."""
    names: list[Hashable] = workers.index.tolist() if len(workers) <= _MAX_NAMED_ROWS else []
    height = 1.1 + 0.2 * min(max(len(workers), 6), _MAX_NAMED_ROWS)
    return width + max(width_of(names), 0.5), height


def _forest(axes: Axes, mean: pd.Series, lower: pd.Series, upper: pd.Series, color: str) -> None:
    """One row per worker, from the bottom up, with names if there is room for them."""
    rows = np.arange(len(mean))
    axes.hlines(rows, lower, upper, color=pale(color), linewidth=3)
    axes.plot(mean, rows, "o", color=color, markersize=5)
    names = map(plain, mean.index) if len(mean) <= _MAX_NAMED_ROWS else [""] * len(rows)
    axes.set_yticks(rows, list(names))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    quiet(axes, grid="x")
