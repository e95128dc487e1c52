"""Confusion matrices of workers who give class labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from pyro_crowdclust.metrics import as_array
from pyro_crowdclust.plots.style import (
    SMALL,
    height_of_columns,
    matrix,
    new_figure,
    plain,
    width_of,
)
from pyro_crowdclust.protocols import FittedModel, SupportsConfusion

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


# At most so many panels side by side and in a column, and inches of all of them: names in larger
# pictures are not readable on a screen.
_MAX_PANELS, _MAX_INCHES = (4, 3), (16.0, 12.0)


def plot_confusion(
    confusion: ArrayLike | pd.DataFrame | FittedModel,
    *,
    workers: Sequence[Hashable] | None = None,
    classes: Sequence[Hashable] | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """``p(label | class)`` of a worker in each panel; rows are true classes.

    There are at most twelve panels, and fewer if there are more than ten classes. If there are more
    workers, those of a result with the most labels are drawn, or else the first; the title says so.
    For others pass their part of the table, ``result.confusion.loc[["Ann", "Bob"]]``.

    Parameters
    ----------
    confusion
        Shape ``[worker, class, label]``, rows summing to one, or ``[class, label]`` of one worker;
        or a frame with a column ``mean`` and an index of worker, class and label, every
        combination once and in order; or a result that has such a table, ``result.confusion``.
    workers, classes
        Names of workers and classes; default: those of the frame, or numbers.
    figure
        Figure to draw in; default: a new one.

    Raises
    ------
    ValueError
        If ``confusion`` has another shape, if rows do not sum to one, if the number of names does
        not match, or if the result has no class labels.

    Examples
    --------
    >>> careful, careless = [[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]
    >>> figure = plot_confusion([careful, careless], workers=["Ann", "Bob"], classes=["cat", "dog"])
    >>> [axes.get_title() for axes in figure.axes]
    ['Ann', 'Bob']
    """
    num_labels = _num_labels(confusion)
    matrices, workers, classes = _read(confusion, workers, classes)
    names = list(map(str, classes))
    side = 0.5 + 0.22 * max(len(names), 6)
    fit = [
        max(min(most, int(inches / side)), 1)
        for most, inches in zip(_MAX_PANELS, _MAX_INCHES, strict=True)
    ]
    count = min(len(matrices), math.prod(fit))
    columns = min(count, fit[0])
    lines = math.ceil(count / columns)
    figure = figure or new_figure(
        columns * side + width_of(names, SMALL) + 0.3,
        lines * (side + 0.1) + height_of_columns(names) + 0.6,
    )
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    order: Sequence[int] = range(len(matrices))
    if count < len(matrices):
        title = f"the first {count} of {len(matrices)} workers"
        if num_labels is not None:
            order = np.argsort(-num_labels, kind="stable").tolist()
            title = f"the {count} of {len(matrices)} workers with the most labels"
        figure.suptitle(title, fontsize="medium")
    for axes, place in itertools.zip_longest(panels.flat, order[:count]):
        if place is None:
            axes.set_axis_off()
            continue
        matrix(axes, matrices[place], names[: matrices.shape[1]], names)
        axes.set_title(plain(workers[place]), fontsize="medium")
    figure.supxlabel("label given", fontsize="medium")
    figure.supylabel("true class", fontsize="medium")
    return figure


def _read(
    confusion: Any, workers: Sequence[Hashable] | None, classes: Sequence[Hashable] | None
) -> tuple[Float[np.ndarray, "worker class label"], Sequence[Hashable], Sequence[Hashable]]:
    """The matrices, and the names of workers and labels."""
    if hasattr(confusion, "guide"):
        confusion = _table_of(confusion)
    if isinstance(confusion, pd.DataFrame):
        levels = [level.unique() for level in map(confusion.index.get_level_values, range(3))]
        workers = levels[0].tolist() if workers is None else workers
        classes = levels[2].tolist() if classes is None else classes
        confusion = confusion["mean"].to_numpy().reshape([len(level) for level in levels])
    matrices = as_array(confusion)
    matrices = matrices[None] if matrices.ndim == 2 else matrices
    if matrices.ndim != 3 or not np.allclose(matrices.sum(-1), 1, atol=1e-3):
        raise ValueError(
            f"confusion has the shape {list(matrices.shape)}, but must be [worker, class, label] "
            "with rows that sum to one"
        )
    workers = range(len(matrices)) if workers is None else workers
    classes = range(matrices.shape[2]) if classes is None else classes
    if len(workers) != len(matrices) or len(classes) != matrices.shape[2]:
        raise ValueError(
            f"there are names of {len(workers)} workers and {len(classes)} classes, but confusion "
            f"has the shape {list(matrices.shape)}: pass one name for each"
        )
    return matrices, workers, classes


def _num_labels(confusion: Any) -> Int[np.ndarray, " worker"] | None:
    """The number of labels of every worker of a result."""
    if not hasattr(confusion, "guide") or confusion.data.class_labels is None:
        return None
    labels = confusion.data.class_labels
    return np.bincount(labels.worker.numpy(), minlength=labels.num_workers)


def _table_of(fitted: Any) -> pd.DataFrame:
    if not isinstance(fitted.guide, SupportsConfusion):
        raise ValueError(
            "this fit has no confusion matrices, since its workers do not give class labels: for "
            "workers who answer about pairs or pages use plot_workers(result)"
        )
    return fitted.confusion
