"""The format of Argilla 2: records as dictionaries and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers, GivenAnswer
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.json_records import Record, dump_json, parse_json, records
from pyro_crowdclust.exchange.questions import (
    PageQuestion,
    Question,
    Questions,
    question_about,
    read_questions,
)

# The status of a response that is an answer, where the export has one.
_SUBMITTED = "submitted"


@dataclass(frozen=True)
class Argilla:
    """Argilla's records, for a dataset whose label question is called ``answer``.

    The dataset must have these labels and fields. For pairs, the labels are ``same``, ``different``
    and ``can't tell``; for class labels, the classes and ``can't tell``. The fields are ``text_1``,
    ``text_2`` and ``image_1``, ``image_2``, as far as items have texts and images.
    ``rg.Record.from_dict`` converts the tasks to records; ``dataset.records.to_list()`` or
    ``to_json`` makes the export. A response with another ``status`` than ``submitted``, such as
    ``draft`` or ``discarded``, is no answer. A suggestion counts as an answer of its agent. Argilla
    cannot sort pages.

    Parameters
    ----------
    question
        Name of the label question.
    suggestions
        Whether models count as workers, under the name of their ``agent``.

    Examples
    --------
    >>> import pandas as pd
    >>> pairs = pd.DataFrame({"left": ["ant"], "right": ["bee"]})
    >>> (record,) = Argilla().tasks(pairs)
    >>> record["fields"], record["metadata"]
    ({'text_1': 'ant', 'text_2': 'bee'}, {'left': 'ant', 'right': 'bee'})
    """

    question: str = "answer"
    suggestions: bool = True

    def tasks(self, questions: Questions, items: Items = None) -> list[dict[str, Any]]:
        """Records to log.

        Raises
        ------
        ValueError
            For pages, and for items that are not among ``items``.
        """
        shown = ShownItems.of(items)
        return [_record(question, shown) for question in read_questions(questions)]

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """The records, as ``dataset.records.from_json`` reads them."""
        return {"records.json": dump_json(self.tasks(questions, items))}

    def parse(self, text: str) -> Any:
        """The records in a file."""
        return parse_json(text)

    def answers(self, export: Sequence[Mapping[str, Any]]) -> CrowdAnswers:
        """Answers of people and models, from exported records.

        Raises
        ------
        ValueError
            If a record is malformed; the message names the record and the field.
        """
        return CrowdAnswers.of(
            given for one in records(export, "record") for given in self._answers(one)
        )

    def _answers(self, record: Record) -> Iterator[GivenAnswer]:
        about = record.get("metadata", Mapping)
        try:
            question = question_about(about)
        except ValueError as error:
            raise record.wrong(error) from error
        for response in record.record("responses").records(self.question, "response"):
            # A draft, or a record that somebody discarded, may hold a value all the same.
            is_answer = response.maybe("status", str, _SUBMITTED) == _SUBMITTED
            value = response.maybe("value", str) if is_answer else None
            yield GivenAnswer(question, response.get("user_id", str), value)
        made = record.maybe("suggestions", Mapping, {})
        if self.suggestions and self.question in made:
            suggestion = Record(made, f"{record.place}, suggestions").record(self.question)
            agent = suggestion.maybe("agent", str, "model")
            yield GivenAnswer(question, agent, suggestion.maybe("value", str))


def _record(question: Question, shown: ShownItems) -> dict[str, Any]:
    if isinstance(question, PageQuestion):
        raise ValueError("Argilla cannot sort pages: ask about pairs, or use another tool")
    about = question.about()
    name = "/".join(map(str, about.values()))
    assigned = {} if question.worker is None else {"worker": question.worker}
    return {
        "id": name,
        "fields": shown.numbered(question.items),
        "metadata": {**about, **assigned},
        "suggestions": {},
        "responses": {},
    }
