"""crowd-kit: frames of ``task, worker, label``."""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import pandas as pd

from pyro_crowdclust.data.tables import read_table
from pyro_crowdclust.exchange.answers import CrowdAnswers
from pyro_crowdclust.exchange.items import Items
from pyro_crowdclust.exchange.plain_csv import PlainCsv
from pyro_crowdclust.exchange.questions import PageQuestion, PairQuestion, read_questions


@dataclass(frozen=True)
class CrowdKit:
    """Frames as crowd-kit's aggregators take them: ``task, worker, label``.

    A task is an item; for pairs it is a text of both, beside the columns ``left`` and ``right``,
    which crowd-kit leaves alone.

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

    def tasks(self, questions: pd.DataFrame, items: Items = None) -> pd.DataFrame:
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
            about = question.about()
            pair = about if isinstance(question, PairQuestion) else {}
            who = {} if question.worker is None else {"worker": question.worker}
            rows.append({"task": _task(about), **who, **pair})
        return pd.DataFrame(rows)

    def frame(self, answers: CrowdAnswers) -> pd.DataFrame:
        """Answers about pairs, or else labels, for crowd-kit's ``fit_predict``."""
        if len(answers.pairs):
            pairs = answers.pairs[["left", "right", "worker", "label"]]
            task = [
                _task({"left": left, "right": right})
                for left, right in zip(pairs["left"], pairs["right"], strict=True)
            ]
            return pairs.assign(task=pd.Series(task, pairs.index))[
                ["task", "worker", "label", "left", "right"]
            ]
        return answers.labels[["item", "worker", "label"]].rename(columns={"item": "task"})

    def files(self, questions: pd.DataFrame, items: Items = None) -> dict[str, str]:
        """The frame as a table."""
        file = io.StringIO()
        self.tasks(questions, items).to_csv(file, index=False)
        return {"tasks.csv": file.getvalue()}

    def parse(self, text: str) -> pd.DataFrame:
        """The frame in a file, all cells as text."""
        return PlainCsv().parse(text)

    def answers(self, export: pd.DataFrame) -> CrowdAnswers:
        """The answers of a frame: about pairs where it has ``left`` and ``right``, else labels.

        Raises
        ------
        ValueError
            Where a column is missing or a cell is empty.
        """
        frame = read_table(export, "the frame", ["task", "worker", "label"], ["left", "right"])
        if {"left", "right"} <= {*frame.columns}:
            return CrowdAnswers.of_tables(pairs=frame[["left", "right", "worker", "label"]])
        return CrowdAnswers.of_tables(labels=frame.rename(columns={"task": "item"}))


def _task(about: Mapping[str, Hashable]) -> Hashable:
    """An item, or a text that names both of a pair."""
    ids = list(about.values())
    return ids[0] if len(ids) == 1 else " | ".join(map(str, ids))
