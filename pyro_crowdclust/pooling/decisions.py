"""Which items to call positive: those above one half, unless others have a clearly larger F1.

    E[F1(D)]  ~  2 sum_{i in D} p_i / (|D| + sum_i p_i)

is the expected F1 if the items D are called positive (a ratio of expectations, exact in the limit
of many items). The best D consists of the items with the largest p; its threshold is half the F1
that it reaches (Lipton et al. 2014), which is below one half, and far below it if items are hard to
distinguish. If no p exceeds one half, a threshold of one half calls nothing positive: F1 is zero.

Probabilities near one half are the least certain ones, and the best D is usually little better than
the items above one half: then the threshold stays at one half.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from pyro_crowdclust.errors import check_probabilities


def choose_positives(probabilities: ArrayLike, margin: float = 0.05) -> Bool[np.ndarray, " item"]:
    """``p_i > 1/2``, or the D with the largest expected F1 if that is larger by the margin.

    Parameters
    ----------
    probabilities
        p(positive) of every item, ``[item]``, from a well calibrated model, such as
        ``LatentTrait`` or ``match_records``.
    margin
        By how much the largest expected F1 must exceed that of the items above one half; with 0 the
        largest is always chosen.

    Returns
    -------
    True for items to call positive. Items with equal probabilities get equal values.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1] or of more than one dimension, or a negative margin.

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
    half = p > 0.5
    if not p.any():
        return half
    largest = np.sort(p)[::-1]
    expected = 2 * largest.cumsum() / (np.arange(1, len(p) + 1) + p.sum())
    best = int(expected.argmax())
    of_half = expected[half.sum() - 1] if half.any() else 0.0
    # ``<``, so that with a margin of 0 an equal F1 suffices.
    return half if expected[best] < of_half + margin else p >= largest[best]
