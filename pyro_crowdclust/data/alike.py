"""Checks for ids and labels that are written alike but differ, and are hardly meant to be two."""

from __future__ import annotations

import re
import unicodedata

import pandas as pd

from pyro_crowdclust.errors import count, differ_in_encoding, show, warn

# Texts that are nearly the same are looked for among the first so many.
_MAX_COMPARED = 10_000
# A whole number as pandas writes it in a column in which another number is missing.
_WHOLE = re.compile(r"([+-]?\d+)\.0+")


def check_alike(values: pd.Index, what: str) -> None:
    """Both of the checks below, for ids that nothing but the tables defines."""
    refuse_two_types(values, what)
    warn_of_alike_texts(values, what)


def refuse_two_types(values: pd.Index, what: str) -> None:
    """Raise a ``ValueError`` about a text and something else that is written like it.

    The number 1 and the text "1" are never the same to Python, but hardly ever meant to be two:
    they come from two files, or from one that was read in two ways.

    Parameters
    ----------
    values
        Ids or labels, each of them once.
    what
        What the user calls them, such as "workers".

    Examples
    --------
    >>> refuse_two_types(pd.Index(["ann", 1, 2]), "workers")
    >>> refuse_two_types(pd.Index([1, "1"]), "workers")
    Traceback (most recent call last):
    ValueError: workers 1 (int) and '1' (str) are written alike, but are not the same: ...
    """
    if values.dtype != object:
        return
    texts = {_bare(value): value for value in values if isinstance(value, str)}
    for value in values if 0 < len(texts) < len(values) else ():
        text = None if isinstance(value, str) else texts.get(_bare(str(value)))
        if text is not None:
            raise ValueError(
                f"{what} {show(value)} ({type(value).__name__}) and {show(text)} (str) are written "
                "alike, but are not the same: make all of them texts (column.astype(str)) or all "
                "numbers (pandas.to_numeric(column))"
            )


def warn_of_alike_texts(values: pd.Index, what: str) -> None:
    """Warn of texts that differ only in case, spaces, encoding or zeros after a decimal point."""
    first_of: dict[str, str] = {}
    alike: list[tuple[str, str]] = []
    for value in values[:_MAX_COMPARED]:
        if isinstance(value, str):
            first = first_of.setdefault(_bare(value), value)
            alike += [(first, value)] if first != value else []
    if alike:
        how = "differ only in case, spaces or a final .0"
        if differ_in_encoding(*alike[0]):
            how = (
                "look the same, but encode their accents differently (column.str.normalize('NFC'))"
            )
        first, second = map(show, alike[0])
        others = f", and {count(len(alike) - 1, 'more pair')}," if len(alike) > 1 else ""
        warn(
            f"{what} {first} and {second}{others} {how}, and count as two: write them in the same "
            "way if they are one"
        )


def _bare(text: str) -> str:
    """A text without what is easily written in several ways."""
    bare = " ".join(unicodedata.normalize("NFC", text).split()).casefold()
    whole = _WHOLE.fullmatch(bare)
    return whole[1] if whole else bare
