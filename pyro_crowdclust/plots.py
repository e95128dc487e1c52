"""Pictures of a fitted result.

A function with one panel takes an ``Axes`` to draw in and returns it; one with several takes a
``Figure`` (or a ``SubFigure`` of a larger one) and returns that. Without one, each makes its own;
save it with ``figure.savefig`` or ``axes.figure.savefig``. Nothing is drawn through pyplot, so no
figure stays behind in its global list.

Those of the workers are written in ``worker_plots`` and can be imported from here, too.

>>> import torch
>>> from pyro_crowdclust.plots import plot_partition
>>> axes = plot_partition(torch.randn(30, 2), [0, 1, 2] * 10)
>>> [text.get_text() for text in axes.texts]
['0', '1', '2']
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from pyro_crowdclust.plot_style import COLORS, MARKERS, new_axes, new_figure, quiet
from pyro_crowdclust.result import Fitted
from pyro_crowdclust.worker_plots import plot_worker_weights, plot_workers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "plot_cluster_samples",
    "plot_history",
    "plot_latent",
    "plot_partition",
    "plot_worker_weights",
    "plot_workers",
]


def plot_history(fitted: Fitted, *, figure: Figure | SubFigure | None = None) -> Figure | SubFigure:
    """ELBO per item, and the clusters in use, over epochs.

    The ELBO is the average of the minibatch estimates of an epoch.

    Parameters
    ----------
    fitted
        What ``fit`` returned.
    figure
        Where to draw; default a new one.
    """
    history = fitted.history
    with_clusters = "clusters_in_use" in history
    figure = figure or new_figure(5.5, 4.2 if with_clusters else 3.0)
    panels = figure.subplots(1 + with_clusters, 1, sharex=True, squeeze=False)[:, 0]
    marker = "o" if len(history) <= 30 else None
    style = {"marker": marker, "markersize": 4}
    panels[0].plot(history["epoch"], history["elbo"] / fitted.data.num_items, COLORS[0], **style)
    panels[0].set_ylabel("ELBO per item (nats)")
    if with_clusters:
        panels[1].plot(history["epoch"], history["clusters_in_use"], COLORS[1], **style)
        panels[1].set_ylabel("clusters in use")
        panels[1].set_ylim(bottom=0)
        panels[1].yaxis.get_major_locator().set_params(integer=True)
    panels[-1].set_xlabel("epoch")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    for axes in panels:
        quiet(axes, grid="both")
    return figure


def plot_partition(
    points: ArrayLike,
    labels: ArrayLike,
    *,
    marked: ArrayLike | None = None,
    marked_name: str = "in an answer",
    order: Sequence[Hashable] = (),
    at_least: float = 0.01,
    axes: Axes | None = None,
) -> Axes:
    """Points in the plane, coloured by group, with the group's name where it lies.

    Parameters
    ----------
    points
        Shape ``[item, 2]``.
    labels
        One integer or string per item.
    marked
        Items to draw with a ring: True or False for each.
    marked_name
        What the ring says, for the legend.
    order
        Labels that get the first colours, in this order; the others follow, the largest first.
    at_least
        Groups with a smaller share of the items are grey and without a name.
    axes
        Where to draw; default a new figure's.

    Raises
    ------
    ValueError
        If points are not ``[item, 2]``, or labels or marks are not one per point.
    """
    points, labels = _array(points), _array(labels)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"points must be [item, 2], but have the shape {list(points.shape)}")
    for name, per_item in (("labels", labels), ("marked", marked)):
        if per_item is not None and len(per_item) != len(points):
            raise ValueError(f"{name} has {len(per_item)} entries for {len(points)} points")
    axes = axes or new_axes(5.0, 4.6)
    size = float(np.clip(9000 / len(points), 4, 26))
    rasterized = len(points) > 2000
    counts = pd.Series(labels).value_counts()
    groups = dict.fromkeys([*order, *counts.index])
    named = {}
    for rank, label in enumerate(groups):
        inside = points[labels == label]
        large = len(inside) >= max(at_least * len(points), 1)
        if large:
            named[label] = inside
        axes.scatter(
            *inside.T,
            s=size,
            c=COLORS[rank % len(COLORS)] if large else "#BBBBBB",
            marker=MARKERS[rank // len(COLORS) % len(MARKERS)],
            alpha=0.8,
            linewidths=0,
            rasterized=rasterized,
            zorder=2 if large else 1,
            label=f"{label}",
        )
    for label, place in zip(named, _places(list(named.values())), strict=True):
        axes.annotate(
            f"{label}",
            place,
            ha="center",
            va="center",
            weight="bold",
            zorder=4,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.75},
        )
    if marked is not None and np.any(marked):
        rings = axes.scatter(
            *points[np.asarray(marked, bool)].T,
            s=2.2 * size,
            facecolors="none",
            edgecolors="black",
            linewidths=0.5,
            rasterized=rasterized,
            zorder=3,
            label=marked_name,
        )
        axes.legend(handles=[rings], loc="best", framealpha=0.8, fontsize="small")
    quiet(axes)
    return axes


def plot_latent(
    fitted: Fitted,
    *,
    true_labels: ArrayLike | None = None,
    max_items: int = 5000,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Latent means by cluster; items that occur in answers carry a ring.

    Where the latent has more than two dimensions, its first two principal components are shown;
    where there is none, the features take its place.

    Parameters
    ----------
    fitted
        What ``fit`` returned.
    true_labels
        True class of every item, for a second panel.
    max_items
        Draw a random part of so many, if there are more.
    figure
        Where to draw; default a new one.

    Raises
    ------
    ValueError
        If ``true_labels`` is not one label per item, or there is but one dimension to show.
    """
    points, names = _plane(fitted)
    num_items = fitted.data.num_items
    if true_labels is not None and len(true_labels) != num_items:
        raise ValueError(f"true_labels has {len(true_labels)} entries for {num_items} items")
    shown = np.arange(num_items)
    if num_items > max_items:
        shown = np.sort(np.random.default_rng(0).choice(num_items, max_items, replace=False))
    answered = np.zeros(num_items, bool)
    answered[fitted.data.annotated_items] = True

    panels = [("by cluster", fitted.assignments, ())]
    if true_labels is not None:
        # A cluster and the class that it matches get the same colour.
        clusters, classes = _matched(fitted.assignments, _array(true_labels))
        panels = [
            ("by cluster", fitted.assignments, clusters),
            ("by true class", _array(true_labels), classes),
        ]
    figure = figure or new_figure(5.0 * len(panels), 4.6)
    row = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, labels, order) in zip(row, panels, strict=True):
        marked = answered[shown] if axes is row[0] else None
        plot_partition(points[shown], labels[shown], marked=marked, order=order, axes=axes)
        axes.set_title(title)
        axes.set_xlabel(names[0])
    row[0].set_ylabel(names[1])
    return figure


def plot_cluster_samples(
    fitted: Fitted,
    image_shape: tuple[int, ...],
    *,
    num_samples: int = 8,
    at_least: float = 0.0,
    pixel_noise: bool = False,
    seed: int = 0,
    axes: Axes | None = None,
) -> Axes:
    """Images ``o ~ p(o | x)``, ``x ~ N(mu_k, Sigma_k)``, a column for each cluster k.

    Columns stand in order of the cluster's weight, and are as bright as it is large, relative to
    the largest; Luo et al. 2018, figure 4a.

    Parameters
    ----------
    fitted
        What ``fit`` returned; its guide needs ``mixture()`` and its model an ``emission``.
    image_shape
        Height and width, and 3 for colour.
    num_samples
        Images of each cluster.
    at_least
        Leave out clusters with a smaller weight.
    pixel_noise
        Draw every pixel from p(o | x), instead of showing the mean of p(o | x).
    seed
        The same seed gives the same images.
    axes
        Where to draw; default a new figure's.

    Raises
    ------
    ValueError
        If the guide has no mixture, the model no emission, or features do not fit the shape.
    """
    weights, images = _sample_images(fitted, image_shape, num_samples, at_least, pixel_noise, seed)
    height, width = image_shape[:2]
    low, high = min(0.0, images.min()), images.max()
    shades = (images - low) / max(high - low, 1e-12)
    shades *= (weights / weights.max()).to_numpy().reshape(-1, *[1] * (shades.ndim - 1))

    # A pixel of background separates the images, so that dim ones can be told from gaps.
    gap = np.full((len(weights), num_samples, height + 1, width + 1, *image_shape[2:]), 0.25)
    gap[:, :, :-1, :-1] = shades
    mosaic = np.moveaxis(gap, (0, 2), (2, 1)).reshape(
        num_samples * (height + 1), len(weights) * (width + 1), *image_shape[2:]
    )
    if axes is None:
        columns = len(weights)
        axes = new_axes(max(0.45 * columns, 3.0), max(0.45 * num_samples, 1.5) + 0.7)
    axes.imshow(mosaic[:-1, :-1], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    names = [f"{index}\n{share:.0%}" for index, share in weights.items()]
    axes.set_xticks(np.arange(len(weights)) * (width + 1) + (width - 1) / 2, names)
    axes.tick_params(top=False, bottom=False, labeltop=True, labelbottom=False, labelsize="small")
    axes.set_yticks([])
    axes.set_title("cluster and its weight", fontsize="medium")
    axes.spines[:].set_visible(False)
    return axes


def _array(values: Any) -> np.ndarray:
    return values.numpy(force=True) if isinstance(values, torch.Tensor) else np.asarray(values)


def _places(groups: list[Float[np.ndarray, "item 2"]]) -> list[Float[np.ndarray, " 2"]]:
    """One point of each group to put its name at: near the middle, but away from other names."""
    if not groups:
        return []
    every = np.concatenate(groups)
    apart = 0.06 * (every.max(0) - every.min(0)) + 1e-12
    places: list[np.ndarray] = []
    for points in groups:
        # Unlike the mean of a bent group, the points nearest to the medians lie inside.
        distance = np.square((points - np.median(points, axis=0)) / apart).sum(1)
        near = points[np.argsort(distance, kind="stable")[: max(len(points) // 3, 1)]]
        gaps = [np.abs((near - place) / apart).max(1) for place in places]
        gap = np.minimum(np.min(gaps, axis=0), 1.0) if gaps else np.ones(len(near))
        places.append(near[gap.argmax()])
    return places


def _matched(clusters: np.ndarray, classes: np.ndarray) -> tuple[list[Hashable], list[Hashable]]:
    """Clusters and classes that match one to one, the largest match first."""
    table = pd.crosstab(clusters, classes)
    rows, columns = linear_sum_assignment(table.to_numpy(), maximize=True)
    order = np.argsort(-table.to_numpy()[rows, columns], kind="stable")
    return table.index[rows[order]].tolist(), table.columns[columns[order]].tolist()


def _plane(fitted: Fitted) -> tuple[Float[np.ndarray, "item 2"], tuple[str, str]]:
    """Two coordinates of every item, and their names."""
    values, kind = fitted.latent_means, "latent dimension"
    if values is None:
        kind = "feature"
        values = _array(fitted.data.features).reshape(fitted.data.num_items, -1)
    if values.shape[1] < 2:
        raise ValueError(f"there is but one {kind} to show, and a plane needs two")
    if values.shape[1] == 2:
        return values, (f"{kind} 1", f"{kind} 2")
    from sklearn.decomposition import PCA

    pca = PCA(2, svd_solver="covariance_eigh")
    points = pca.fit_transform(values)
    first, second = pca.explained_variance_ratio_
    return points, (
        f"principal component 1 ({first:.0%} of variance)",
        f"principal component 2 ({second:.0%})",
    )


def _root(covariance: Tensor | None) -> Float[Tensor, "cluster dim dim"]:
    """Square roots of covariances, or of the variances of independent features."""
    if covariance is None:
        raise ValueError(
            "components of discrete features have no covariance to draw samples with: draw from "
            "the model with Pyro's Predictive, or plot the means in result.components"
        )
    covariance = covariance.cpu()
    if covariance.dim() == 2:
        return covariance.sqrt().diag_embed()
    return torch.linalg.cholesky(covariance)


def _sample_images(
    fitted: Fitted,
    image_shape: tuple[int, ...],
    num_samples: int,
    at_least: float,
    pixel_noise: bool,
    seed: int,
) -> tuple[pd.Series, Float[np.ndarray, "cluster sample ..."]]:
    """Weights of the clusters to show, largest first, and images of each."""
    if not hasattr(fitted.guide, "mixture") or not hasattr(fitted.model, "emission"):
        raise ValueError(
            f"{type(fitted.guide).__name__} has no mixture() or {type(fitted.model).__name__} no "
            "emission, and samples need both: draw from your own model with Pyro's Predictive"
        )
    mixture, emission = fitted.guide.mixture(), fitted.model.emission
    weights = pd.Series(_array(mixture.weights)).sort_values(ascending=False, kind="stable")
    weights = weights[weights >= min(at_least, weights.max())]
    chosen = torch.tensor(weights.index.to_list())
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        root = _root(mixture.covariance)[chosen]
        noise = torch.randn(num_samples, *root.shape[:-1], 1, dtype=root.dtype)
        latent = mixture.location.cpu()[chosen] + (root @ noise).squeeze(-1)
        if getattr(emission, "observes_latent", False):
            images = latent
        else:
            features = emission(latent.to(fitted.device, fitted.dtype))
            images = features.sample() if pixel_noise else features.mean
    images = _array(images.double()).swapaxes(0, 1)
    size = int(np.prod(images.shape[2:]))
    if size != np.prod(image_shape) or len(image_shape) not in (2, 3):
        raise ValueError(f"{size} features do not make an image of the shape {image_shape}")
    return weights, images.reshape(len(weights), num_samples, *image_shape)
