"""Clear errors for files, named by the user, that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


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
