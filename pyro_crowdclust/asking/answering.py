"""Crowds for a simulated campaign: simulated workers, or recorded answers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from jaxtyping import Int
from numpy.typing import ArrayLike

from pyro_crowdclust.asking.label_questions import Labels
from pyro_crowdclust.asking.pair_questions import Pairs
from pyro_crowdclust.asking.suggesting import Kind
from pyro_crowdclust.data.answer_tables import answer_table
from pyro_crowdclust.data.tables import codes_and_ids, to_index
from pyro_crowdclust.errors import show
from pyro_crowdclust.metrics import label_codes


class AnsweringCrowd(Protocol):
    """The methods of a crowd that ``simulate_campaign`` needs; see also ``SupportsOffers``."""

    @property
    def workers(self) -> Any:
        """Ids of the workers who can be asked."""

    def answer(self, questions: pd.DataFrame, page_prefix: Hashable) -> dict[str, pd.DataFrame]:
        """Answers as ``Fitted.update`` takes them; ids of pages begin with the prefix."""


@runtime_checkable
class SupportsOffers(Protocol):
    """A crowd that cannot answer everything."""

    def offers(self, kind: Kind) -> Kind | None:
        """The kind, limited to questions that can still be asked; None if there are none."""


@runtime_checkable
class SupportsClasses(Protocol):
    """A crowd whose classes are known in advance, though the first labels may lack some."""

    @property
    def classes(self) -> Iterable[Hashable]:
        """The labels that it may give."""


class SimulatedCrowd:
    """Workers who see the true class with probability ``a_m``, and otherwise any other class.

    The answer about a pair is right with probability ``a_m``. An item of a page is placed with the
    items of its class with probability ``a_m``, otherwise with another class.

    Parameters
    ----------
    truth
        The class of every item: a series with the item ids as its index, or one class per position.
    accuracy
        ``a_m`` by worker id.
    seed
        Seed of the errors.

    Raises
    ------
    ValueError
        Without workers, for accuracies outside [0, 1], and when asked about an item without a
        class.

    Examples
    --------
    >>> crowd = SimulatedCrowd(list("aab"), {"ann": 1.0}, seed=0)
    >>> questions = pd.DataFrame({"left": [0, 0], "right": [1, 2], "worker": ["ann", "ann"]})
    >>> crowd.answer(questions, "first")["pairs"]["label"].tolist()
    [1, 0]
    """

    def __init__(
        self, truth: ArrayLike | pd.Series, accuracy: Mapping[Hashable, float], *, seed: int
    ) -> None:
        known = truth if isinstance(truth, pd.Series) else pd.Series(np.asarray(truth))
        again = known.index[known.index.duplicated()]
        if len(again):
            raise ValueError(f"truth has item {show(again[0])} more than once: give it one class")
        codes = label_codes(known.to_numpy())
        self._codes = pd.Series(codes, known.index)
        # In the order of the codes, which is that of the first items.
        self._classes = known.to_numpy()[np.unique(codes, return_index=True)[1]]
        self._accuracy = _checked(accuracy)
        self._generator = np.random.default_rng(seed)

    @property
    def workers(self) -> pd.Index:
        """Ids of all workers."""
        return pd.Index(list(self._accuracy), tupleize_cols=False)

    @property
    def classes(self) -> list[Hashable]:
        """The true classes."""
        return codes_and_ids(pd.Series(self._classes), "truth")[1].tolist()

    def offers(self, kind: Kind) -> Kind:
        """The kind itself, since every question can be answered."""
        return kind

    def answer(self, questions: pd.DataFrame, page_prefix: Hashable) -> dict[str, pd.DataFrame]:
        """The workers' answers, with random errors."""
        rates = np.array([self._accuracy[worker] for worker in questions["worker"]])
        slips = self._generator.random(len(questions)) >= rates
        if "left" in questions:
            left, right = (self._classes_of(questions[side]) for side in ("left", "right"))
            label = ((left == right) ^ slips).astype(np.int64)
            return {"pairs": questions[["left", "right", "worker"]].assign(label=label)}
        number = len(self._classes)
        step = self._generator.integers(1, max(number, 2), len(questions))
        seen = (self._classes_of(questions["item"]) + slips * step) % number
        if "page" not in questions:
            labels = questions[["item", "worker"]].assign(label=self._classes[seen])
            return {"labels": labels}
        pages = [f"{page_prefix}.{page}" for page in questions["page"]]
        placed = questions[["item", "worker"]].assign(page=pages, group=seen)
        return {"placements": placed}

    def _classes_of(self, items: pd.Series) -> Int[np.ndarray, " question"]:
        """Codes of the true classes of items."""
        place = self._codes.index.get_indexer(to_index(items, "item"))
        if (place < 0).any():
            item = items.iloc[int((place < 0).argmax())]
            raise ValueError(
                f"truth has no class of item {show(item)}: give one for every item, as a series "
                "indexed by item ids unless these are positions"
            )
        return self._codes.to_numpy()[place]


def _checked(accuracy: Any) -> dict[Hashable, float]:
    """``a_m`` by worker, checked."""
    if not isinstance(accuracy, Mapping) or not accuracy:
        raise ValueError(
            f"accuracy is {accuracy!r}, but must have a number for every worker: {{'ann': 0.9}}"
        )
    for worker, share in accuracy.items():
        if not isinstance(share, Real) or not 0 <= float(share) <= 1:
            raise ValueError(
                f"accuracy of worker {show(worker)} is {share!r}, but must be between 0 and 1"
            )
    return dict(accuracy)


class RecordedCrowd:
    """Recorded answers: questions without a recorded answer cannot be asked.

    Parameters
    ----------
    pairs
        Answers about pairs, as ``CrowdData`` takes them.
    labels
        Class labels, instead of pairs; rows without a label are left out.

    Raises
    ------
    ValueError
        If both or neither are given, or a table lacks a column or a worker.

    Examples
    --------
    >>> said = {"left": [0, 1], "right": [1, 2], "worker": ["ann", "bob"], "label": [1, 0]}
    >>> crowd = RecordedCrowd(pairs=said)
    >>> questions = pd.DataFrame({"left": [1], "right": [0], "worker": ["ann"]})
    >>> crowd.answer(questions, "first")["pairs"]["label"].tolist(), len(crowd)
    ([1], 1)
    """

    def __init__(self, pairs: Any | None = None, labels: Any | None = None) -> None:
        if (pairs is None) == (labels is None):
            raise ValueError(
                "pass either pairs or labels: a recorded crowd answers one kind of question"
            )
        self._name = "pairs" if labels is None else "labels"
        table, self._items = (pairs, ["left", "right"]) if labels is None else (labels, ["item"])
        found = answer_table(self._name, table, may_lack=["label"])
        assert found is not None
        self._left = found[[*self._items, "worker", "label"]]
        self._left = self._left.reset_index(drop=True)
        every = pd.concat([self._left[column] for column in self._items])
        self._item_ids = codes_and_ids(every.rename("item"), self._name)[1]
        self.classes: list[Hashable] = []
        if labels is not None:
            self.classes = [*codes_and_ids(self._left["label"].dropna(), "labels")[1]]

    @property
    def workers(self) -> pd.Index:
        """Ids of workers with answers that were not used yet."""
        return pd.Index(self._left["worker"].unique(), tupleize_cols=False)

    def __len__(self) -> int:
        return len(self._left)

    def offers(self, kind: Kind) -> Kind | None:
        """The kind, limited to questions with unused answers; None if there are none."""
        if not isinstance(kind, Pairs | Labels):
            raise ValueError(
                "recorded answers are about pairs or labels: pass Pairs() or Labels() as kind"
            )
        return replace(kind, among=self._left) if len(self._left) else None

    def answer(self, questions: pd.DataFrame, page_prefix: Hashable) -> dict[str, pd.DataFrame]:
        """The recorded answers, each of which is used once."""
        wanted = pd.MultiIndex.from_frame(self._keys(questions))
        known = pd.MultiIndex.from_frame(self._keys(self._left))
        first = ~known.duplicated()
        rows = first & known.isin(wanted)
        answers, self._left = self._left[rows], self._left[~rows]
        return {self._name: answers}

    def _keys(self, table: pd.DataFrame) -> pd.DataFrame:
        """A row per question, with the items of a pair in a fixed order."""
        ends = [self._item_ids.get_indexer(to_index(table[end], end)) for end in self._items]
        return pd.DataFrame(np.sort(np.stack(ends, 1), axis=1)).assign(
            worker=table["worker"].to_numpy()
        )
