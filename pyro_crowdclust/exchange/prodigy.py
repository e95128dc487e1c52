"""The format of Prodigy: tasks and annotations as JSONL."""

from __future__ import annotations

import html
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers, GivenAnswer
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.json_records import Record, dump_json_lines, parse_json_lines, records
from pyro_crowdclust.exchange.questions import (
    DIFFERENT,
    SAME,
    PageQuestion,
    PairQuestion,
    Question,
    Questions,
    class_names,
    question_about,
    read_questions,
)

# The key of a task for its question; Prodigy keeps keys that it does not know.
_ABOUT = "crowdclust"


@dataclass(frozen=True)
class Prodigy:
    """Prodigy's JSONL: pairs to accept, reject or ignore; labels as a choice.

    Accept means "same", reject "different", and ignore no answer. Prodigy has no interface for
    sorting a page: ask about pairs, or use another tool.

    Parameters
    ----------
    classes
        The classes to choose from in questions for labels, shown and read as text.
    worker
        Id of the worker if a record has neither ``_annotator_id`` nor ``_session_id``.

    Examples
    --------
    >>> import pandas as pd
    >>> pairs = pd.DataFrame({"left": ["ant"], "right": ["bee"]})
    >>> task = Prodigy().tasks(pairs)[0]
    >>> task["_view_id"], task["label"]
    ('html', 'same')
    >>> answered = {**task, "answer": "reject", "_annotator_id": "insects-ann"}
    >>> Prodigy().answers([answered]).pairs
      left right       worker  label
    0  ant   bee  insects-ann      0
    """

    classes: Collection[Hashable] = ()
    worker: str = "annotator"

    def tasks(self, questions: Questions, items: Items = None) -> list[dict[str, Any]]:
        """Tasks for a stream.

        Raises
        ------
        ValueError
            For pages, labels without ``classes``, and items that are not among ``items``.
        """
        shown = ShownItems.of(items)
        return [self._task(question, shown) for question in read_questions(questions)]

    def _task(self, question: Question, shown: ShownItems) -> dict[str, Any]:
        if isinstance(question, PageQuestion):
            raise ValueError("Prodigy cannot sort pages: ask about pairs, or use another tool")
        meta = {} if question.worker is None else {"worker": question.worker}
        task = {"html": _panels(question, shown), "meta": meta, _ABOUT: question.about()}
        if isinstance(question, PairQuestion):
            return {**task, "label": SAME, "_view_id": "html"}
        names = class_names(self.classes, "Prodigy")
        options = [{"id": name, "text": name} for name in names]
        return {**task, "options": options, "_view_id": "choice"}

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """The tasks, one per line."""
        return {"tasks.jsonl": dump_json_lines(self.tasks(questions, items))}

    def parse(self, text: str) -> list[Any]:
        """The annotations in a file that ``prodigy db-out`` wrote."""
        return parse_json_lines(text)

    def answers(self, export: Sequence[Mapping[str, Any]]) -> CrowdAnswers:
        """The answers in annotated tasks.

        Raises
        ------
        ValueError
            If a record is malformed; the message names the record (the line of the file) and the
            field.
        """
        return CrowdAnswers.of(map(self._answer, records(export, "record")))

    def _answer(self, record: Record) -> GivenAnswer:
        about = record.get(_ABOUT, Mapping)
        try:
            question = question_about(about)
        except ValueError as error:
            raise record.wrong(error) from error
        session = record.maybe("_session_id", str, self.worker)
        worker = record.maybe("_annotator_id", str, session)
        answer = record.get("answer", str)
        if answer not in ("accept", "reject", "ignore"):
            raise record.wrong(
                f"field 'answer' is {answer!r}, but must be accept, reject or ignore"
            )
        if answer == "ignore":
            return GivenAnswer(question, worker, None)
        if isinstance(question, PairQuestion):
            return GivenAnswer(question, worker, SAME if answer == "accept" else DIFFERENT)
        chosen = record.maybe("accept", Sequence, ())
        if len(chosen) > 1:
            raise record.wrong(f"field 'accept' has {len(chosen)} classes, but must have one")
        return GivenAnswer(question, worker, chosen[0] if chosen and answer == "accept" else None)


def _panels(question: Question, shown: ShownItems) -> str:
    panels = []
    for item in question.items:
        image = f'<img src="{html.escape(shown.image(item))}">' if shown.has_images else ""
        text = f"<p>{html.escape(shown.text(item))}</p>" if shown.has_texts else ""
        panels.append(f'<div style="flex: 1; white-space: pre-line">{image}{text}</div>')
    return f'<div style="display: flex; gap: 2rem">{"".join(panels)}</div>'
