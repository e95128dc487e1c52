"""Sizes of the clusters with their uncertainty, and the true classes of their items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from pyro_crowdclust.diagnostics.chains import weight_draws
from pyro_crowdclust.plots.names import cluster_names
from pyro_crowdclust.plots.style import (
    COLORS,
    HALF_OF_90,
    SMALL,
    height_of_columns,
    matrix,
    new_axes,
    pale,
    plain,
    quiet,
    width_of,
)
from pyro_crowdclust.plots.truth import labels_of_items
from pyro_crowdclust.protocols import FittedModel, SupportsPartition

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cluster_sizes(
    fitted: FittedModel,
    *,
    at_least: float = 0.005,
    num_draws: int = 400,
    axes: Axes | None = None,
) -> Axes:
    """Items in each cluster with 90 % intervals, next to the numbers expected from the weights pi.

    The number of items in a cluster, ``N_k = sum_i z_ik``, has the mean ``sum_i q_ik`` and, if the
    z are independent under q, the variance ``sum_i q_ik (1 - q_ik)``; for guides that draw whole
    partitions only the mean is shown. The weight pi_k, times N, is drawn from q, if the model has
    weights: this is the number expected among as many new items. Where workers named classes, the
    clusters have their names.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    at_least
        Leave out clusters with a smaller share of the items; a note gives their number.
    num_draws
        Number of draws of the weights.
    axes
        Axes to draw in; default: those of a new figure.
    """
    q, weights = fitted.probabilities, weight_draws(fitted, num_draws)
    is_independent = not isinstance(fitted.guide, SupportsPartition)
    size, deviation = q.sum(0), np.sqrt((q * (1 - q)).sum(0).clip(0))
    order = np.argsort(-size, kind="stable")
    shown = order[size[order] >= at_least * len(q)]
    rows, names = np.arange(len(shown)), cluster_names(fitted)
    axes = axes or new_axes(5.2 + width_of(names[shown]), 1.3 + 0.24 * max(len(shown), 4))
    axes.barh(
        rows - 0.17,
        size[shown],
        0.34,
        xerr=HALF_OF_90 * deviation[shown] if is_independent else None,
        color=pale(COLORS[0]),
        error_kw={"ecolor": COLORS[0], "elinewidth": 1.3, "capsize": 2},
        label="these items, 90 % interval" if is_independent else "expected items",
    )
    if weights is not None:
        lower, middle, upper = len(q) * np.quantile(weights[:, shown], [0.05, 0.5, 0.95], axis=0)
        axes.hlines(rows + 0.2, lower, upper, color=pale(COLORS[1]), linewidth=3)
        label = "as many new items, 90 % interval"
        axes.plot(middle, rows + 0.2, "o", color=COLORS[1], markersize=4, label=label)
    axes.set_yticks(rows, list(map(plain, names[shown])))
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    left_out = order[len(shown) :]
    more = f"; {len(left_out)} more with {size[left_out].sum():.0f}" if len(left_out) else ""
    axes.set_xlabel(f"items{more}")
    axes.set_ylabel(str(names.name))
    axes.legend(
        ncols=2, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False
    )
    quiet(axes, grid="x")
    return axes


def plot_contingency(
    fitted: FittedModel,
    true_labels: ArrayLike,
    *,
    at_least: float = 0.005,
    axes: Axes | None = None,
) -> Axes:
    """The distribution of the items of every true class over the clusters.

    A row has the shares of a class; columns are first the clusters that match classes one to one,
    in the order of the classes, then others by size.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    true_labels
        True class of every item; a series is matched by its index if that has the ids of the items.
    at_least
        Leave out clusters with a smaller share of the items.
    axes
        Axes to draw in; default: those of a new figure.

    Raises
    ------
    ValueError
        If ``true_labels`` is not one label per item.
    """
    labels = labels_of_items(fitted, true_labels)
    table = pd.crosstab(labels, fitted.assignments)
    matching = linear_sum_assignment(table.to_numpy(), maximize=True)[1].tolist()
    others = np.argsort(-table.to_numpy().sum(0), kind="stable").tolist()
    order = [*matching, *(column for column in others if column not in matching)]
    large = table.sum() >= at_least * len(labels)
    table = table.iloc[:, [column for column in order if large.iloc[column]]]
    shares = table.div(pd.Series(labels).value_counts().reindex(table.index), axis=0)
    height, width = shares.shape
    names = cluster_names(fitted)
    rows, columns = list(map(str, shares.index)), list(map(str, names[shares.columns]))
    axes = axes or new_axes(
        1.0 + width_of(rows, SMALL) + 0.36 * max(width, 4),
        0.8 + height_of_columns(columns) + 0.34 * max(height, 3),
    )
    matrix(axes, shares.to_numpy(), rows, columns)
    axes.set_xlabel(str(names.name))
    axes.set_ylabel("true class")
    return axes
