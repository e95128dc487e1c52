"""Workers: what is known of each with its interval, and the truth beside it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.plots import plot_worker_weights, plot_workers

from ..crowds import NUM_WORKERS, blobs, plain_mixture, quiet_fit
from .pictures import cut_labels, offsets, rendered, rows


def with_workers(weights: list[float], sds: list[float]) -> SimpleNamespace:
    """A stand-in for a fit whose workers are known."""
    frame = pd.DataFrame(
        {"weight": weights, "weight_sd": sds},
        index=pd.Index(list("abcdefgh"[: len(weights)]), name="worker"),
    )
    for name in ("sensitivity", "specificity"):
        frame[name] = np.linspace(0.5, 0.9, len(weights))
        frame[f"{name}_lower"], frame[f"{name}_upper"] = frame[name] - 0.1, frame[name] + 0.1
    return SimpleNamespace(workers=frame)


class TestWorkerWeights:
    def test_forest_is_sorted_with_intervals(self):
        figure = plot_worker_weights(with_workers([2.0, -1.0, 3.0], [0.1, 0.2, 0.3]))
        (axes,) = figure.axes
        np.testing.assert_allclose(axes.lines[0].get_xdata(), [-1.0, 2.0, 3.0])
        bars = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
        half = 1.6449 * np.array([0.2, 0.1, 0.3])
        np.testing.assert_allclose(bars[:, 1] - bars[:, 0], 2 * half, rtol=1e-3)
        assert [text.get_text() for text in axes.get_yticklabels()] == ["b", "a", "c"]
        rendered(figure)

    def test_truth_stands_beside_and_against(self):
        fitted = with_workers([2.0, -1.0, 3.0], [0.1, 0.2, 0.3])
        truth = pd.DataFrame({"weight": [2.5, np.inf, -0.5]}, index=["a", "c", "b"])
        forest, against = plot_worker_weights(fitted, truth=truth).axes
        # Worker c, whose true weight is infinite, has a row but no mark.
        assert rows(offsets(forest.collections[1])) == {(-0.5, 0.0), (2.5, 1.0)}
        line = against.containers[0].lines[0]
        assert rows(np.c_[line.get_xdata(), line.get_ydata()]) == {(-0.5, -1.0), (2.5, 2.0)}
        assert against.get_xlabel() == "true weight"
        assert [text.get_text() for text in forest.get_legend().get_texts()] == ["true"]

    def test_long_names_cut_no_label(self):
        fitted = with_workers([2.0, -1.0, 3.0], [0.1, 0.2, 0.3])
        names = [f"annotator_{number}@a.department.example.org" for number in range(3)]
        fitted.workers.index = pd.Index(names, name="worker")
        for draw in (plot_worker_weights, plot_workers):
            assert not cut_labels(draw(fitted))

    def test_of_a_real_fit(self, deep):
        figure = plot_worker_weights(deep)
        assert len(figure.axes[0].get_yticklabels()) == NUM_WORKERS
        rendered(figure)

    def test_truth_without_weights(self, deep):
        with pytest.raises(ValueError, match="has no column 'weight'"):
            plot_worker_weights(deep, truth=pd.DataFrame({"accuracy": [1.0]}))

    def test_no_workers(self):
        model = plain_mixture(None)
        fitted = quiet_fit(model, MessagePassingGuide(model), CrowdData(blobs()[0]))
        with pytest.raises(ValueError, match="no workers"):
            plot_worker_weights(fitted)


class TestWorkers:
    def test_two_forests_share_their_rows(self, deep):
        figure = plot_workers(deep)
        workers = deep.workers.sort_values("weight")
        for axes, name in zip(figure.axes, ("sensitivity", "specificity"), strict=True):
            np.testing.assert_allclose(axes.lines[0].get_xdata(), workers[name])
            bars = np.array([segment[:, 0] for segment in axes.collections[0].get_segments()])
            np.testing.assert_allclose(bars, workers[[f"{name}_lower", f"{name}_upper"]])
            assert axes.get_xlabel() == name
        assert len(figure.axes[0].get_yticklabels()) == NUM_WORKERS
        rendered(figure)

    def test_point_estimates_have_no_intervals(self, fits):
        figure = plot_workers(fits["amortized"])
        assert len(figure.axes[0].lines[0].get_xdata()) == NUM_WORKERS
        rendered(figure)

    def test_workers_with_one_rate_have_one_panel(self):
        table = pd.DataFrame(
            {"accuracy": [0.9], "accuracy_sd": 0.1, "accuracy_lower": 0.8, "accuracy_upper": 0.95}
        )
        figure = plot_workers(SimpleNamespace(workers=table.assign(weight=4.0, weight_sd=1.0)))
        (axes,) = figure.axes
        assert axes.get_xlabel() == "accuracy"
        rendered(figure)

    def test_many_rates_have_a_panel_each_of_which_five_are_beside_each_other(self):
        rates = {}
        for number in range(13):
            rates |= {f"r{number}_{end}": [number / 20] for end in ("lower", "upper")}
            rates |= {f"r{number}": [number / 20]}
        table = pd.DataFrame(rates).assign(weight=4.0, weight_sd=1.0)
        figure = plot_workers(SimpleNamespace(workers=table))
        shown = [axes for axes in figure.axes if axes.axison]
        assert [axes.get_xlabel() for axes in shown] == [f"r{number}" for number in range(13)]
        assert [axes.lines[0].get_xdata()[0] for axes in shown] == [n / 20 for n in range(13)]
        assert len(figure.axes) == 15
        rendered(figure)

    def test_a_hundred_workers_have_no_names(self):
        weights = np.linspace(-1, 4, 100)
        fitted = SimpleNamespace(
            workers=pd.concat([with_workers([w], [0.1]).workers for w in weights])
        )
        axes = plot_workers(fitted).axes[0]
        assert len(axes.lines[0].get_xdata()) == 100
        assert {text.get_text() for text in axes.get_yticklabels()} == {""}


def test_workers_of_class_labels_are_sorted_by_their_accuracy():
    index = pd.Index(["ann", "ben"], name="worker")
    fitted = SimpleNamespace(workers=pd.DataFrame({"accuracy": [0.9, 0.6], "labels": 5}, index))
    (axes,) = plot_workers(fitted).axes
    assert axes.get_xlabel() == "accuracy"
    assert axes.lines[0].get_xdata().tolist() == [0.6, 0.9]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["ben", "ann"]
    with pytest.raises(ValueError, match="class labels.*: call plot_workers, or plot_confusion"):
        plot_worker_weights(fitted)
