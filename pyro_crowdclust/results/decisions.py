"""Which items to call positive: those above one half, unless F1 asks clearly for others.

    E[F1(D)]  ~  2 sum_{i in D} p_i / (|D| + sum_i p_i)

is F1's expectation if the items D are called positive: a ratio of expectations, exact as items
grow many. The D of any size that has the largest one are the items with the largest p, and its
threshold is half the F1 that it reaches (Lipton et al. 2014): below one half, and far below where
nobody can tell well. Calling nothing positive because no p exceeds one half has an F1 of zero.

Probabilities near one half are the ones that a model knows least, and what the best D promises
beyond the items above one half is small as a rule: then one half stays.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from pyro_crowdclust.errors import check_probabilities


def choose_positives(probabilities: ArrayLike, margin: float = 0.05) -> Bool[np.ndarray, " item"]:
    """``p_i > 1/2``, or the items with the largest expected F1 if that is more by the margin.

    Parameters
    ----------
    probabilities
        p(positive) of every item, ``[item]``, of a model that keeps what it promises, such as
        ``LatentTrait`` or ``match_records``.
    margin
        How much more the largest expected F1 must be than that of the items above one half; 0 for
        the largest in any case.

    Returns
    -------
    True where an item is to be called positive; items with equal probabilities are called alike.

    Raises
    ------
    ValueError
        For probabilities outside [0, 1] or not in one row, or a negative margin.

    Examples
    --------
    >>> choose_positives([0.9, 0.8, 0.45, 0.1]).tolist()
    [True, True, False, False]
    >>> choose_positives([0.45, 0.4, 0.4, 0.1]).tolist()
    [True, True, True, False]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"probabilities have the shape {list(p.shape)}, but must be one row")
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
    # A margin of nothing is exceeded by an equal one, too.
    return half if expected[best] < of_half + margin else p >= largest[best]
