"""Confusion matrices: a panel for each worker, with names and numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import infer_classes
from pyro_crowdclust.plots import plot_confusion

from .pictures import rendered

MATRICES = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.5, 0.5], [0.004, 0.996]]])


def test_a_panel_for_each_worker():
    figure = plot_confusion(MATRICES, workers=["Ann", "Bob"], classes=["cat", "dog"])
    for axes, values, name in zip(figure.axes, MATRICES, ["Ann", "Bob"], strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), values)
        assert axes.get_title() == name
    # Numbers in percent, left out where they round to zero.
    assert [text.get_text() for text in figure.axes[1].texts] == ["50", "50", "100"]
    rendered(figure)


def test_a_frame_brings_its_names():
    index = pd.MultiIndex.from_product(
        [["Ann", "Bob"], ["cat", "dog"], ["cat", "dog"]], names=["worker", "class", "label"]
    )
    frame = pd.DataFrame({"mean": MATRICES.ravel()}, index=index)
    figure = plot_confusion(frame)
    assert [axes.get_title() for axes in figure.axes] == ["Ann", "Bob"]
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), MATRICES[1])
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert names == ["cat", "dog"]


def test_a_result_brings_its_table(deep):
    said = {"item": [0, 0, 1, 1], "worker": list("abab"), "label": list("xyyy")}
    result = infer_classes(CrowdData(None, labels=said), [1], epochs=2)
    of_table, of_result = plot_confusion(result.confusion), plot_confusion(result)
    for one, other in zip(of_table.axes, of_result.axes, strict=True):
        assert one.get_title() == other.get_title()
        np.testing.assert_allclose(one.images[0].get_array(), other.images[0].get_array())
    ids = plot_confusion(result, workers=result.data.worker_ids, classes=result.data.class_ids)
    assert [axes.get_title() for axes in ids.axes] == [axes.get_title() for axes in of_table.axes]
    with pytest.raises(ValueError, match=r"no confusion matrices.* plot_workers\(result\)"):
        plot_confusion(deep)


def test_one_worker_and_the_first_of_many():
    assert len(plot_confusion(MATRICES[0]).axes) == 1
    many = np.repeat(MATRICES, 10, axis=0)
    figure = plot_confusion(many)
    assert sum(bool(axes.images) for axes in figure.axes) == 12
    assert figure.get_suptitle() == "the first 12 of 20 workers"
    rendered(figure)


def test_of_many_workers_of_a_result_those_with_the_most_labels():
    said = [(item, worker, "xy"[item % 2]) for worker in range(15) for item in range(worker + 1)]
    labels = pd.DataFrame(said, columns=["item", "worker", "label"])
    result = infer_classes(CrowdData(None, labels=labels), [1], epochs=2)
    figure = plot_confusion(result)
    assert figure.get_suptitle() == "the 12 of 15 workers with the most labels"
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == list(map(str, range(14, 2, -1)))
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(shown.ravel(), result.confusion.loc[14, "mean"])
    # Others by their part of the table.
    few = plot_confusion(result.confusion.loc[[0, 5]])
    assert [axes.get_title() for axes in few.axes] == ["0", "5"]
    assert few.get_suptitle() == ""


@pytest.mark.parametrize(("num_classes", "panels"), [(10, 12), (25, 4), (50, 1)])
def test_pictures_of_many_classes_have_fewer_panels(num_classes, panels):
    names = [f"a kind of bird no. {number}" for number in range(num_classes)]
    figure = plot_confusion(np.repeat(np.eye(num_classes)[None], 20, 0), classes=names)
    drawn = [axes for axes in figure.axes if axes.get_title()]
    assert len(drawn) == panels
    # Cells without numbers are explained by a bar.
    assert len(drawn[0].texts) == (num_classes if num_classes < 50 else 0)
    assert len(figure.axes) - len(drawn) == (num_classes == 50)
    assert max(figure.get_size_inches()) < 18


def test_bad_input():
    with pytest.raises(ValueError, match="rows that sum to one"):
        plot_confusion(2 * MATRICES)
    with pytest.raises(ValueError, match="names of 3 workers and 2 classes"):
        plot_confusion(MATRICES, workers=["a", "b", "c"])
