"""Which items to call positive: those above one half, unless others have a clearly larger F1.

    E[F1(D)]  ~  2 sum_{i in D} p_i / (|D| + sum_i p_i)

is the expected F1 if the items D are called positive (a ratio of expectations, exact in the limit
of many items). The best D consists of the items with the largest p; its threshold is half the F1
that it reaches (Lipton et al. 2014), which is below one half, and far below it if items are hard to
distinguish. If no p exceeds one half, a threshold of one half calls nothing positive: F1 is zero.

Probabilities near one half are the least certain ones, and the best D is usually little better than
the items above one half: then the threshold stays at one half. And where a class is rare, errors
about the many other items make all probabilities too high together, so that many more items seem to
be worth calling positive. D must therefore be better by the margin even if the odds of all items
are half of what p says.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from pyro_crowdclust.errors import check_probabilities


def choose_positives(
    probabilities: ArrayLike, margin: float = 0.05, overstated: float = 2.0
) -> Bool[np.ndarray, " item"]:
    """``p_i > 1/2``, or the D with the largest expected F1 if that is larger by the margin.

    F1 is expected under ``p / (p + u (1 - p))``: the odds of p, divided by u.

    Parameters
    ----------
    probabilities
        p(positive) of every item, ``[item]``, from a well calibrated model, such as
        ``LatentTrait`` or ``match_records``.
    margin
        By how much the largest expected F1 must exceed that of the items above one half; with 0 the
        largest is always chosen.
    overstated
        u, the factor by which the odds of all items may be too large; 1 if all probabilities are
        exact.

    Returns
    -------
    True for items to call positive. Items with equal probabilities get equal values.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1] or of more than one dimension, a negative margin, or u
        below 1 or infinite.

    Examples
    --------
    >>> choose_positives([0.9, 0.8, 0.45, 0.1]).tolist()
    [True, True, False, False]
    >>> choose_positives([0.45, 0.4, 0.4, 0.1]).tolist()
    [True, True, True, False]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(
            f"probabilities have the shape {list(p.shape)}, but must have one dimension: [item]"
        )
    check_probabilities("probabilities", p)
    if not margin >= 0:
        raise ValueError(f"margin is {margin}, but must be 0 or above")
    if not 1 <= overstated < np.inf:
        raise ValueError(f"overstated is {overstated}, but must be a number of 1 or above")
    half = p > 0.5
    if not p.any():
        return half
    largest = np.sort(p)[::-1]
    at_least = largest / (largest + overstated * (1 - largest))
    expected = 2 * at_least.cumsum() / (np.arange(1, len(p) + 1) + at_least.sum())
    best = int(expected.argmax())
    of_half = expected[half.sum() - 1] if half.any() else 0.0
    # ``<``, so that with a margin of 0 an equal F1 suffices.
    return half if expected[best] < of_half + margin else p >= largest[best]
