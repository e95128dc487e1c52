"""Numbers such as -999 in many rows of a column, which look like codes for missing values."""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.errors import count, show, warn
from pyro_crowdclust.interface.about_data import feature_names
from pyro_crowdclust.interface.candidates.deviating import (
    CENTRAL,
    DEVIATIONS,
    MAX_SHARE_EQUAL,
    MIN_VALUES,
    are_numbers,
)

# Codes that also a column with negative numbers may have.
_NINES = re.compile(r"-?9+")


def warn_about_codes(data: CrowdData, rows: Float[Tensor, "item feature"]) -> None:
    """Warn about columns that have a code for missing values in too many rows to leave it out.

    Up to a tenth of the numbers of a column that are all equal and far from all others count as
    missing (``deviation_bounds``). More of them may be something else, such as a price that most
    things have, and are believed.

    Parameters
    ----------
    data
        The items.
    rows
        The features of some of them (``sample_of``).
    """
    columns = rows.numpy()
    codes = {place: _code_of(columns[:, place]) for place in np.flatnonzero(are_numbers(data))}
    found = [(int(place), code) for place, code in codes.items() if code is not None]
    if found:
        place, code = found[0]
        share = np.equal(columns[:, place], code).mean()
        names = feature_names(data)
        others = f" ({count(len(found) - 1, 'more column')} like it)" if len(found) > 1 else ""
        warn(
            f"feature column {show(names[place])} is {code:g} in {share:.0%} of the rows, far from "
            f"all other numbers{others}: leave these cells empty if it means that they are missing"
        )


def _code_of(numbers: Float[np.ndarray, " row"]) -> float | None:
    """The number that looks like a code; None if there is none.

    More than a tenth and at most half of the numbers are equal, at a distance of more than four
    standard deviations of the others beyond all of these, and all digits are nines, or only this
    number is negative.
    """
    numbers = numbers[~np.isnan(numbers)]
    for code in (numbers.min(initial=0), numbers.max(initial=0)):
        others = numbers[numbers != code]
        share = 1 - len(others) / max(len(numbers), 1)
        if not MAX_SHARE_EQUAL < share <= 0.5 or len(np.unique(others)) < MIN_VALUES:
            continue
        lowest, highest = np.quantile(others, [0.1, 0.9])
        gap = max(others.min() - code, code - others.max())
        is_alone = code < 0 <= others.min() or _NINES.fullmatch(f"{code:.15g}") is not None
        if is_alone and gap > DEVIATIONS * (highest - lowest) / CENTRAL:
            return float(code)
    return None
