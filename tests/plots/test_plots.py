"""What stands in the pictures: every point, line and name that the fit has."""

from __future__ import annotations

import dataclasses
import io
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LocalPosterior
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.plots import (
    COLORS,
    plot_calibration,
    plot_cluster_samples,
    plot_cluster_sizes,
    plot_confusion,
    plot_contingency,
    plot_history,
    plot_latent,
    plot_partition,
    plot_worker_weights,
    plot_workers,
)

from ..crowds import (
    DIM,
    NUM_CLUSTERS,
    NUM_FEATURES,
    NUM_WORKERS,
    amortized_pair,
    blobs,
    crowd,
    message_passing_pair,
    plain_mixture,
    plain_pair,
    quiet_fit,
)
from ..registries import PAIRS_OF_MODEL_AND_GUIDE

NUM_ITEMS = 60
PAIRS = {"deep": message_passing_pair, "plain": plain_pair, "amortized": amortized_pair}


@pytest.fixture(scope="module")
def fits() -> dict[str, Fitted]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    made = {name: quiet_fit(*make(), crowd(NUM_ITEMS), epochs=4) for name, make in PAIRS.items()}
    torch.set_default_dtype(before)
    return made


@pytest.fixture
def deep(fits) -> Fitted:
    return fits["deep"]


def rendered(drawn) -> bytes:
    """The picture's bytes, so that everything is really drawn."""
    file = io.BytesIO()
    getattr(drawn, "figure", drawn).savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def offsets(collection) -> np.ndarray:
    return np.asarray(collection.get_offsets())


def rows(array) -> set[tuple[float, ...]]:
    return {tuple(row) for row in np.round(np.asarray(array, float), 9).tolist()}


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


class TestHistory:
    def test_lines_are_the_history(self, deep):
        figure = plot_history(deep)
        elbo, clusters = (axes.lines[0] for axes in figure.axes)
        np.testing.assert_allclose(elbo.get_ydata(), deep.history["elbo"] / NUM_ITEMS)
        np.testing.assert_array_equal(clusters.get_ydata(), deep.history["clusters_in_use"])
        np.testing.assert_array_equal(elbo.get_xdata(), [1, 2, 3, 4])
        assert figure.axes[1].get_xlabel() == "epoch"
        rendered(figure)

    def test_without_clusters_there_is_one_panel(self, deep):
        history = deep.history.drop(columns="clusters_in_use")
        figure = plot_history(SimpleNamespace(history=history, data=deep.data))
        assert [axes.get_ylabel() for axes in figure.axes] == ["ELBO per item (nats)"]

    def test_several_fits_stand_behind_the_first(self, fits):
        results = [fits["plain"], fits["deep"]]
        figure = plot_history(results)
        other, best = figure.axes[0].lines
        np.testing.assert_allclose(best.get_ydata(), results[0].history["elbo"] / NUM_ITEMS)
        np.testing.assert_allclose(other.get_ydata(), results[1].history["elbo"] / NUM_ITEMS)
        assert to_hex(best.get_color()).upper() == COLORS[0]
        assert to_hex(other.get_color()).upper() != COLORS[0]

    def test_draws_in_a_part_of_a_larger_figure(self, deep):
        whole = Figure()
        left, right = whole.subfigures(1, 2)
        assert plot_history(deep, figure=left) is left
        assert len(left.axes) == 2
        assert not right.axes


class TestPartition:
    def test_every_group_has_its_points_and_its_name(self):
        points, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
        axes = plot_partition(points, labels)
        for scatter in axes.collections:
            label = int(scatter.get_label())
            assert rows(offsets(scatter)) == rows(points[labels == label])
        assert sorted(text.get_text() for text in axes.texts) == ["0", "1", "2"]
        assert len({tuple(scatter.get_facecolor()[0]) for scatter in axes.collections}) == 3
        rendered(axes)

    def test_names_stand_at_own_points_and_apart(self):
        rng = np.random.default_rng(1)
        labels = np.repeat(["one", "two", "three", "four"], 50)
        points = rng.normal(size=(200, 2))
        axes = plot_partition(points, labels)
        places = {text.get_text(): text.xy for text in axes.texts}
        for name, place in places.items():
            assert rows([place]) <= rows(points[labels == name])
        apart = 0.06 * np.ptp(points, axis=0)
        gaps = [
            np.max(np.abs(np.subtract(places[a], places[b])) / apart)
            for a in places
            for b in places
            if a < b
        ]
        assert min(gaps) >= 1

    def test_small_groups_are_grey_and_nameless(self):
        points = np.random.default_rng(2).normal(size=(200, 2))
        labels = np.array([0] * 198 + [1, 2])
        axes = plot_partition(points, labels, at_least=0.01)
        assert [text.get_text() for text in axes.texts] == ["0"]
        assert sum(len(offsets(scatter)) for scatter in axes.collections) == 200

    def test_order_decides_the_colours(self):
        points, labels = np.zeros((6, 2)), ["a", "a", "a", "b", "b", "c"]
        axes = plot_partition(points, labels, order=["c", "b"])
        colors = {c.get_label(): to_hex(c.get_facecolor()[0]).upper() for c in axes.collections}
        assert [colors[name] for name in "cba"] == list(COLORS[:3])

    def test_more_groups_than_colours_differ_by_marker(self):
        labels = np.arange(2 * len(COLORS))
        axes = plot_partition(np.random.default_rng(3).normal(size=(len(labels), 2)), labels)
        looks = {
            (tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes())
            for c in axes.collections
        }
        assert len(looks) == len(labels)

    def test_marked_points_carry_a_ring(self):
        points = np.random.default_rng(4).normal(size=(10, 2))
        axes = plot_partition(points, [0] * 10, marked=np.arange(10) < 4, marked_name="asked")
        assert rows(offsets(axes.collections[-1])) == rows(points[:4])
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["asked"]

    def test_bad_input(self):
        with pytest.raises(ValueError, match=r"\[item, 2\].*\[5, 3\]"):
            plot_partition(np.zeros((5, 3)), [0] * 5)
        with pytest.raises(ValueError, match="labels has 4 entries for 5 points"):
            plot_partition(np.zeros((5, 2)), [0] * 4)
        with pytest.raises(ValueError, match="marked has 6 entries for 5 points"):
            plot_partition(np.zeros((5, 2)), [0] * 5, marked=[True] * 6)


class TestLatent:
    def test_two_dimensions_are_shown_as_they_are(self, deep):
        figure = plot_latent(deep)
        (axes,) = figure.axes
        *groups, rings = axes.collections
        assert rows(np.concatenate([offsets(g) for g in groups])) == rows(deep.latent_means)
        assert rows(offsets(rings)) == rows(deep.latent_means[deep.data.annotated_items])
        assert axes.get_xlabel() == "latent dimension 1"
        rendered(figure)

    def test_true_classes_beside_and_in_the_colours_of_their_clusters(self, deep):
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

    def test_more_dimensions_become_principal_components(self, fits):
        fitted = fits["plain"]
        axes = plot_latent(fitted).axes[0]
        points = np.concatenate([offsets(group) for group in axes.collections[:-1]])
        centered = fitted.data.features - fitted.data.features.mean(0)
        largest = np.linalg.eigvalsh(centered.T @ centered)[::-1][:2]
        np.testing.assert_allclose(np.square(points).sum(0), largest)
        assert axes.get_xlabel().startswith("principal component 1 (")

    def test_a_projection_of_the_users(self, fits):
        class Corner:
            def fit_transform(self, values):
                return values[:, [3, 1]]

        fitted = fits["plain"]
        axes = plot_latent(fitted, projection=Corner()).axes[0]
        points = np.concatenate([offsets(group) for group in axes.collections[:-1]])
        assert rows(points) == rows(fitted.data.features[:, [3, 1]])
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("Corner 1", "Corner 2")

    def test_a_part_of_many_items(self, deep):
        axes = plot_latent(deep, max_items=25).axes[0]
        assert sum(len(offsets(group)) for group in axes.collections[:-1]) == 25

    def test_bad_input(self, deep):
        with pytest.raises(ValueError, match="true_labels has 3 entries for 60 items"):
            plot_latent(deep, true_labels=[0, 1, 2])
        one = SimpleNamespace(data=CrowdData(np.zeros((4, 1))), latent_means=np.zeros((4, 1)))
        with pytest.raises(ValueError, match="a plane needs two"):
            plot_latent(one)


class TestClusterSamples:
    SHAPE = (2, NUM_FEATURES // 2)

    def test_columns_are_clusters_in_order_of_weight(self, deep):
        axes = plot_cluster_samples(deep, self.SHAPE, num_samples=5)
        names = [text.get_text() for text in axes.get_xticklabels()]
        weights = deep.guide.mixture().weights
        order = weights.argsort(descending=True).tolist()
        own = deep.cluster_order.tolist()
        assert names == [f"{own.index(k)}\n{weights[k]:.0%}" for k in order]
        picture = axes.images[0].get_array()
        # A pixel stands between every two images.
        assert picture.shape == (5 * (2 + 1) - 1, NUM_CLUSTERS * (2 + 1) - 1)
        rendered(axes)

    def test_pixels_are_those_of_the_emission_dimmed_by_weight(self, deep):
        picture = plot_cluster_samples(deep, self.SHAPE, num_samples=4, seed=7).images[0]
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
        shades = ((images - low) / (high - low) * relative).reshape(4, NUM_CLUSTERS, *self.SHAPE)
        shown = np.asarray(picture.get_array())
        for row in range(4):
            for column in range(NUM_CLUSTERS):
                part = shown[3 * row : 3 * row + 2, 3 * column : 3 * column + 2]
                np.testing.assert_allclose(part, shades[row, column], rtol=1e-6)

    def test_same_seed_same_picture_and_noise_changes_it(self, deep):
        def picture(**options):
            return np.asarray(
                plot_cluster_samples(deep, self.SHAPE, **options).images[0].get_array()
            )

        state = torch.get_rng_state()
        np.testing.assert_array_equal(picture(seed=1), picture(seed=1))
        assert not np.array_equal(picture(seed=1), picture(seed=2))
        assert not np.array_equal(picture(), picture(pixel_noise=True))
        assert torch.equal(state, torch.get_rng_state())

    def test_without_networks_the_latents_are_the_images(self, fits):
        axes = plot_cluster_samples(fits["plain"], self.SHAPE, num_samples=200)
        picture = np.asarray(axes.images[0].get_array())
        assert picture.shape == (200 * 3 - 1, NUM_CLUSTERS * 3 - 1)

    def test_light_clusters_can_be_left_out(self, deep):
        weights = np.sort(deep.guide.mixture().weights.numpy())
        axes = plot_cluster_samples(deep, self.SHAPE, at_least=weights[1])
        assert len(axes.get_xticklabels()) == 2

    def test_colour_images(self):
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

    def test_bad_input(self, deep):
        with pytest.raises(ValueError, match=f"{NUM_FEATURES} features do not make an image"):
            plot_cluster_samples(deep, (3, 3))
        with pytest.raises(ValueError, match="Predictive"):
            plot_cluster_samples(SimpleNamespace(model=len, guide=len), (2, 2))


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

    def test_of_a_real_fit(self, deep):
        figure = plot_worker_weights(deep)
        assert len(figure.axes[0].get_yticklabels()) == NUM_WORKERS
        rendered(figure)

    def test_truth_without_weights(self, deep):
        with pytest.raises(ValueError, match="needs a column 'weight'"):
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

    def test_a_hundred_workers_have_no_names(self):
        weights = np.linspace(-1, 4, 100)
        fitted = SimpleNamespace(
            workers=pd.concat([with_workers([w], [0.1]).workers for w in weights])
        )
        axes = plot_workers(fitted).axes[0]
        assert len(axes.lines[0].get_xdata()) == 100
        assert {text.get_text() for text in axes.get_yticklabels()} == {""}


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
        assert f"{NUM_CLUSTERS - 1} more hold" in axes.get_xlabel()

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
        assert said == (of_draws if name == "answers alone" else {"items, 90 % under q(z)"})
        assert len(axes.containers) == (1 if name == "answers alone" else 2)


@pytest.mark.parametrize("name", PAIRS_OF_MODEL_AND_GUIDE)
def test_every_fit_has_its_training_and_its_clusters_drawn(name):
    """What ``docs/plots.md`` says needs nothing, or known classes alone."""
    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    fitted = quiet_fit(model, guide, data, epochs=2)
    rendered(plot_history(fitted))
    rendered(plot_cluster_sizes(fitted))
    rendered(plot_contingency(fitted, np.arange(data.num_items) % 2))


def with_probabilities(guide, probabilities):
    """The guide, with an ``infer`` that knows q(z)."""
    guide.infer = lambda batch: LocalPosterior(torch.as_tensor(probabilities).log(), None)
    return guide


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

    def test_bad_input(self, deep):
        with pytest.raises(ValueError, match="true_labels has 3 entries for 60 items"):
            plot_contingency(deep, [0, 1, 2])


class TestConfusion:
    MATRICES = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.004, 0.996]]])

    def test_a_panel_for_each_worker(self):
        figure = plot_confusion(self.MATRICES, workers=["Ann", "Bob"], classes=["cat", "dog"])
        for axes, values, name in zip(figure.axes, self.MATRICES, ["Ann", "Bob"], strict=True):
            np.testing.assert_allclose(axes.images[0].get_array(), values)
            assert axes.get_title() == name
        # Numbers in percent, left out where they round to zero.
        assert [text.get_text() for text in figure.axes[1].texts] == ["50", "50", "100"]
        rendered(figure)

    def test_a_frame_brings_its_names(self):
        index = pd.MultiIndex.from_product(
            [["Ann", "Bob"], ["cat", "dog"], ["cat", "dog"]], names=["worker", "class", "label"]
        )
        frame = pd.DataFrame({"mean": self.MATRICES.ravel()}, index=index)
        figure = plot_confusion(frame)
        assert [axes.get_title() for axes in figure.axes] == ["Ann", "Bob"]
        np.testing.assert_allclose(figure.axes[1].images[0].get_array(), self.MATRICES[1])
        names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        assert names == ["cat", "dog"]

    def test_a_result_brings_its_table(self, deep):
        said = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xyyy")}
        result = infer_classes(CrowdData(None, labels=said), [1], epochs=2)
        of_table, of_result = plot_confusion(result.confusion), plot_confusion(result)
        for one, other in zip(of_table.axes, of_result.axes, strict=True):
            assert one.get_title() == other.get_title()
            np.testing.assert_allclose(one.images[0].get_array(), other.images[0].get_array())
        with pytest.raises(ValueError, match=r"no confusion matrices.* plot_workers\(result\)"):
            plot_confusion(deep)

    def test_one_worker_and_the_first_of_many(self):
        assert len(plot_confusion(self.MATRICES[0]).axes) == 1
        many = np.repeat(self.MATRICES, 5, axis=0)
        figure = plot_confusion(many, max_workers=6)
        assert sum(bool(axes.images) for axes in figure.axes) == 6
        rendered(figure)

    def test_bad_input(self):
        with pytest.raises(ValueError, match="rows that sum to one"):
            plot_confusion(2 * self.MATRICES)
        with pytest.raises(ValueError, match="3 workers and 2 classes are named"):
            plot_confusion(self.MATRICES, workers=["a", "b", "c"])


def with_known_pairs(q: np.ndarray) -> SimpleNamespace:
    """A stand-in for a fit whose q(z) is known."""
    return SimpleNamespace(
        data=SimpleNamespace(item_ids=pd.RangeIndex(len(q))),
        same_cluster_probability=lambda left, right: (q[left] * q[right]).sum(1),
    )


class TestCalibration:
    def test_points_are_means_and_shares_of_bins(self):
        # Two groups of items: inside each, P(same) is 0.5; between them 0.
        rng = np.random.default_rng(0)
        group = np.arange(400) % 2
        q = np.zeros((400, 4))
        q[group == 0, :2] = q[group == 1, 2:] = 0.5
        truth = 2 * group + rng.integers(2, size=400)
        fitted = with_known_pairs(q)
        top, bottom = plot_calibration(fitted, truth, num_pairs=20_000).axes
        line = top.lines[1]
        np.testing.assert_allclose(line.get_xdata(), [0.0, 0.5])
        assert line.get_ydata()[0] == 0
        assert line.get_ydata()[1] == pytest.approx(0.5, abs=0.05)
        heights = np.array([bar.get_height() for bar in bottom.patches])
        assert heights.sum() == 20_000
        assert np.flatnonzero(heights).tolist() == [0, 5]
        lower, upper = top.collections[0].get_segments()[1][:, 1]
        share, count = line.get_ydata()[1], heights[5]
        interval = scipy.stats.binomtest(round(share * count), int(count)).proportion_ci(
            0.9, method="wilson"
        )
        np.testing.assert_allclose([lower, upper], [interval.low, interval.high], atol=1e-4)
        assert top.get_title().startswith("expected calibration error 0.0")
        rendered(top)

    def test_of_a_real_fit(self, deep):
        figure = plot_calibration(deep, blobs(NUM_ITEMS)[1], num_pairs=500)
        assert figure.axes[1].get_xlabel() == "probability of being the same"
        rendered(figure)

    def test_no_item_is_paired_with_itself(self):
        fitted = with_known_pairs(np.eye(2))
        top, _ = plot_calibration(fitted, [0, 1], num_pairs=50).axes
        assert top.lines[1].get_xdata().tolist() == [0.0]

    def test_bad_input(self, deep):
        with pytest.raises(ValueError, match="true_labels has 1 entries for 60 items"):
            plot_calibration(deep, [0])
        one = SimpleNamespace(data=CrowdData(np.zeros((1, 2))))
        with pytest.raises(ValueError, match="one item, and calibration is of pairs"):
            plot_calibration(one, [0])


def titled(result, labels):
    return plot_calibration(result, labels).axes[0].get_title()


def shares(result, labels):
    return np.asarray(plot_contingency(result, labels).images[0].get_array()).tolist()


def colored(result, labels):
    panel = plot_latent(result, true_labels=labels).axes[1]
    return {group.get_label(): rows(offsets(group)) for group in panel.collections}


@pytest.mark.parametrize("drawn", [titled, shares, colored])
@pytest.mark.parametrize("ids", [[f"i{n}" for n in range(NUM_ITEMS)], range(NUM_ITEMS)])
def test_a_series_of_true_labels_may_say_by_its_index_which_items_they_are_of(deep, drawn, ids):
    result = dataclasses.replace(deep, data=deep.data.with_parts(item_ids=pd.Index(ids)))
    truth = blobs(NUM_ITEMS)[1]
    order = np.random.default_rng(0).permutation(NUM_ITEMS)
    in_order, shuffled = pd.Series(truth, ids), pd.Series(truth, ids).iloc[order]
    expected = drawn(result, truth)
    assert drawn(result, in_order) == drawn(result, shuffled) == expected
    # Whatever the index is if not the ids, once each, labels are in the order of the items.
    others = [f"other {n}" for n in order]
    assert drawn(result, pd.Series(truth, others)) == expected
    assert drawn(result, pd.Series(truth, [ids[0]] * NUM_ITEMS)) == expected
    assert drawn(result, shuffled.to_numpy()) != expected
    with pytest.raises(
        ValueError, match=f"true_labels has {NUM_ITEMS - 1} entries for {NUM_ITEMS} items"
    ):
        drawn(result, shuffled.iloc[1:])


def test_pyplot_keeps_no_figure(deep):
    before = plt.get_fignums()
    plot_history(deep)
    plot_partition(np.zeros((3, 2)), [0, 1, 2])
    assert plt.get_fignums() == before


@pytest.mark.filterwarnings("ignore:.*repeats an earlier answer")
def test_names_that_look_like_formulas():
    names = {0: "$x_$", 1: "$", 2: r"a\$b$_{"}
    pairs = crowd(NUM_ITEMS).pairs
    pairs = pairs.assign(worker=pairs["worker"].map(names))
    data = CrowdData(crowd(NUM_ITEMS).features, pairs)
    result = quiet_fit(*plain_pair(), data, epochs=1)
    for draw in (plot_workers, plot_worker_weights):
        figure = draw(result)
        figure.savefig(io.BytesIO())
        shown = [text.get_text().replace(r"\$", "$") for text in figure.axes[0].get_yticklabels()]
        assert {"$x_$", "$"} <= set(shown)
    plot_confusion(np.eye(2)[None], workers=["$x_$"], classes=["$a_$", "b"]).savefig(io.BytesIO())
    groups = np.array(["$x_$", "$_$"] * 30)
    plot_partition(data.features[:, :2], groups).figure.savefig(io.BytesIO())
    plot_contingency(result, groups).figure.savefig(io.BytesIO())
    assert "$x_$" in report_page(result)
