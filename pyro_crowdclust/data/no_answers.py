"""Texts that say that somebody gave no answer."""

from __future__ import annotations

from typing import Any

# Texts that mean "can't tell", in lower case.
_CANNOT_TELL = ("can't tell", "cannot tell", "can not tell", "unsure")
# Names, in lower case, that may be of a class, but more often mean that there is no answer.
_NO_ANSWER = (
    *("?", "don't know", "dont know", "idk", "n/a", "na", "no answer", "none", "not sure"),
    *("skip", "skipped", "unknown", "unclear", "undecided"),
)
# Characters that keyboards and word processors insert for an apostrophe.
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\u00b4`", "'"))


def says_cannot_tell(value: Any) -> bool:
    """Whether a cell holds a text that means "can't tell", in any spelling.

    Examples
    --------
    >>> [says_cannot_tell(one) for one in ("Can\u2019t  tell", "I cannot tell", "Unsure", "can", 0)]
    [True, True, True, False, False]
    """
    return _plainly(value) in _CANNOT_TELL


def may_say_nothing(value: Any) -> bool:
    """Whether a class has a name that means "can't tell", or often that there is no answer.

    Examples
    --------
    >>> [may_say_nothing(one) for one in ("Unsure", " N/A", "Don\u2019t know", "no", 0)]
    [True, True, True, False, False]
    """
    return says_cannot_tell(value) or _plainly(value) in _NO_ANSWER


def _plainly(value: Any) -> str | None:
    """A text with plain apostrophes, single spaces, no capitals and no "I"; None for others."""
    if not isinstance(value, str):
        return None
    return " ".join(value.translate(_APOSTROPHES).split()).casefold().removeprefix("i ")
