"""A number in many rows that looks like a code for missing values is warned of."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for


def ages(code, share, number=200):
    """Ages, of which some are a code, beside a column without any."""
    generator = np.random.default_rng(0)
    found = generator.uniform(18, 80, number).round()
    found[: round(share * number)] = code
    return pd.DataFrame({"height": generator.normal(170, 9, number), "age": found})


@pytest.mark.parametrize("code", [-999, -99.0, 999, 9999, -200])
def test_a_code_in_many_rows_is_warned_of(code):
    said = f"'age' is {code:g} in 15% of the rows, far from all other numbers: leave these cells"
    with pytest.warns(UserWarning, match=said) as found:
        choice_for(CrowdData(ages(code, 0.15)))
    assert len(found) == 1


@pytest.mark.parametrize(
    ("code", "share"),
    [
        (-999, 0.08),  # counts as missing
        (-999, 0.6),  # is what most rows have
        (0, 0.15),  # may be what was measured
        (500, 0.15),
        (99, 0.15),  # near to the others
    ],
)
def test_what_may_be_meant_is_not_warned_of(code, share):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice_for(CrowdData(ages(code, share)))


def test_other_columns_with_codes_are_counted():
    table = ages(-999, 0.2)
    table["weight"] = table["age"].replace(-999, 999)
    with pytest.warns(UserWarning, match=r"other numbers \(1 more column like it\): leave"):
        choice_for(CrowdData(table))
