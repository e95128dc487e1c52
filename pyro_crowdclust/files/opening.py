"""Clear errors for files, named by the user, that cannot be read."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# The marks at the beginning of a text that is not UTF-8, such as Excel's "Unicode Text"; that of
# UTF-32 begins like that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def encoding_of(path: Path) -> str:
    """The encoding of a text: what the mark at its beginning states, or else UTF-8.

    Other encodings have no mark, and are not guessed: a wrong guess would change names in silence.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "x.csv"
    ...     for encoding in ("utf-16", "utf-8-sig", "utf-8"):
    ...         _ = path.write_text("item,a", encoding=encoding)
    ...         print(encoding_of(path))
    utf-16
    utf-8-sig
    utf-8-sig
    """
    with path.open("rb") as file:
        start = file.read(4)
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8-sig")


def opened(path: Path, read: Callable[[], T]) -> T:
    """The result of ``read()``, with errors that name the file.

    Raises
    ------
    ValueError
        If there is no such file, it cannot be read, or is not UTF-8.
    """
    try:
        return read()
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise ValueError(
            f"cannot read {path}: it is not UTF-8; save it as UTF-8 text, which Excel calls "
            "'CSV UTF-8'"
        ) from None
