"""What to do about a site whose distribution has more axes than its plates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What Pyro says about them: in a plate, and of a log-density.
_SAID = "Shape mismatch inside plate", "not broadcastable with batch_shape+event_shape"


@contextmanager
def explained_shapes() -> Iterator[None]:
    """Raise a ``ValueError`` that also says what to do, instead of Pyro's about shapes."""
    try:
        yield
    except ValueError as error:
        said = next((line for line in str(error).splitlines() if any(s in line for s in _SAID)), "")
        if not said:
            raise
        first = str(error).splitlines()[0]
        said = said if said == first else f"{first} {said}"
        raise ValueError(
            f"{said.removesuffix('.')}. The axes of a site are its plates: if the last axis is not "
            "a plate, such as the numbers of an item, make it one event, as in "
            "dist.Normal(...).to_event(1)"
        ) from error
