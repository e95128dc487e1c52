"""The picture of a campaign shows what is in its tables."""

from __future__ import annotations

import pandas as pd
import pytest

from pyro_crowdclust import Fitted
from pyro_crowdclust.asking import Campaign
from pyro_crowdclust.plots import plot_campaign

ROUNDS = pd.DataFrame({"spent": [1.0, 2.0, 3.0], "accuracy": [0.4, 0.6, 0.9]})


def test_curves_and_workers_are_those_of_the_tables():
    pages = pd.DataFrame(
        {"round": [0, 0, 1, 1, 2, 2], "page": 0, "worker": ["ann"] * 4 + ["$b_"] * 2}
    )
    figure = plot_campaign({"ours": ROUNDS}, questions=pages)
    curve, workers = figure.axes
    assert curve.lines[0].get_xydata().tolist() == ROUNDS.to_numpy().tolist()
    assert curve.get_ylabel() == "accuracy"
    assert [bar.get_width() for bar in workers.patches] == [1, 2]  # pages, not items
    assert [label.get_text() for label in workers.get_yticklabels()] == [r"\$b_", "ann"]
    assert workers.get_xlabel() == "pages"
    figure.canvas.draw()


def test_one_campaign_needs_no_legend_and_questions_count_each():
    pairs = pd.DataFrame({"round": [0, 0], "left": [1, 2], "worker": ["ann", "ann"]})
    figure = plot_campaign(ROUNDS, column="spent", questions=pairs)
    assert figure.axes[0].get_legend() is None
    assert [bar.get_width() for bar in figure.axes[1].patches] == [2]


def test_workers_may_have_names_and_numbers():
    pairs = pd.DataFrame({"left": range(5), "worker": ["ann", 2, "2", 2, None]})
    workers = plot_campaign(ROUNDS, questions=pairs).axes[1]
    assert [label.get_text() for label in workers.get_yticklabels()] == ["ann", "2", "2"]
    assert [bar.get_width() for bar in workers.patches] == [1, 2, 1]


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="rounds has no column 'nmi'"):
        plot_campaign(ROUNDS, column="nmi")


@pytest.mark.parametrize(
    "other",
    [object.__new__(Fitted), Campaign(ROUNDS, ROUNDS, None), [ROUNDS]],
    ids=["fit", "campaign", "list"],
)
def test_what_is_no_table_of_rounds_is_told_where_one_is(other):
    """A fit and a whole campaign, alone or by a name."""
    message = f"rounds has the type {type(other).__name__}, .*: pass the attribute rounds"
    for passed in (other, {"ours": ROUNDS, "theirs": other}):
        with pytest.raises(ValueError, match=message):
            plot_campaign(passed)
