"""Sizes of clusters with their spread, and the true classes that clusters hold."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.plots import plot_cluster_sizes, plot_contingency

from ..crowds import NUM_CLUSTERS, blobs, quiet_fit
from ..registries import PAIRS_OF_MODEL_AND_GUIDE
from .pictures import NUM_ITEMS, cut_labels, rendered


class TestClusterSizes:
    def test_bars_are_expected_sizes_with_their_spread(self, deep):
        axes = plot_cluster_sizes(deep)
        errors, bars = axes.containers
        q = deep.probabilities
        order = np.argsort(-q.sum(0), kind="stable")
        np.testing.assert_allclose([bar.get_width() for bar in bars], q.sum(0)[order])
        (spread,) = errors.lines[2]
        widths = [np.ptp(segment[:, 0]) for segment in spread.get_segments()]
        deviation = np.sqrt((q * (1 - q)).sum(0))[order]
        np.testing.assert_allclose(widths, 2 * 1.645 * deviation, rtol=1e-6, atol=1e-9)
        assert [tick.get_text() for tick in axes.get_yticklabels()] == order.astype(str).tolist()
        rendered(axes)

    def test_weights_are_the_quantiles_of_their_posterior(self, deep):
        axes = plot_cluster_sizes(deep, num_draws=4000)
        (intervals,) = [c for c in axes.collections if c.get_label().startswith("_child")][-1:]
        found = np.array([segment[:, 0] for segment in intervals.get_segments()])
        alpha = deep.guide.posteriors["weights"].standard().concentration.numpy()
        order = np.argsort(-deep.probabilities.sum(0), kind="stable")
        marginal = scipy.stats.beta(alpha[order], alpha.sum() - alpha[order])
        expected = NUM_ITEMS * np.stack(marginal.interval(0.9), 1)
        np.testing.assert_allclose(found, expected, atol=0.03 * NUM_ITEMS)

    def test_small_clusters_are_counted_not_drawn(self, deep):
        largest = deep.probabilities.sum(0).max() / NUM_ITEMS
        axes = plot_cluster_sizes(deep, at_least=largest - 1e-9)
        assert len(axes.get_yticklabels()) == 1
        assert f"{NUM_CLUSTERS - 1} more with" in axes.get_xlabel()

    def test_probabilities_may_be_one_and_a_rounding_error(self, deep):
        certain = dataclasses.replace(deep)
        vars(certain)["probabilities"] = (1 + 1e-15) * np.eye(NUM_CLUSTERS)[deep.assignments]
        plot_cluster_sizes(certain)

    @pytest.mark.parametrize("name", ["pair regression", "answers alone"])
    def test_a_model_without_weights_has_its_expected_items(self, name):
        fitted = quiet_fit(*PAIRS_OF_MODEL_AND_GUIDE[name](), epochs=2)
        axes = plot_cluster_sizes(fitted, at_least=0.0)
        bars = axes.containers[-1]
        np.testing.assert_allclose(
            [bar.get_width() for bar in bars], -np.sort(-fitted.probabilities.sum(0))
        )
        said = {text.get_text() for text in axes.get_legend().get_texts()}
        # Of partitions that are drawn as a whole items are not independent.
        of_draws = {"expected items"}
        assert said == (of_draws if name == "answers alone" else {"these items, 90 % interval"})
        assert len(axes.containers) == (1 if name == "answers alone" else 2)

    def test_classes_have_their_names(self, named):
        axes = plot_cluster_sizes(named)
        order = np.argsort(-named.probabilities.sum(0), kind="stable")
        names = named.data.class_ids[order].tolist()
        assert [tick.get_text() for tick in axes.get_yticklabels()] == names
        assert axes.get_ylabel() == "class"
        columns = plot_contingency(named, named.data.class_ids[named.assignments])
        assert {tick.get_text() for tick in columns.get_xticklabels()} == set(names)
        assert columns.get_xlabel() == "class"


@pytest.fixture
def named():
    """A fit of class labels: three birds, six dogs."""
    said = [(item, worker, "bird" if item < 3 else "dog") for item in range(9) for worker in "ab"]
    labels = pd.DataFrame(said, columns=["item", "worker", "label"])
    return infer_classes(CrowdData(None, labels=labels), [1], epochs=2)


class TestContingency:
    def test_rows_are_shares_of_the_classes(self, deep):
        truth = np.array(["ant", "bee", "cat"])[blobs(NUM_ITEMS)[1]]
        axes = plot_contingency(deep, truth, at_least=0)
        shown = np.asarray(axes.images[0].get_array())
        columns = [int(tick.get_text()) for tick in axes.get_xticklabels()]
        for row, name in enumerate(["ant", "bee", "cat"]):
            of_class = deep.assignments[truth == name]
            np.testing.assert_allclose(shown[row], [np.mean(of_class == c) for c in columns])
        # Clusters stand where the class is that they match.
        found = len(set(deep.assignments.tolist()))
        assert np.trace(shown[:found, :found]) >= np.trace(shown[:found, :found][:, ::-1])
        rendered(axes)

    def test_many_long_names(self):
        names = np.array([f"a kind of bird no. {number}" for number in range(25)])
        fitted = SimpleNamespace(
            data=CrowdData(np.arange(50.0)[:, None]),
            probabilities=np.eye(25)[np.arange(50) % 25],
            assignments=np.arange(50) % 25,
        )
        axes = plot_contingency(fitted, names[fitted.assignments])
        assert [text.get_text() for text in axes.texts] == ["100"] * 25
        assert not cut_labels(axes.figure)

    def test_bad_input(self, deep):
        with pytest.raises(ValueError, match="true_labels has 3 entries, but there are 60"):
            plot_contingency(deep, [0, 1, 2])
