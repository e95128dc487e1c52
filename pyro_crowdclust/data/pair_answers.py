"""Pairwise answers in positions and codes: how they are stored, and which repeat others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.repeats import look_copied
from pyro_crowdclust.data.tables import where
from pyro_crowdclust.errors import needed, warn


@dataclass(frozen=True, eq=False)
class Answers:
    """Pairwise answers in positions and codes, one row per answer.

    Attributes
    ----------
    left, right
        Positions of the two items in the data.
    worker
        Code of the worker, an index into ``CrowdData.worker_ids``.
    label
        1 where the worker said "same", 0 where "different"; a grade is a fraction between them, and
        NaN where the worker could not tell.
    page
        Code of the task in which the answer was given, an index into ``CrowdData.page_ids``; None
        where the answers have no page.
    """

    left: Int[Tensor, " pair"]
    right: Int[Tensor, " pair"]
    worker: Int[Tensor, " pair"]
    label: Float[Tensor, " pair"]
    page: Int[Tensor, " pair"] | None = None

    @property
    def num_pairs(self) -> int:
        """Number of answers."""
        return len(self.left)

    @property
    def needed_page(self) -> Int[Tensor, " pair"]:
        """``page``, where the answers have pages; a ``ValueError`` where they have none."""
        return needed(self.page, "pages of answers", "pairs with a column 'page'")

    @property
    def items(self) -> Int[Tensor, "pair 2"]:
        """Positions of the two items of each answer."""
        return torch.stack([self.left, self.right], 1)

    def at(self, kept: Bool[Tensor, " pair"]) -> Answers:
        """The answers of some rows."""
        parts = self.left, self.right, self.worker, self.label
        left, right, worker, label = (part[kept] for part in parts)
        return Answers(left, right, worker, label, None if self.page is None else self.page[kept])


def grade_places(label: Float[Tensor, " answer"], num_grades: int) -> Int[Tensor, " answer"]:
    """Which grade each label is, from 0 on; the number of grades where the label is NaN.

    Yes and no are two grades.
    """
    place = (label.nan_to_num() * (num_grades - 1)).round().long()
    return torch.where(label.isnan(), num_grades, place)


class Outcomes(NamedTuple):
    """The possible answers about a pair: yes and no, or G grades, and perhaps "can't tell".

    Attributes
    ----------
    num_grades
        G, 2 for yes and no.
    num_outcomes
        C: G, or G + 1 with "can't tell".
    """

    num_grades: int
    num_outcomes: int

    def places(self, label: Float[Tensor, " answer"]) -> Int[Tensor, " answer"]:
        """Which outcome every label is, from 0 on; NaN is the last."""
        return grade_places(label, self.num_grades)

    def labels(self, place: Int[Tensor, "*answer"]) -> Float[Tensor, "*answer"]:
        """The inverse of ``places``, in float64."""
        grade = place.double() / (self.num_grades - 1)
        return torch.where(place == self.num_grades, torch.nan, grade)


class Sessions(NamedTuple):
    """Sessions: the distinct combinations of page and worker among answers about pairs.

    Attributes
    ----------
    page, worker
        Code of the page and of the worker of every session, in order.
    of_answer
        The session of every answer.
    """

    page: Int[Tensor, " session"]
    worker: Int[Tensor, " session"]
    of_answer: Int[Tensor, " pair"]

    @classmethod
    def of(cls, page: Int[Tensor, " pair"], worker: Int[Tensor, " pair"]) -> Sessions:
        """The sessions of answers on these pages by these workers.

        Examples
        --------
        >>> page, worker = torch.tensor([7, 4, 7, 7]), torch.tensor([0, 1, 2, 0])
        >>> [part.tolist() for part in Sessions.of(page, worker)]
        [[4, 7, 7], [1, 0, 2], [1, 0, 2, 1]]
        """
        number = int(worker.max()) + 1 if len(worker) else 1
        codes, of_answer = (page * number + worker).unique(return_inverse=True)
        return cls(codes // number, codes % number, of_answer)


def outcome_names(grades: pd.Index) -> list[str]:
    """Names of the possible answers about a pair: the grades, and "unsure" for "can't tell".

    Grades are numbered if two of them have the same name, or one is called "unsure".

    Examples
    --------
    >>> outcome_names(pd.Index([0.0, 0.5, 1.0])), outcome_names(pd.Index(["no", "unsure", "yes"]))
    (['0', '0.5', '1', 'unsure'], ['0', '1', '2', 'unsure'])
    """
    names = [f"{one:g}" if isinstance(one, float) else str(one) for one in grades]
    if len({*names, "unsure"}) <= len(names):
        names = [str(number) for number in range(len(names))]
    return [*names, "unsure"]


def labels_of(answers: Answers, grades: pd.Index) -> np.ndarray:
    """Labels as a user wrote them: 0 and 1, or grades, None where the worker could not tell."""
    if not len(grades):
        return answers.label.numpy().astype(np.int64)
    written = np.array([*grades, None], dtype=object)
    return written[grade_places(answers.label, len(grades)).numpy()]


def repeated_answers(answers: Answers) -> Bool[np.ndarray, " pair"]:
    """Which answers repeat an earlier one: same items, worker, label and page.

    Examples
    --------
    >>> ends, worker = torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0])
    >>> repeated_answers(Answers(*ends, worker, torch.ones(2))).tolist()
    [False, True]
    """
    ends = answers.items.sort(dim=1).values
    # Codes are exact as float64, which labels are.
    label = answers.label.nan_to_num(nan=-1.0)
    codes = [ends, answers.worker[:, None], label[:, None]]
    codes += [] if answers.page is None else [answers.page[:, None]]
    return pd.DataFrame(torch.cat(codes, dim=1).numpy()).duplicated().to_numpy()


def message_about_repeats(name: str, index: pd.Index, repeated: Bool[np.ndarray, " row"]) -> str:
    """The warning about rows of a table that repeat earlier answers."""
    return (
        f"{where(name, index, repeated)}: repeats an earlier answer (same items, worker and "
        "label); without pages, and of several workers, as many count as are independent of each "
        "other, one if the worker repeats what was said: remove them if they are copies"
    )


def warn_about_repeats(answers: Answers, index: pd.Index) -> None:
    """Warn about answers that look like copies; ``index`` holds the user's row labels."""
    repeated = repeated_answers(answers)
    if look_copied(repeated):
        warn(message_about_repeats("pairs", index, repeated))
