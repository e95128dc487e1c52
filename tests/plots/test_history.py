"""The course of training: lines are the history, and several fits stand in one picture."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pyro_crowdclust.plots import COLORS, plot_history

from .pictures import NUM_ITEMS, rendered


def test_lines_are_the_history(deep):
    figure = plot_history(deep)
    elbo, clusters = (axes.lines[0] for axes in figure.axes)
    np.testing.assert_allclose(elbo.get_ydata(), deep.history["elbo"] / NUM_ITEMS)
    np.testing.assert_array_equal(clusters.get_ydata(), deep.history["clusters_in_use"])
    np.testing.assert_array_equal(elbo.get_xdata(), [1, 2, 3, 4])
    assert figure.axes[1].get_xlabel() == "epoch"
    rendered(figure)


def test_without_clusters_there_is_one_panel(deep):
    history = deep.history.drop(columns="clusters_in_use")
    figure = plot_history(SimpleNamespace(history=history, data=deep.data))
    assert [axes.get_ylabel() for axes in figure.axes] == ["ELBO per item (nats)"]


def test_several_fits_stand_behind_the_first(fits):
    results = [fits["plain"], fits["deep"]]
    figure = plot_history(results)
    other, best = figure.axes[0].lines
    np.testing.assert_allclose(best.get_ydata(), results[0].history["elbo"] / NUM_ITEMS)
    np.testing.assert_allclose(other.get_ydata(), results[1].history["elbo"] / NUM_ITEMS)
    assert to_hex(best.get_color()).upper() == COLORS[0]
    assert to_hex(other.get_color()).upper() != COLORS[0]


def test_draws_in_a_part_of_a_larger_figure(deep):
    whole = Figure()
    left, right = whole.subfigures(1, 2)
    assert plot_history(deep, figure=left) is left
    assert len(left.axes) == 2
    assert not right.axes
