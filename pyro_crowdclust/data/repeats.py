"""When answers that repeat earlier ones look like copies rather than like questions asked twice."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

# With pairs drawn at random, or some questions asked twice by design, few answers are repeats.
_MAX_SHARE = 0.1
# Nor do so many consecutive answers repeat earlier ones, unless part of a table is there twice.
_BLOCK = 20


def look_copied(repeated: Bool[np.ndarray, " row"]) -> bool:
    """Whether more than a tenth of the rows are repeats, or twenty consecutive ones.

    Examples
    --------
    >>> looks = [np.arange(400) % 50 == 0, np.arange(400) % 5 == 0, np.arange(400) >= 380]
    >>> [look_copied(repeated) for repeated in looks]
    [False, True, True]
    """
    if not repeated.any():
        return False
    others = np.flatnonzero(~repeated)
    longest = np.diff(others, prepend=-1, append=len(repeated)).max() - 1
    return bool(repeated.mean() > _MAX_SHARE or longest >= _BLOCK)
