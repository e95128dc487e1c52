"""What errors say."""

from __future__ import annotations


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


__all__ = ["first_line"]
