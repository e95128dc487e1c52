"""What to do about a site whose distribution has more axes than its plates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What Pyro says about them: in a plate, and of a log-density.
_MESSAGES = "Shape mismatch inside plate", "not broadcastable with batch_shape+event_shape"


@contextmanager
def explained_shapes() -> Iterator[None]:
    """Raise a ``ValueError`` that also says what to do, instead of Pyro's about shapes."""
    try:
        yield
    except ValueError as error:
        lines = str(error).splitlines()
        cause = next((line for line in lines if any(part in line for part in _MESSAGES)), "")
        if not cause:
            raise
        cause = cause if cause == lines[0] else f"{lines[0]} {cause}"
        raise ValueError(
            f"{cause.removesuffix('.')}. The axes of a site are its plates: if the last axis is "
            "not a plate, such as the numbers of an item, make it one event, as in "
            "dist.Normal(...).to_event(1)"
        ) from error
