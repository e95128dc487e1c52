"""Reads tables of answers about pairs, whose labels are words, numbers or grades."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.no_answers import says_cannot_tell
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.tables import (
    GRADES_REMEDY,
    are_blank,
    codes_and_ids,
    item_positions,
    reject,
    reject_self_pairs,
    to_index,
    where,
)
from pyro_crowdclust.errors import show, warn

# Name of the index of grades that are levels of probabilities.
_LEVELS = "probability"
_GRADES_ADVICE = (
    """if labels are grades, pass them from "different" to "same" as grades=, such as """
    "grades=[1, 2, 3, 4, 5]"
)
_NO_GRADES = pd.Index([], dtype=object)
# "Yes" and "true" answer the question whether two items are the same; "match" and "distinct" are
# the words of record linkage. Spreadsheets in other languages write WAHR or VRAI for a box that is
# ticked, and 1,0 for a number.
_SAME = (
    *("same", "1", "1.0", "1,0", "true", "yes", "y", "match"),
    *("ja", "wahr", "oui", "vrai", "sí", "si"),
)
_DIFFERENT = (
    *("different", "0", "0.0", "0,0", "false", "no", "n", "distinct"),
    *("nein", "falsch", "non", "faux"),
)
_WORDS = dict.fromkeys(_SAME, 1.0) | dict.fromkeys(_DIFFERENT, 0.0)


def _number(label: Any) -> float:
    """The number that a label stands for, which may be a word; NaN if it stands for none."""
    if isinstance(label, str):
        return _WORDS.get(label.strip().lower(), math.nan)
    return float(label) if isinstance(label, numbers.Real | np.bool_) else math.nan


def read_pairs(
    table: pd.DataFrame,
    item_ids: pd.Index,
    worker: Int[Tensor, " pair"],
    grades: pd.Index = _NO_GRADES,
) -> tuple[Answers, pd.Index]:
    """The answers in codes, and the page ids; labels are grades if ``grades`` is not empty."""
    left, right = (item_positions("pairs", table[name], item_ids) for name in ("left", "right"))
    reject_self_pairs("pairs", table["left"], left == right)

    labels = _fractions(table["label"], grades) if len(grades) else yes_or_no(table["label"])
    page: Tensor | None = None
    page_ids: pd.Index = pd.Index([], dtype=object)
    if "page" in table:
        page, page_ids = codes_and_ids(table["page"], "pairs")
    answers = Answers(
        left=left, right=right, worker=worker, label=torch.from_numpy(labels), page=page
    )
    return answers, page_ids


def labels_as_numbers(column: pd.Series) -> Float[np.ndarray, " pair"]:
    """Labels as numbers: 1 for "same", however that is written, 0 for "different".

    Other numbers stay as they are; NaN for other words.

    Examples
    --------
    >>> labels_as_numbers(pd.Series(["same", "no", True, "0", 0.3, "perhaps"])).tolist()
    [1.0, 0.0, 1.0, 0.0, 0.3, nan]
    """
    labels = column.to_numpy()
    if labels.dtype.kind not in "biuf":
        labels = np.array([_number(label) for label in labels])
    return labels.astype(np.float64)


def yes_or_no(
    column: pd.Series,
    of_probabilities: str = "if labels are probabilities, pass grades=5",
    of_grades: str = _GRADES_ADVICE,
) -> Float[np.ndarray, " pair"]:
    """Labels as 1 for "same" and 0 for "different".

    Parameters
    ----------
    column
        The labels.
    of_probabilities
        Advice of the error if all labels are numbers from 0 to 1.
    of_grades
        Its advice if labels are more than two different whole numbers from 0 to 10.

    Raises
    ------
    ValueError
        Naming the first row whose label is neither.
    """
    labels = labels_as_numbers(column)
    remedy = "neither 1 nor 0; write 1 or same, 0 or different"
    if ((labels >= 0) & (labels <= 1)).all():
        remedy += f"; {of_probabilities}"
    elif np.isin(labels, range(11)).all() and len(np.unique(labels)) > 2:
        remedy += f"; {of_grades}"
    elif np.isin(labels, (-1, 1)).all():
        remedy += "; if 1 is same and -1 different, pass label.replace(-1, 0)"
    neither = (labels != 0) & (labels != 1)
    if any(map(says_cannot_tell, column[neither])):
        remedy += (
            "; leave such rows out, or read the file by exchange.read_answers, which does; or, "
            f"{GRADES_REMEDY}"
        )
    reject("pairs", column, neither, remedy)
    return labels


def alike_written(column: pd.Series) -> pd.Series:
    """Labels in which "same" and "different" are each spelled as at their first occurrence.

    A column that holds anything else, such as grades, stays as it is.

    Examples
    --------
    >>> alike_written(pd.Series(["same", 1, "no", None, "different"])).tolist()
    ['same', 'same', 'no', None, 'no']
    """
    given = column.notna().to_numpy()
    values = labels_as_numbers(column[given])
    if pd.api.types.is_numeric_dtype(column.dtype) or not np.isin(values, (0, 1)).all():
        return column
    words = column[given].tolist()
    first = dict(zip(reversed(values), reversed(words), strict=True))
    labels = column.astype(object)
    labels[given] = [first[number] for number in values]
    return labels


def in_one_order(pairs: pd.DataFrame) -> pd.DataFrame:
    """The same pairs, in which the two items of a pair have the same order in every row.

    Examples
    --------
    >>> in_one_order(pd.DataFrame({"left": ["ant", "bee"], "right": ["bee", "ant"]}))
      left right
    0  ant   bee
    1  ant   bee
    """
    left, right = (pairs[end].to_numpy() for end in ("left", "right"))
    codes, _ = pd.factorize(np.concatenate([left, right]))
    later = codes[: len(left)] > codes[len(left) :]
    return pairs.assign(left=np.where(later, right, left), right=np.where(later, left, right))


def read_grades(grades: Iterable[Hashable] | int) -> pd.Index:
    """The grades as an index; evenly spaced probabilities where their number is given.

    Raises
    ------
    ValueError
        If they are a single text or fewer than two, or one of them is missing or repeated.
    """
    if isinstance(grades, str | bytes):
        raise ValueError(
            f"grades are {grades!r}, which is one text: pass a list of all of them, from different "
            "to same"
        )
    if isinstance(grades, numbers.Integral):
        found = pd.Index(np.linspace(0.0, 1.0, max(int(grades), 0)), name=_LEVELS)
    elif isinstance(grades, Iterable):
        found = to_index(grades, "grades").rename(None)
    else:
        raise ValueError(
            f"grades are {grades}: pass all of them, from different to same, or a whole number"
        )
    if len(found) < 2 or found.hasnans or found.has_duplicates:
        raise ValueError(
            f"grades are {grades}, but must be at least two different ones, from different to same"
        )
    return found


def are_levels(grades: pd.Index) -> bool:
    """Whether labels are probabilities, to be rounded to these levels."""
    return grades.name == _LEVELS


def _fractions(column: pd.Series, grades: pd.Index) -> Float[np.ndarray, " pair"]:
    """Positions of labels among the grades, from 0 to 1; NaN for labels that are not grades."""
    last = len(grades) - 1
    if are_levels(grades):
        probability = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
        outside = (probability < 0) | (probability > 1)
        levels = f"a probability from 0 to 1, which grades={len(grades)} rounds to as many levels"
        advice = "for labels that are grades pass all of them, such as grades=[1, 2, 3, 4]"
        reject("pairs", column, outside, f"not {levels}; {advice}")
        is_other = np.isnan(probability)
        _warn_of_other_labels(column, is_other, "not a number", "write numbers from 0 to 1")
        return np.round(probability * last) / last
    place = grades.get_indexer(pd.Index(column, tupleize_cols=False))
    what = f"not among the grades {[*grades]}"
    _warn_of_other_labels(column, place < 0, what, "write labels as the grades are written")
    return np.where(place < 0, np.nan, place / last)


def _warn_of_other_labels(
    column: pd.Series, is_other: Bool[np.ndarray, " pair"], what: str, remedy: str
) -> None:
    """Warn of labels that are not grades; raise an error if no label is a grade.

    Blank labels and texts such as "unsure" mean "can't tell", and pass silently. Other labels may
    be grades that are written in another way.
    """
    written = ~(column.isna().to_numpy(bool) | are_blank(column))
    written[is_other] &= ~column[is_other].map(says_cannot_tell).to_numpy(bool)
    other = written & is_other
    if not other.any():
        return
    if (is_other | ~written).all():
        reject("pairs", column, other, f"{what}, nor is any other label; {remedy}")
    some = ", ".join(show(label) for label in column[other].drop_duplicates()[:3])
    warn(
        f"{where('pairs', column.index, other)}: label is {what} (such as {some}), and counts as "
        f'"can\'t tell"; {remedy}, or leave the cell empty if "can\'t tell" is meant'
    )
