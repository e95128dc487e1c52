"""Words of errors, checks of arguments that say what to do, and warnings: whose line, and once."""

from __future__ import annotations

import difflib
import sys
import sysconfig
import traceback
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Number
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    import pandas as pd

_Part = TypeVar("_Part")
_PACKAGE = __name__.partition(".")[0]
# Folders of installed packages and of Python itself, which are not the user's own code.
_LIBRARIES = {"site-packages", "dist-packages"}
_PYTHON = sysconfig.get_path("stdlib")

# What is said of texts that ``differ_in_encoding``.
DIFFERENT_ENCODING = (
    "encodes its accents differently: bring all names into one form, such as "
    "column.str.normalize('NFC')"
)

# Our arguments by the names that other libraries give them. Not every call has all of them.
_OTHER_NAMES = {
    "k": "num_clusters",
    "max_iter": "epochs",
    "n_init": "num_starts",
    "random_state": "seed",
    "verbose": "progress",
}


def show(value: Any) -> str:
    """A value as the user would write it in Python."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def listed(values: Sequence[Any] | pd.Index, most: int = 5) -> str:
    """The first few values, as the user would write them in Python.

    Examples
    --------
    >>> listed(["age", "town", 7], 2), listed([7], 2)
    ("'age', 'town', ...", '7')
    """
    return ", ".join(map(show, values[:most])) + ", ..." * (len(values) > most)


def count(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless the number is 1.

    Examples
    --------
    >>> count(1, "item"), count(2, "item")
    ('1 item', '2 items')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its name where it has none.

    Examples
    --------
    >>> first_line(ValueError("a is 1" + chr(10) + "and more"))
    'a is 1'
    >>> first_line(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    return (str(error) or type(error).__name__).splitlines()[0]


def place_in_users_code(frames: Iterable[tuple[FrameType, int]]) -> str | None:
    """The innermost of some calls that is outside the library and its dependencies; or None.

    Frames and their lines are in the order of a traceback, the innermost last.
    """
    for frame, line in reversed(list(frames)):
        if _is_users(frame):
            code = frame.f_code
            return f"{code.co_name}, {Path(code.co_filename).name} line {line}"
    return None


def warn(message: str) -> None:
    """Warn about the user's own line, however deep in the library the warning is.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as shown:
    ...     warnings.simplefilter("always")
    ...     warn("row 3 is empty")
    >>> shown[0].category.__name__, str(shown[0].message)
    ('UserWarning', 'row 3 is empty')
    """
    frames = (frame for frame, _ in traceback.walk_stack(sys._getframe(1)))
    # 2 is the caller of this function, which is named where no call is outside the library.
    level = next((level for level, frame in enumerate(frames, 2) if _is_users(frame)), 2)
    warnings.warn(message, UserWarning, stacklevel=level)


def _is_users(frame: FrameType) -> bool:
    """Whether a call is neither in this library nor in another one."""
    path = Path(frame.f_code.co_filename)
    is_ours = frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE
    return not is_ours and not path.is_relative_to(_PYTHON) and _LIBRARIES.isdisjoint(path.parts)


def differ_in_encoding(one: str, other: str) -> bool:
    """Whether two texts differ, but only in how their accents are encoded, so that they look alike.

    macOS writes the "ä" in names of files as an "a" and a combining accent, other programs as one
    character.

    Examples
    --------
    >>> differ_in_encoding("a" + chr(0x308), chr(0xE4)), differ_in_encoding("a", chr(0xE4))
    (True, False)
    """
    if one == other or (one.isascii() and other.isascii()):
        return False
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """The known name that is closest to an unknown one, as the end of a sentence; or no text.

    Examples
    --------
    >>> did_you_mean("num_cluster", ["epochs", "num_clusters"])
    "; did you mean 'num_clusters'?"
    >>> did_you_mean("ITEM", ["item", "label"])
    "; did you mean 'item'?"
    >>> did_you_mean("colour", ["epochs"])
    ''
    >>> did_you_mean("7", np.arange(9)), did_you_mean(70, np.arange(9))
    ('; did you mean 7?', '')
    >>> did_you_mean("a" + chr(0x308), [chr(0xE4)]).startswith("; the known 'ä' looks the same")
    True
    """
    if isinstance(name, str):
        known = list(known)
        for one in known:
            if isinstance(one, str) and differ_in_encoding(one, name):
                return f"; the known {one!r} looks the same, but {DIFFERENT_ENCODING}"
    # A number is not a misspelling of another number.
    others = (one for one in known if not (isinstance(name, Number) and isinstance(one, Number)))
    names = {plain_name(one): one.item() if isinstance(one, np.generic) else one for one in others}
    close = difflib.get_close_matches(plain_name(name), names, n=1)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def plain_name(name: Any) -> str:
    """A name without capitals, spaces around it, and the mark with which some files begin."""
    return str(name).replace("\ufeff", "").strip().casefold()


def respelled(wanted: Iterable[str], found: Iterable[Any]) -> str:
    """How to rename columns that differ from the wanted ones in capitals or spaces only.

    Examples
    --------
    >>> respelled(["left", "right"], [" left ", "RIGHT", "note"])
    "capitals and spaces count: rename ' left ' to 'left', 'RIGHT' to 'right'"
    >>> respelled(["left"], ["lift"])
    ''
    """
    names = {plain_name(name): name for name in found}
    renames = [f"{names[one]!r} to {one!r}" for one in wanted if one in names]
    return f"capitals and spaces count: rename {', '.join(renames)}" if renames else ""


def check_arguments(
    call: str,
    given: Iterable[str],
    known: Collection[str],
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise a ``TypeError`` about an argument that a call does not have.

    Parameters
    ----------
    call
        The name of what the user called.
    given
        Names of the keyword arguments that it was given.
    known
        Names of all arguments that it takes.
    remedies
        What to do instead, as the end of a sentence, by the name of an argument.

    Examples
    --------
    >>> check_arguments("update", ["max_iter"], ["epochs", "features"])
    Traceback (most recent call last):
    TypeError: update() has no argument 'max_iter'; did you mean 'epochs'?
    """
    for name in given:
        if name not in known:
            meant = _OTHER_NAMES.get(name)
            if meant in known:
                hint = f"; did you mean {meant!r}?"
            else:
                hint = remedies.get(name) or did_you_mean(name, known)
            raise TypeError(f"{call}() has no argument {name!r}{hint}")


def check_object(name: str, part: Any, kind: type | None = None) -> None:
    """Raise a ``ValueError`` if a part is a class instead of an object, or not of its kind.

    Examples
    --------
    >>> check_object("weights", dict)
    Traceback (most recent call last):
    ValueError: weights is the class dict, but must be an object of it: call dict(...)
    """
    if isinstance(part, type):
        raise ValueError(
            f"{name} is the class {part.__name__}, but must be an object of it: call "
            f"{part.__name__}(...)"
        )
    if kind is not None and not isinstance(part, kind):
        raise ValueError(
            f"{name} is of the class {type(part).__name__}, but must be of a kind of "
            f"{kind.__name__}"
        )


def check_suits(user: str, suited: str, part: Any, needs: Iterable[str], instead: str) -> None:
    """Raise a ``ValueError`` unless a part has what its user needs.

    Parameters
    ----------
    user
        The name of what needs it, such as that of a guide.
    suited
        What the user is for.
    part
        The model or the annotators that were given to it.
    needs
        Names of attributes.
    instead
        What to do.

    Examples
    --------
    >>> check_suits("DawidSkene", "labels", 3, ["num_classes"], "use another model")
    Traceback (most recent call last):
    ValueError: DawidSkene is for labels, but int has no num_classes: use another model
    """
    missing = [name for name in needs if not hasattr(part, name)]
    if missing:
        raise ValueError(
            f"{user} is for {suited}, but {type(part).__name__} has no {missing[0]}: {instead}"
        )


def needed(part: _Part | None, what: str, argument: str) -> _Part:
    """A part of data that there must be; a ``ValueError`` if it is None."""
    if part is None:
        raise ValueError(f"there are no {what}, which are needed: pass {argument} to CrowdData")
    return part


def check_whole(name: str, value: Any, least: int | None = None) -> None:
    """Raise a ``ValueError`` if a count is not a whole number, or is too small.

    Examples
    --------
    >>> check_whole("num_clusters", 2.5)
    Traceback (most recent call last):
    ValueError: num_clusters is 2.5, but must be a whole number
    >>> check_whole("num_clusters", 0, least=1)
    Traceback (most recent call last):
    ValueError: num_clusters is 0, but must be at least 1
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, but must be a whole number")
    if least is not None and value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")


def check_share(name: str, value: Any) -> None:
    """Raise a ``ValueError`` if a share is not a number between 0 and 1, both excluded.

    Examples
    --------
    >>> check_share("share", "10%")
    Traceback (most recent call last):
    ValueError: share is '10%', but must be a number between 0 and 1
    """
    if isinstance(value, str) or not 0 < value < 1:
        raise ValueError(f"{name} is {show(value)}, but must be a number between 0 and 1")


def check_probabilities(name: str, values: Float[np.ndarray, " row"], remedy: str = "") -> None:
    """Raise a ``ValueError`` about the first value that is not a probability.

    Examples
    --------
    >>> check_probabilities("p", np.array([0.5, 2.0]))
    Traceback (most recent call last):
    ValueError: p row 1 is 2.0, but must be between 0 and 1
    """
    outside = ~((values >= 0) & (values <= 1))
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(f"{name} row {row} is {values[row]}, but must be between 0 and 1{remedy}")


def as_numbers(name: str, values: Any, expected: str = "numbers", remedy: str = "") -> np.ndarray:
    """Values as an array of numbers, or a ``ValueError`` that says what they must be.

    Examples
    --------
    >>> as_numbers("p", ["0.5", "half"])
    Traceback (most recent call last):
    ValueError: p must be numbers (could not convert string to float: 'half')
    """
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {expected} ({error}){remedy}") from error


@contextmanager
def warnings_once() -> Iterator[None]:
    """Show no warning twice, within a ``with`` block or in a decorated function.

    Without it, each of twenty candidates would repeat the warnings about the data they share.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as shown, warnings_once():
    ...     for number in (1, 1, 2):
    ...         with warnings.catch_warnings():
    ...             warnings.simplefilter("always")
    ...             warnings.warn(f"number {number}")
    >>> [str(one.message) for one in shown]
    ['number 1', 'number 2']
    """
    seen: set[str] = set()
    with warnings.catch_warnings():
        show_any = warnings.showwarning

        def show_once(message: Warning | str, *place: Any, **options: Any) -> None:
            if str(message) not in seen:
                seen.add(str(message))
                show_any(message, *place, **options)

        warnings.showwarning = show_once
        yield
