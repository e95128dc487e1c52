"""The progress of a campaign of questions, and the number of questions per worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pyro_crowdclust.data.tables import codes_and_ids
from pyro_crowdclust.plots.style import COLORS, MARKERS, new_figure, plain, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


def plot_campaign(
    rounds: pd.DataFrame | Mapping[str, pd.DataFrame],
    *,
    column: str = "accuracy",
    questions: pd.DataFrame | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """A score against the amount spent, and the number of questions by worker.

    Parameters
    ----------
    rounds
        ``Campaign.rounds``, or several such tables by name, which are compared.
    column
        Column of the tables: a score of the campaign, ``expected_gain``, ``moved``, ...
    questions
        ``Campaign.questions``, for a second panel with the number of questions by worker.
    figure
        Figure to draw in; default: a new one.

    Raises
    ------
    ValueError
        If ``rounds`` is not a table of rounds (but a fit or a campaign, for example), or if a table
        lacks the column.

    Examples
    --------
    >>> rounds = pd.DataFrame({"spent": [1.0, 2.0], "accuracy": [0.5, 0.8]})
    >>> figure = plot_campaign({"ours": rounds, "random": rounds})
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['ours', 'random']
    """
    curves = rounds if isinstance(rounds, Mapping) else {"": rounds}
    for table in curves.values():
        if not isinstance(table, pd.DataFrame):
            raise ValueError(
                f"rounds has the type {type(table).__name__}, but must be a table, or several by "
                "name: pass the attribute rounds of the Campaign that simulate_campaign returns"
            )
        if column not in table:
            raise ValueError(
                f"rounds has no column {column!r}, only {list(table.columns)}: pass one of these "
                "as column, or call simulate_campaign with score={'accuracy': ...}"
            )
    panels = 1 if questions is None else 2
    figure = figure or new_figure(5.0 + 3.2 * (panels - 1), 3.4)
    widths = [5.0, 3.2][:panels]
    axes, *others = figure.subplots(1, panels, squeeze=False, width_ratios=widths)[0]
    for number, (name, table) in enumerate(curves.items()):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        style = {"color": color, "marker": marker, "markersize": 4, "label": plain(name)}
        axes.plot(table["spent"], table[column], **style)
    axes.set_xlabel("spent")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(column.replace("_", " "))
    quiet(axes, grid="both")
    if any(curves):
        axes.legend(loc="best", fontsize="small", frameon=False)
    if questions is not None:
        _plot_questions(others[0], questions)
    return figure


def _plot_questions(axes: Axes, questions: pd.DataFrame) -> None:
    """Bars of the number of questions of each worker; a page counts as one."""
    keys = ["round", "page"] if "page" in questions else None
    each = questions.drop_duplicates(keys) if keys else questions
    codes, workers = codes_and_ids(each["worker"].dropna(), "questions")
    places = range(len(workers))  # not texts, since two ids may have the same text
    counts = np.bincount(codes, minlength=len(workers))
    axes.barh(places, counts, color=COLORS[0], height=0.7)
    axes.set_yticks(places, [plain(worker) for worker in workers])
    axes.invert_yaxis()
    axes.set_xlabel("pages" if keys else "questions")
    axes.set_ylabel("worker")
    quiet(axes, grid="x")
