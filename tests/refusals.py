"""What is refused, by the words in which it is."""

from __future__ import annotations

import pytest


def refuses(message: str):
    """A context in which a ``ValueError`` has to say this, a regular expression."""
    return pytest.raises(ValueError, match=message)
