"""Who answers in a simulated campaign: made-up workers, or answers that were recorded."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pyro_crowdclust.asking.labels import Labels
from pyro_crowdclust.asking.pairs import Pairs
from pyro_crowdclust.asking.suggesting import Kind
from pyro_crowdclust.data.tables import codes_and_ids
from pyro_crowdclust.metrics import label_codes


class AnsweringCrowd(Protocol):
    """What ``simulate_campaign`` asks of a crowd, which may also be ``SupportsOffers`` and more."""

    @property
    def workers(self) -> Any:
        """Ids of whom there is to ask."""

    def answer(self, questions: pd.DataFrame, page_prefix: Hashable) -> dict[str, pd.DataFrame]:
        """Answers as ``Fitted.update`` takes them; pages get ids that begin so."""


@runtime_checkable
class SupportsOffers(Protocol):
    """A crowd that cannot answer everything."""

    def offers(self, kind: Kind) -> Kind | None:
        """The kind, of questions that can still be asked; None if there are none."""


@runtime_checkable
class SupportsClasses(Protocol):
    """A crowd whose labels are known beforehand, though the first answers have only some."""

    @property
    def classes(self) -> Iterable[Hashable]:
        """The labels that it may give."""


class SimulatedCrowd:
    """Workers who see the true class with probability ``a_m``, and else any other.

    Of a pair a worker says the truth with probability ``a_m``; an item of a page is placed with
    those of its class with probability ``a_m``, and else with another class.

    Parameters
    ----------
    truth
        The class of every item; a series whose index are the item ids, or one per position.
    accuracy
        ``a_m`` by worker id.
    seed
        Of the errors.

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
        self._truth = truth if isinstance(truth, pd.Series) else pd.Series(np.asarray(truth))
        self._codes = pd.Series(label_codes(self._truth.to_numpy()), self._truth.index)
        self._classes = np.unique(self._truth.to_numpy())
        self._accuracy = dict(accuracy)
        self._generator = np.random.default_rng(seed)

    @property
    def workers(self) -> pd.Index:
        """All of them."""
        return pd.Index(list(self._accuracy), tupleize_cols=False)

    @property
    def classes(self) -> list[Hashable]:
        """Those of the truth."""
        return self._classes.tolist()

    def offers(self, kind: Kind) -> Kind:
        """Anything."""
        return kind

    def answer(self, questions: pd.DataFrame, page_prefix: Hashable) -> dict[str, pd.DataFrame]:
        """What they say."""
        rates = np.array([self._accuracy[worker] for worker in questions["worker"]])
        slips = self._generator.random(len(questions)) >= rates
        if "left" in questions:
            left, right = (self._codes[questions[side]].to_numpy() for side in ("left", "right"))
            said = ((left == right) ^ slips).astype(np.int64)
            return {"pairs": questions[["left", "right", "worker"]].assign(label=said)}
        number = len(self._classes)
        step = self._generator.integers(1, max(number, 2), len(questions))
        seen = (self._codes[questions["item"]].to_numpy() + slips * step) % number
        if "page" not in questions:
            labels = questions[["item", "worker"]].assign(label=self._classes[seen])
            return {"labels": labels}
        pages = [f"{page_prefix}.{page}" for page in questions["page"]]
        placed = questions[["item", "worker"]].assign(page=pages, group=seen)
        return {"placements": placed}


class RecordedCrowd:
    """Answers that were given once, of which only those that exist can be had.

    Parameters
    ----------
    pairs
        Answers about pairs, as ``CrowdData`` takes them.
    labels
        Class answers, in place of pairs.
    """

    def __init__(
        self, pairs: pd.DataFrame | None = None, labels: pd.DataFrame | None = None
    ) -> None:
        if (pairs is None) == (labels is None):
            raise ValueError("pass pairs or labels: a recorded crowd answered one kind of question")
        self._name = "pairs" if labels is None else "labels"
        table = pairs if labels is None else labels
        assert table is not None
        self._left = table.reset_index(drop=True)
        self.classes: list[Hashable] = []
        if labels is not None:
            self.classes = [*codes_and_ids(labels["label"], "labels")[1]]

    @property
    def workers(self) -> pd.Index:
        """Those with answers that were not had yet."""
        return pd.Index(self._left["worker"].unique(), tupleize_cols=False)

    def __len__(self) -> int:
        return len(self._left)

    def offers(self, kind: Kind) -> Kind | None:
        """The questions of which there are answers left."""
        if not isinstance(kind, Pairs | Labels):
            raise ValueError("recorded answers are of pairs or labels: pass Pairs() or Labels()")
        return replace(kind, among=self._left) if len(self._left) else None

    def answer(self, questions: pd.DataFrame, page_prefix: Hashable) -> dict[str, pd.DataFrame]:
        """What they said."""
        wanted = pd.MultiIndex.from_frame(self._keys(questions))
        known = pd.MultiIndex.from_frame(self._keys(self._left))
        first = ~known.duplicated()
        rows = first & known.isin(wanted)
        said, self._left = self._left[rows], self._left[~rows]
        return {self._name: said.drop(columns="page", errors="ignore")}

    def _keys(self, table: pd.DataFrame) -> pd.DataFrame:
        """A row per question that is the same either way round."""
        if self._name == "labels":
            return table[["item", "worker"]]
        ends = np.sort(table[["left", "right"]].to_numpy(), axis=1)
        return pd.DataFrame({"first": ends[:, 0], "second": ends[:, 1], "w": table["worker"]})
