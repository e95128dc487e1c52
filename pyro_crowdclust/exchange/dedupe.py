"""The format of dedupe: training data with pairs of records that match or are distinct."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pyro_crowdclust.data.pair_tables import yes_or_no
from pyro_crowdclust.data.tables import read_table
from pyro_crowdclust.errors import show
from pyro_crowdclust.exchange.crowd_answers import CrowdAnswers, GivenAnswer
from pyro_crowdclust.exchange.items import Items, ShownItems
from pyro_crowdclust.exchange.json_records import Record, dump_json, parse_json
from pyro_crowdclust.exchange.questions import (
    DIFFERENT,
    SAME,
    PairQuestion,
    Questions,
    is_no_answer,
    read_questions,
)

_LISTS = {"match": SAME, "distinct": DIFFERENT, "uncertain": None}


@dataclass(frozen=True)
class Dedupe:
    """Training data of dedupe: ``match``, ``distinct`` and ``uncertain`` pairs of records.

    A record is the row of an item, with its id as an additional field, which dedupe's variables
    need not include. Open pairs are ``uncertain``; answering one moves it to another list.

    Parameters
    ----------
    id_field
        The field of a record that contains the id of its item.
    worker
        The id of the worker who gave the answers, which the file does not contain.

    Examples
    --------
    >>> shops = pd.DataFrame({"name": ["Bob's", "Bobs"]}, index=["s1", "s2"])
    >>> pairs = pd.DataFrame({"left": ["s1"], "right": ["s2"]})
    >>> tasks = Dedupe().tasks(pairs, shops)
    >>> tasks["uncertain"]
    [({'item': 's1', 'name': "Bob's"}, {'item': 's2', 'name': 'Bobs'})]
    >>> Dedupe(worker="ann").answers({"match": tasks["uncertain"], "distinct": []}).pairs
      left right worker  label
    0   s1    s2    ann      1
    """

    id_field: str = "item"
    worker: Hashable = "dedupe"

    def tasks(
        self, questions: Questions, items: Items = None
    ) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
        """The pairs as training data in which all of them are uncertain.

        Raises
        ------
        ValueError
            For pages and labels, for items that are not among ``items``, and if a column of these
            has the name ``id_field`` but other values than the ids.
        """
        shown = ShownItems.of(items)
        asked = read_questions(questions)
        if not all(isinstance(question, PairQuestion) for question in asked):
            raise ValueError(
                "dedupe only has pairs of records: ask about pairs, or use another tool"
            )
        pairs = [self._records(question.items, shown) for question in asked]
        return {"match": [], "distinct": [], "uncertain": pairs}

    def training(
        self,
        pairs: pd.DataFrame,
        items: Items = None,
    ) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
        """Answers about pairs as training data, for ``dedupe.Dedupe.mark_pairs``.

        Parameters
        ----------
        pairs
            ``left, right, label``, one row per pair, with labels as ``CrowdData`` takes them: 1
            or "same" for a match, 0 or "different" for distinct. Pairs with "can't tell" are left
            out.
        items
            The records, one row per id.

        Raises
        ------
        ValueError
            For labels that are grades or other words, and items that are not among ``items``.
        """
        shown = ShownItems.of(items)
        frame = read_table(pairs, "pairs", ["left", "right", "label"], may_lack=["label"])
        frame = frame[~frame["label"].map(is_no_answer)]
        advice = "dedupe has no grades, so convert them to 1 and 0"
        labels = yes_or_no(frame["label"], of_probabilities=advice, of_grades=advice)
        found: dict[str, list] = {"match": [], "distinct": []}
        for left, right, label in zip(frame["left"], frame["right"], labels, strict=True):
            found["match" if label else "distinct"].append(self._records((left, right), shown))
        return found

    def files(self, questions: Questions, items: Items = None) -> dict[str, str]:
        """Training data in which all pairs are uncertain, as dedupe writes it."""
        tasks = self.tasks(questions, items)
        marked = {name: list(map(_marked, pairs)) for name, pairs in tasks.items()}
        return {"training.json": dump_json(marked)}

    def parse(self, text: str) -> Any:
        """The training data in a file."""
        return parse_json(text)

    def answers(self, export: Mapping[str, Iterable]) -> CrowdAnswers:
        """Answers about pairs, from training data.

        Raises
        ------
        ValueError
            If the data are malformed; the message names the list, the pair and the field.
        """
        training = Record.of(export, "the training data")
        if not {"match", "distinct"} <= training.fields.keys():
            raise training.wrong(f"it lacks match or distinct; it has {list(training.fields)}")
        given = []
        for name, answer in _LISTS.items():
            for number, pair in enumerate(training.maybe(name, Sequence, ()), 1):
                question = self._question(pair, f"{name} {number}")
                given.append(GivenAnswer(question, self.worker, answer))
        return CrowdAnswers.of(given)

    def _records(
        self, items: Sequence[Hashable], shown: ShownItems
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        left, right = (self._record(item, shown.fields(item)) for item in items)
        return left, right

    def _record(self, item: Hashable, fields: Mapping[str, Any]) -> dict[str, Any]:
        if fields.get(self.id_field, item) != item:
            raise ValueError(
                f"the record of item {show(item)} has {show(fields[self.id_field])} in column "
                f"'{self.id_field}', but this field is reserved for its id: rename the column, or "
                "choose another field by Dedupe(id_field=)"
            )
        return {self.id_field: item, **fields}

    def _question(self, pair: Any, place: str) -> PairQuestion:
        # In files, dedupe marks tuples as objects with "__value__".
        both = pair.get("__value__") if isinstance(pair, Mapping) else pair
        if not isinstance(both, Sequence) or isinstance(both, str) or len(both) != 2:
            raise ValueError(f"{place} is {show(pair)}, but must be a pair of records")
        left, right = (
            Record.of(one, f"{place}, record {side}").get(self.id_field, (str, int))
            for side, one in enumerate(both, 1)
        )
        return PairQuestion(left, right)


def _marked(pair: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"__class__": "tuple", "__value__": list(pair)}
