"""Items in the plane: every point in the look of its group, and names that can be read."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from pyro_crowdclust.plots import COLORS, plot_partition

from .pictures import cut_labels, offsets, rendered, rows


def test_every_group_has_its_points_and_its_name():
    points, labels = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    axes = plot_partition(points, labels)
    for scatter in axes.collections:
        label = int(scatter.get_label())
        assert rows(offsets(scatter)) == rows(points[labels == label])
    assert sorted(text.get_text() for text in axes.texts) == ["0", "1", "2"]
    assert len({tuple(scatter.get_facecolor()[0]) for scatter in axes.collections}) == 3
    rendered(axes)


def test_names_stand_at_own_points_and_apart():
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


@pytest.mark.parametrize("num_groups", [25, 60])
def test_names_without_room_stand_in_a_list(num_groups):
    rng = np.random.default_rng(5)
    names = np.array([f"a kind of bird no. {number}" for number in range(num_groups)])
    labels = np.repeat(names, 10)
    axes = plot_partition(rng.normal(size=(len(labels), 2)), labels, marked=labels == names[0])
    listed = [text.get_text() for text in axes.get_legend().get_texts()]
    assert sorted(listed) == sorted([*names, "in an answer"])
    assert not axes.texts
    assert not cut_labels(axes.figure)
    # The points keep the room that they have without a list.
    assert axes.bbox.width / axes.figure.dpi > 3.5


def test_numbers_stand_at_their_groups_even_where_these_overlap():
    labels = np.repeat(np.arange(30), 10)
    axes = plot_partition(np.random.default_rng(6).normal(size=(300, 2)), labels)
    assert len(axes.texts) == 30
    assert axes.get_legend() is None


def test_small_groups_are_grey_and_nameless():
    points = np.random.default_rng(2).normal(size=(200, 2))
    labels = np.array([0] * 198 + [1, 2])
    axes = plot_partition(points, labels)
    assert [text.get_text() for text in axes.texts] == ["0"]
    assert sum(len(offsets(scatter)) for scatter in axes.collections) == 200


def test_order_decides_the_colours():
    points, labels = np.zeros((6, 2)), ["a", "a", "a", "b", "b", "c"]
    axes = plot_partition(points, labels, order=["c", "b"])
    colors = {c.get_label(): to_hex(c.get_facecolor()[0]).upper() for c in axes.collections}
    assert [colors[name] for name in "cba"] == list(COLORS[:3])


def test_more_groups_than_colours_differ_by_marker():
    labels = np.arange(2 * len(COLORS))
    axes = plot_partition(np.random.default_rng(3).normal(size=(len(labels), 2)), labels)
    looks = {
        (tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in axes.collections
    }
    assert len(looks) == len(labels)


def test_marked_points_carry_a_ring():
    points = np.random.default_rng(4).normal(size=(10, 2))
    axes = plot_partition(points, [0] * 10, marked=np.arange(10) < 4)
    assert rows(offsets(axes.collections[-1])) == rows(points[:4])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["in an answer"]


def test_bad_input():
    with pytest.raises(ValueError, match=r"\[item, 2\].*\[5, 3\]"):
        plot_partition(np.zeros((5, 3)), [0] * 5)
    with pytest.raises(ValueError, match="labels has 4 entries, but points has 5"):
        plot_partition(np.zeros((5, 2)), [0] * 4)
    with pytest.raises(ValueError, match="marked has 6 entries, but points has 5"):
        plot_partition(np.zeros((5, 2)), [0] * 5, marked=[True] * 6)
