"""The latent space of a fit, by cluster and by true class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from pyro_crowdclust.plots.names import cluster_names
from pyro_crowdclust.plots.partition import draw_groups
from pyro_crowdclust.plots.style import new_figure
from pyro_crowdclust.plots.truth import labels_of_items
from pyro_crowdclust.protocols import FittedModel
from pyro_crowdclust.results.coordinates import component_coordinates

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


class Projection(Protocol):
    """The contract of projections, such as scikit-learn's ``PCA`` and ``TSNE``."""

    def fit_transform(self, values: np.ndarray) -> np.ndarray:
        """Coordinates ``[item, 2]`` of rows ``[item, dim]``."""


def plot_latent(
    fitted: FittedModel,
    *,
    true_labels: ArrayLike | None = None,
    projection: Projection | None = None,
    max_items: int = 5000,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Latent means by cluster; items with answers have a ring.

    If the latent has more than two dimensions, its first two principal components are shown, or the
    ``projection``; without a latent, the features are shown.

    Parameters
    ----------
    fitted
        The result of ``fit``.
    true_labels
        True class of every item, for a second panel; a series is matched by its index if that has
        the ids of the items.
    projection
        Anything with ``fit_transform``, such as scikit-learn's ``TSNE(2)``, which separates
        clusters, but with distances that mean little.
    max_items
        Draw at most this many items, chosen at random.
    figure
        Figure to draw in; default: a new one.

    Raises
    ------
    ValueError
        If ``true_labels`` is not one label per item, or there is only one dimension to show.
    """
    num_items = fitted.data.num_items
    truth = None if true_labels is None else labels_of_items(fitted, true_labels)
    shown = np.arange(num_items)
    if num_items > max_items:
        shown = np.sort(np.random.default_rng(0).choice(num_items, max_items, replace=False))
    points, names = _plane(fitted, projection, shown)
    answered = np.zeros(num_items, bool)
    answered[fitted.data.annotated_items] = True

    # Colours follow the cluster numbers, so that they do not depend on the items shown.
    cluster_ids = cluster_names(fitted)
    found, title = cluster_ids.to_numpy()[fitted.assignments], f"by {cluster_ids.name}"
    used = cluster_ids[: int(fitted.assignments.max()) + 1].tolist()
    panels: list[tuple[str, np.ndarray, list]] = [(title, found, used)]
    if truth is not None:
        # A cluster and the class that it matches get the same colour.
        clusters, classes = _matched(found, truth)
        panels = [(title, found, clusters), ("by true class", truth, classes)]
    is_new, figure = figure is None, figure or new_figure(5.0 * len(panels), 4.6)
    row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    beside = 0.0
    for axes, (title, labels, order) in zip(row, panels, strict=True):
        marked = answered[shown] if axes is row[0] else None
        beside += draw_groups(axes, points, labels[shown], marked=marked, order=order)
        axes.set_title(title)
        axes.set_xlabel(names[0])
    row[0].set_ylabel(names[1])
    if is_new:
        new: Any = figure
        new.set_figwidth(5.0 * len(panels) + beside)
    return figure


def _matched(clusters: np.ndarray, classes: np.ndarray) -> tuple[list, list]:
    """Clusters and classes that match one to one, the largest match first."""
    table = pd.crosstab(clusters, classes)
    rows, columns = linear_sum_assignment(table.to_numpy(), maximize=True)
    order = np.argsort(-table.to_numpy()[rows, columns], kind="stable")
    return table.index[rows[order]].tolist(), table.columns[columns[order]].tolist()


def _plane(
    fitted: FittedModel, projection: Projection | None, shown: np.ndarray
) -> tuple[Float[np.ndarray, "shown 2"], tuple[str, str]]:
    """Two coordinates of the items to show, and their names."""
    kind = "feature" if fitted.latent_means is None else "latent dimension"
    values = component_coordinates(fitted)
    if values.shape[1] < 2:
        raise ValueError(f"a plane needs two dimensions, but there is only one {kind} to show")
    if projection is not None:
        name = type(projection).__name__
        return projection.fit_transform(values[shown]), (f"{name} 1", f"{name} 2")
    if values.shape[1] == 2:
        return values[shown], (f"{kind} 1", f"{kind} 2")
    from sklearn.decomposition import PCA

    pca = PCA(2, svd_solver="covariance_eigh").fit(values)
    first, second = pca.explained_variance_ratio_
    return pca.transform(values[shown]), (
        f"principal component 1 ({first:.0%} of variance)",
        f"principal component 2 ({second:.0%})",
    )
