"""Images drawn from the clusters of a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.metrics import as_array
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.plots.style import new_axes
from pyro_crowdclust.protocols import FittedModel, SupportsFeaturesOf, SupportsMixture
from pyro_crowdclust.training.isolation import own_random_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cluster_samples(
    fitted: FittedModel,
    image_shape: tuple[int, ...],
    *,
    num_samples: int = 8,
    at_least: float = 0.0,
    seed: int = 0,
    axes: Axes | None = None,
) -> Axes:
    """Images ``E[o | x]``, ``x ~ N(mu_k, Sigma_k)``, a column for each cluster k.

    Columns are ordered by the cluster's weight, and their brightness is the weight relative to the
    largest one; Luo et al. 2018, figure 4a. With an ownership every component has a column, with
    the number of its most probable cluster.

    Parameters
    ----------
    fitted
        What ``fit`` returned; its guide needs ``mixture()`` and its model
        ``features_of(latent, clusters)``.
    image_shape
        Height and width, and 3 for colour; or channels, height and width, as in networks.
    num_samples
        Number of images of each cluster.
    at_least
        Leave out clusters with a smaller weight.
    seed
        Seed of the images.
    axes
        Axes to draw in; default: those of a new figure.

    Raises
    ------
    ValueError
        If the guide has no ``mixture``, the model has no ``features_of``, or features do not fit
        the shape.
    """
    weights, images = _sample_images(fitted, image_shape, num_samples, at_least, seed)
    height, width, *channels = images.shape[2:]
    low, high = min(0.0, images.min()), images.max()
    shades = (images - low) / max(high - low, 1e-12)
    shades *= (weights / weights.max()).to_numpy().reshape(-1, *[1] * (shades.ndim - 1))

    # A pixel of background separates the images, so that dim images can be seen.
    gap = np.full((len(weights), num_samples, height + 1, width + 1, *channels), 0.25)
    gap[:, :, :-1, :-1] = shades
    mosaic = np.moveaxis(gap, (0, 2), (2, 1)).reshape(
        num_samples * (height + 1), len(weights) * (width + 1), *channels
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
    fitted: FittedModel,
    image_shape: tuple[int, ...],
    num_samples: int,
    at_least: float,
    seed: int,
) -> tuple[pd.Series, Float[np.ndarray, "cluster sample ..."]]:
    """Weights of the clusters to show, largest first, and images of each."""
    guide, model = fitted.guide, fitted.model
    if not isinstance(guide, SupportsMixture) or not isinstance(model, SupportsFeaturesOf):
        raise ValueError(
            f"samples need {type(guide).__name__}.mixture() and {type(model).__name__}"
            ".features_of(), but one of them is missing: draw from your own model with Pyro's "
            "Predictive"
        )
    mixture = guide.mixture()
    weights = pd.Series(as_array(mixture.weights)).sort_values(ascending=False, kind="stable")
    weights = weights[weights >= min(at_least, weights.max())]
    chosen = torch.tensor(weights.index.to_list())
    with torch.no_grad(), own_random_numbers(seed), evaluating(model):
        root = _root(mixture.covariance)[chosen]
        noise = torch.randn(num_samples, *root.shape[:-1], 1, dtype=root.dtype)
        latent = mixture.location.cpu()[chosen] + (root @ noise).squeeze(-1)
        images = model.features_of(latent.to(fitted.device, fitted.dtype), chosen).mean
    drawn = as_array(images.double().reshape(*latent.shape[:2], -1)).swapaxes(0, 1)
    if fitted.owners is not None:
        weights.index = fitted.owners.argmax(1)[weights.index]
    elif fitted.cluster_order is not None:
        weights.index = np.argsort(fitted.cluster_order)[weights.index]
    size = int(np.prod(drawn.shape[2:]))
    if size != np.prod(image_shape) or len(image_shape) not in (2, 3):
        raise ValueError(
            f"image_shape is {image_shape}, but an item has {size} features: pass height and width "
            "(and channels) with this product"
        )
    shown = drawn.reshape(len(weights), num_samples, *image_shape)
    if len(image_shape) == 3 and image_shape[0] in (1, 3) and image_shape[2] not in (1, 3):
        shown = np.moveaxis(shown, 2, -1)
    return weights, shown[..., 0] if shown.shape[4:] == (1,) else shown
