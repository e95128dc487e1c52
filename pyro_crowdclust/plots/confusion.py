"""Confusion matrices of workers who give class labels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from pyro_crowdclust.metrics import as_array
from pyro_crowdclust.plots.style import matrix, new_figure, plain
from pyro_crowdclust.protocols import FittedModel, SupportsConfusion

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure


# The first workers are drawn, at most so many.
_MAX_WORKERS = 12


def plot_confusion(
    confusion: ArrayLike | pd.DataFrame | FittedModel,
    *,
    workers: Sequence[Hashable] | None = None,
    classes: Sequence[Hashable] | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """``p(label | class)`` of every worker, the first twelve, in a panel; rows are true classes.

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
    matrices, workers, classes = _read(confusion, workers, classes)
    count = min(len(matrices), _MAX_WORKERS)
    columns = min(count, 4)
    lines = math.ceil(count / columns)
    side = 0.9 + 0.26 * max(len(classes), 4)
    figure = figure or new_figure(columns * side + 0.5, lines * (side + 0.25) + 0.4)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    names = list(map(str, classes))
    for place, axes in enumerate(panels.flat):
        if place >= count:
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


def _table_of(fitted: Any) -> pd.DataFrame:
    if not isinstance(fitted.guide, SupportsConfusion):
        raise ValueError(
            "this fit has no confusion matrices, since its workers do not give class labels: for "
            "workers who answer about pairs or pages use plot_workers(result)"
        )
    return fitted.confusion
