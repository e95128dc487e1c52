"""The history of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyro_crowdclust.plots.style import COLORS, new_figure, pale, quiet
from pyro_crowdclust.protocols import FittedModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


def plot_history(
    fitted: FittedModel | Sequence[FittedModel], *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """ELBO per item, and the clusters in use, over epochs.

    The ELBO is the average of the minibatch estimates of an epoch. With several fits, the first is
    drawn in front of the others.

    Parameters
    ----------
    fitted
        What ``fit`` or ``fit_restarts`` returned.
    figure
        Figure to draw in; default: a new one.
    """
    fits = list(fitted) if isinstance(fitted, Sequence) else [fitted]
    with_clusters = "clusters_in_use" in fits[0].history
    figure = figure or new_figure(5.5, 4.2 if with_clusters else 3.0)
    panels = figure.subplots(1 + with_clusters, 1, sharex=True, squeeze=False)[:, 0]
    for result in reversed(fits):
        history, is_first = result.history, result is fits[0]
        style = {"marker": "o" if len(history) <= 30 else None, "markersize": 4}
        colors = COLORS[:2] if is_first else [pale(color) for color in COLORS[:2]]
        elbo = history["elbo"] / result.data.num_items
        panels[0].plot(history["epoch"], elbo, color=colors[0], **style)
        if with_clusters:
            panels[1].plot(history["epoch"], history["clusters_in_use"], color=colors[1], **style)
    panels[0].set_ylabel("ELBO per item (nats)")
    if with_clusters:
        panels[1].set_ylabel("clusters in use")
        panels[1].set_ylim(bottom=0)
        panels[1].yaxis.get_major_locator().set_params(integer=True)
    panels[-1].set_xlabel("epoch")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    for axes in panels:
        quiet(axes, grid="both")
    return figure
