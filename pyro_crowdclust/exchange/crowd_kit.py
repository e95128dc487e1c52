"""The format of crowd-kit: frames with the columns ``task, worker, label``."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pyro_crowdclust.data.pair_tables import alike_written
from pyro_crowdclust.data.tables import read_table
from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers
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

    A task is an item. For pairs it is a text made of both ids, the same in either order, and there
    are columns ``left`` and ``right``, which crowd-kit ignores.

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
        """A frame of tasks, and of workers if they are named; ``items`` is not used.

        Raises
        ------
        ValueError
            For pages, which crowd-kit does not have.
        """
        rows = []
        for question in read_questions(questions):
            if isinstance(question, PageQuestion):
                raise ValueError("crowd-kit has no pages: ask for pairs or labels")
            pair = question.about() if isinstance(question, PairQuestion) else {}
            who = {} if question.worker is None else {"worker": question.worker}
            rows.append({"task": _task(question.items), **who, **pair})
        return pd.DataFrame(rows)

    def frame(self, answers: CrowdAnswers) -> pd.DataFrame:
        """Answers about pairs, or labels, for crowd-kit's ``fit_predict``.

        Raises
        ------
        ValueError
            If there are both, or sorted pages.
        """
        if len(answers.placements):
            raise ValueError(
                "crowd-kit has no sorted pages: pass the pairs of their items, "
                "CrowdData(None, placements=answers.placements).as_pairs().pairs, as "
                "CrowdAnswers.of_tables(pairs=)"
            )
        if len(answers.pairs) and len(answers.labels):
            raise ValueError(
                "there are answers about pairs and class labels, but a frame has one kind: pass "
                "CrowdAnswers.of_tables(pairs=answers.pairs) or of_tables(labels=answers.labels)"
            )
        if len(answers.pairs):
            pairs = answers.pairs[["left", "right", "worker", "label"]]
            task = list(map(_task, zip(pairs["left"], pairs["right"], strict=True)))
            # Otherwise crowd-kit would treat "same" and "Same" as different classes.
            label = alike_written(pairs["label"])
            return pairs.assign(task=pd.Series(task, pairs.index), label=label)[
                ["task", "worker", "label", "left", "right"]
            ]
        return answers.labels[["item", "worker", "label"]].rename(columns={"item": "task"})

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """The frame as a CSV file."""
        file = io.StringIO()
        self.tasks(questions, items).to_csv(file, index=False)
        return {"tasks.csv": file.getvalue()}

    def parse(self, text: str) -> pd.DataFrame:
        """The frame in a file, all cells as text."""
        return PlainCsv().parse(text).reset_index(drop=True)

    def answers(self, export: pd.DataFrame | Mapping[str, Any]) -> CrowdAnswers:
        """The answers in a frame: about pairs if it has ``left`` and ``right``, otherwise labels.

        A label that is missing, blank or "can't tell" is counted as unanswered.

        Raises
        ------
        ValueError
            If a column is missing, or a cell other than a label is empty.
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
    """An item, or a text that is unique to a pair and the same in either order."""
    if len(items) == 1:
        return items[0]
    # A bar within an id is escaped, since a bar separates the two ids.
    names = (str(item).replace("\\", "\\\\").replace("|", "\\|") for item in items)
    return " | ".join(sorted(names))
