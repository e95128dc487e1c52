"""Images of the clusters: pixel by pixel those of the emission, in colour as well."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust.plots import plot_cluster_samples

from ..crowds import DIM, NUM_CLUSTERS, NUM_FEATURES, plain_mixture
from .pictures import rendered

SHAPE = (2, NUM_FEATURES // 2)


def test_columns_are_clusters_in_order_of_weight(deep):
    axes = plot_cluster_samples(deep, SHAPE, num_samples=5)
    names = [text.get_text() for text in axes.get_xticklabels()]
    weights = deep.guide.mixture().weights
    order = weights.argsort(descending=True).tolist()
    own = deep.cluster_order.tolist()
    assert names == [f"{own.index(k)}\n{weights[k]:.0%}" for k in order]
    picture = axes.images[0].get_array()
    # A pixel stands between every two images.
    assert picture.shape == (5 * (2 + 1) - 1, NUM_CLUSTERS * (2 + 1) - 1)
    rendered(axes)


def test_components_are_called_by_the_clusters_that_own_them(deep):
    owned = dataclasses.replace(deep)
    vars(owned)["owners"] = np.eye(NUM_CLUSTERS)[[1, 1, 0]]
    axes = plot_cluster_samples(owned, SHAPE)
    names = [text.get_text() for text in axes.get_xticklabels()]
    weights = deep.guide.mixture().weights
    order = weights.argsort(descending=True).tolist()
    assert names == [f"{[1, 1, 0][k]}\n{weights[k]:.0%}" for k in order]


def test_pixels_are_those_of_the_emission_dimmed_by_weight(deep):
    picture = plot_cluster_samples(deep, SHAPE, num_samples=4, seed=7).images[0]
    mixture = deep.guide.mixture()
    order = mixture.weights.argsort(descending=True)
    torch.manual_seed(7)
    root = torch.linalg.cholesky(mixture.covariance)[order]
    noise = torch.randn(4, NUM_CLUSTERS, DIM, 1, dtype=root.dtype)
    with torch.no_grad():
        latent = mixture.location[order] + (root @ noise).squeeze(-1)
        images = deep.model.emission(latent).mean
    low, high = min(float(images.min()), 0.0), float(images.max())
    relative = (mixture.weights / mixture.weights.max())[order, None]
    shades = ((images - low) / (high - low) * relative).reshape(4, NUM_CLUSTERS, *SHAPE)
    shown = np.asarray(picture.get_array())
    for row in range(4):
        for column in range(NUM_CLUSTERS):
            part = shown[3 * row : 3 * row + 2, 3 * column : 3 * column + 2]
            np.testing.assert_allclose(part, shades[row, column], rtol=1e-6)


def test_same_seed_same_picture(deep):
    def picture(**options):
        return np.asarray(plot_cluster_samples(deep, SHAPE, **options).images[0].get_array())

    state = torch.get_rng_state()
    np.testing.assert_array_equal(picture(seed=1), picture(seed=1))
    assert not np.array_equal(picture(seed=1), picture(seed=2))
    assert torch.equal(state, torch.get_rng_state())


def test_without_networks_the_latents_are_the_images(fits):
    axes = plot_cluster_samples(fits["plain"], SHAPE, num_samples=200)
    picture = np.asarray(axes.images[0].get_array())
    assert picture.shape == (200 * 3 - 1, NUM_CLUSTERS * 3 - 1)


def test_light_clusters_can_be_left_out(deep):
    weights = np.sort(deep.guide.mixture().weights.numpy())
    axes = plot_cluster_samples(deep, SHAPE, at_least=weights[1])
    assert len(axes.get_xticklabels()) == 2


def test_colour_images():
    def drawn(means, shape):
        mixture = SimpleNamespace(
            weights=torch.tensor([0.25, 0.75]),
            location=torch.as_tensor(means),
            covariance=1e-20 * torch.eye(12, dtype=torch.float64).expand(2, 12, 12),
        )
        fitted = SimpleNamespace(
            model=plain_mixture(),
            guide=SimpleNamespace(mixture=lambda: mixture),
            cluster_order=np.array([1, 0]),
            owners=None,
            device=None,
            dtype=torch.float64,
        )
        return plot_cluster_samples(fitted, shape, num_samples=3)

    means = np.random.default_rng(5).normal(size=(2, 2, 2, 3))
    axes = drawn(means.reshape(2, 12), (2, 2, 3))
    picture = axes.images[0].get_array()
    assert picture.shape == (3 * 3 - 1, 2 * 3 - 1, 3)
    rendered(axes)
    channels_first = np.moveaxis(means, -1, 1).reshape(2, 12)
    again = drawn(channels_first, (3, 2, 2)).images[0].get_array()
    np.testing.assert_allclose(again, picture, atol=1e-6)
    gray = drawn(means.reshape(2, 12), (1, 3, 4)).images[0].get_array()
    wanted = drawn(means.reshape(2, 12), (3, 4)).images[0].get_array()
    np.testing.assert_allclose(gray, wanted, atol=1e-6)


def test_bad_input(deep):
    with pytest.raises(ValueError, match=f"an item has {NUM_FEATURES} features"):
        plot_cluster_samples(deep, (3, 3))
    with pytest.raises(ValueError, match="Predictive"):
        plot_cluster_samples(SimpleNamespace(model=len, guide=len), (2, 2))
