"""The latent space: which coordinates are shown, and true classes in colours of clusters."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from pyro_crowdclust import CrowdData
from pyro_crowdclust.plots import plot_latent
from pyro_crowdclust.plots.style import COLORS

from .pictures import offsets, rendered, rows


def test_two_dimensions_are_shown_as_they_are(deep):
    figure = plot_latent(deep)
    (axes,) = figure.axes
    *groups, rings = axes.collections
    assert rows(np.concatenate([offsets(g) for g in groups])) == rows(deep.latent_means)
    assert rows(offsets(rings)) == rows(deep.latent_means[deep.data.annotated_items])
    assert axes.get_xlabel() == "latent dimension 1"
    rendered(figure)


def test_true_classes_beside_and_in_the_colours_of_their_clusters(deep):
    truth = np.array(["ant", "bee", "cat"])[deep.assignments]
    left, right = plot_latent(deep, true_labels=truth).axes
    colors = [
        {c.get_label(): tuple(c.get_facecolor()[0][:3]) for c in axes.collections[:3]}
        for axes in (left, right)
    ]
    for cluster, name in set(zip(deep.assignments.tolist(), truth.tolist(), strict=True)):
        assert colors[0][str(cluster)] == colors[1][name]
    # Rings belong to the answers, not to the truth.
    assert left.get_legend() is not None
    assert right.get_legend() is None


def test_more_dimensions_become_principal_components(fits):
    fitted = fits["plain"]
    axes = plot_latent(fitted).axes[0]
    points = np.concatenate([offsets(group) for group in axes.collections[:-1]])
    centered = fitted.data.features - fitted.data.features.mean(0)
    largest = np.linalg.eigvalsh(centered.T @ centered)[::-1][:2]
    np.testing.assert_allclose(np.square(points).sum(0), largest)
    assert axes.get_xlabel().startswith("principal component 1 (")


def test_a_projection_of_the_users(fits):
    class Corner:
        def fit_transform(self, values):
            return values[:, [3, 1]]

    fitted = fits["plain"]
    axes = plot_latent(fitted, projection=Corner()).axes[0]
    points = np.concatenate([offsets(group) for group in axes.collections[:-1]])
    assert rows(points) == rows(fitted.data.features[:, [3, 1]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Corner 1", "Corner 2")


def test_a_part_of_many_items(deep):
    axes = plot_latent(deep, max_items=25).axes[0]
    assert sum(len(offsets(group)) for group in axes.collections[:-1]) == 25


@pytest.mark.parametrize("max_items", [25, 5000])
def test_clusters_have_the_colours_of_their_numbers(deep, max_items):
    """Of a part of the items another may be the largest."""
    groups = plot_latent(deep, max_items=max_items).axes[0].collections[:-1]
    colors = {int(c.get_label()): to_hex(c.get_facecolor()[0]) for c in groups if len(offsets(c))}
    assert colors == {k: COLORS[k].lower() for k in colors}
    assert len(colors) == 3


def test_bad_input(deep):
    with pytest.raises(ValueError, match="true_labels has 3 entries, but there are 60"):
        plot_latent(deep, true_labels=[0, 1, 2])
    one = SimpleNamespace(data=CrowdData(np.zeros((4, 1))), latent_means=np.zeros((4, 1)))
    with pytest.raises(ValueError, match="a plane needs two"):
        plot_latent(one)
