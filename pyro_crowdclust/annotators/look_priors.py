"""Priors of what pairs look like, as pseudo-pairs of every look."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

_PSEUDO_PAIRS = 20.0
# For pairs that are the same, the last look is the most common one, and each look before it is
# rarer by this factor; by the second factor if an item of the pair is hard. With "same" and
# "different" no worker is right more often than pairs look like what they are, so that with few
# answers a smaller factor would keep all rates below those of good workers.
_RARER, _RARER_HARD = 39.0, 2.0
_RARER_GRADE, _RARER_HARD_GRADE = 3.0, 1.3
# For "same" and "different" about records, this many more pseudo-pairs that differ and look so.
# Where pairs have no item in common, answers do not distinguish matches from what looks like one.
_MORE_DIFFERENT = 80.0


def concentration_of_two_looks(hard: bool, of_records: bool) -> Float[Tensor, "relation look"]:
    """Pseudo-pairs that look different and the same.

    Parameters
    ----------
    hard
        Whether an item of the pair is hard to recognize.
    of_records
        Whether items are compared with few others, as records are (``ManySmall``).

    Examples
    --------
    >>> concentration_of_two_looks(hard=False, of_records=True).tolist()
    [[99.5, 0.5], [0.5, 19.5]]
    """
    counts = _pseudo_pairs(_RARER_HARD if hard else _RARER, 2)
    if of_records and not hard:
        counts[0, 0] += _MORE_DIFFERENT
    return counts


def concentration_of_grades(num_grades: int, hard: bool) -> Float[Tensor, "relation look"]:
    """Pseudo-pairs that look like each of several grades.

    Examples
    --------
    >>> concentration_of_grades(3, hard=False).round(decimals=1).tolist()
    [[13.8, 4.6, 1.5], [1.5, 4.6, 13.8]]
    """
    return _pseudo_pairs(_RARER_HARD_GRADE if hard else _RARER_GRADE, num_grades)


def _pseudo_pairs(rarer: float, num_looks: int) -> Float[Tensor, "relation look"]:
    """For pairs that are different and the same, looks that differ by a factor each."""
    powers = rarer ** torch.arange(num_looks, dtype=torch.float64)
    share = powers / powers.sum()
    return _PSEUDO_PAIRS * torch.stack([share.flip(0), share])
