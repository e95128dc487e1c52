"""crowd-kit: frames of ``task, worker, label``."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pyro_crowdclust.data.pair_answers import alike_written
from pyro_crowdclust.data.tables import read_table
from pyro_crowdclust.exchange.answers import CrowdAnswers
from pyro_crowdclust.exchange.items import Items
from pyro_crowdclust.exchange.plain_csv import PlainCsv
from pyro_crowdclust.exchange.questions import (
    PageQuestion,
    PairQuestion,
    Questions,
    is_no_answer,
    read_questions,
)


@dataclass(frozen=True)
class CrowdKit:
    """Frames as crowd-kit's aggregators take them: ``task, worker, label``.

    A task is an item; for pairs it is a text of both, the same in either order, beside the columns
    ``left`` and ``right``, which crowd-kit leaves alone.

    Examples
    --------
    >>> labels = pd.DataFrame({"task": ["ant"], "worker": ["ann"], "label": ["insect"]})
    >>> answers = CrowdKit().answers(labels)
    >>> answers.labels
      item worker   label
    0  ant    ann  insect
    >>> CrowdKit().frame(answers).equals(labels)
    True
    """

    def tasks(self, questions: Questions, items: Items = None) -> pd.DataFrame:
        """A frame of the tasks, and whom to ask; crowd-kit shows nothing, so ``items`` is not used.

        Raises
        ------
        ValueError
            For pages, which crowd-kit does not know.
        """
        rows = []
        for question in read_questions(questions):
            if isinstance(question, PageQuestion):
                raise ValueError("crowd-kit knows no pages: ask pairs or labels")
            pair = question.about() if isinstance(question, PairQuestion) else {}
            who = {} if question.worker is None else {"worker": question.worker}
            rows.append({"task": _task(question.items), **who, **pair})
        return pd.DataFrame(rows)

    def frame(self, answers: CrowdAnswers) -> pd.DataFrame:
        """Answers about pairs, or labels, for crowd-kit's ``fit_predict``.

        Raises
        ------
        ValueError
            Where there are both, or sorted pages.
        """
        if len(answers.placements):
            raise ValueError(
                "crowd-kit knows no sorted pages: pass the pairs of their items, "
                "CrowdData(None, placements=answers.placements).as_pairs().pairs, as "
                "CrowdAnswers.of_tables(pairs=)"
            )
        if len(answers.pairs) and len(answers.labels):
            raise ValueError(
                "there are answers about pairs and labels, but a frame is of one kind: pass "
                "CrowdAnswers.of_tables(pairs=answers.pairs), or the labels"
            )
        if len(answers.pairs):
            pairs = answers.pairs[["left", "right", "worker", "label"]]
            task = list(map(_task, zip(pairs["left"], pairs["right"], strict=True)))
            label = alike_written(pairs["label"])  # of which crowd-kit would make several classes
            return pairs.assign(task=pd.Series(task, pairs.index), label=label)[
                ["task", "worker", "label", "left", "right"]
            ]
        return answers.labels[["item", "worker", "label"]].rename(columns={"item": "task"})

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """The frame as a table."""
        file = io.StringIO()
        self.tasks(questions, items).to_csv(file, index=False)
        return {"tasks.csv": file.getvalue()}

    def parse(self, text: str) -> pd.DataFrame:
        """The frame in a file, all cells as text."""
        return PlainCsv().parse(text)

    def answers(self, export: pd.DataFrame | Mapping[str, Any]) -> CrowdAnswers:
        """The answers of a frame: about pairs where it has ``left`` and ``right``, else labels.

        A label that is missing, blank or "can't tell" is no answer.

        Raises
        ------
        ValueError
            Where a column is missing, or a cell other than a label is empty.
        """
        columns = ["task", "worker", "label"]
        frame = read_table(export, "answers", columns, ["left", "right"], may_lack=["label"])
        table, ends = "labels", ["item"]
        if {"left", "right"} <= {*frame.columns}:
            table, ends = "pairs", ["left", "right"]
        frame = frame.rename(columns={"task": "item"})
        blank = frame["label"].map(is_no_answer).astype(bool)
        return CrowdAnswers.of_tables(
            **{
                table: frame.loc[~blank, [*ends, "worker", "label"]].reset_index(drop=True),
                "unanswered": frame.loc[blank, [*ends, "worker"]].reset_index(drop=True),
            }
        )


def _task(items: Sequence[Hashable]) -> Hashable:
    """An item, or a text that names both of a pair, of no other pair, and in either order."""
    if len(items) == 1:
        return items[0]
    # A bar within an id does not part two.
    names = (str(item).replace("\\", "\\\\").replace("|", "\\|") for item in items)
    return " | ".join(sorted(names))
