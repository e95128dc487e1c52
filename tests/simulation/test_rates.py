"""Rates of a crowd where the truth is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.simulation import simulate_pairs, two_coin_rates


def test_two_coin_rates_by_hand():
    frame = pd.DataFrame(
        {
            "left": [0, 0, 1, 0, 0, 0, 0, 2],
            "right": [1, 1, 2, 2, 3, 1, 2, 3],
            "worker": ["zoe", "zoe", "zoe", "zoe", "zoe", "abe", "abe", "zoe"],
            "label": [1, 0, 0, 0, 1, 1, 1, 1],
        }
    )
    rates = two_coin_rates(frame, ["x", "x", "y", "y"])
    assert list(rates.index) == ["abe", "zoe"]
    zoe = rates.loc["zoe"]
    assert zoe["sensitivity"] == pytest.approx(2 / 3)
    assert zoe["specificity"] == pytest.approx(2 / 3)
    assert zoe["weight"] == pytest.approx(2 * np.log(2))
    assert (zoe["same_pairs"], zoe["different_pairs"]) == (3, 3)
    assert tuple(rates.loc["abe", ["sensitivity", "specificity"]]) == (1.0, 0.0)
    assert np.isnan(rates.loc["abe", "weight"])


def test_a_rate_without_answers_is_missing():
    frame = pd.DataFrame({"left": [0], "right": [1], "worker": [0], "label": [1]})
    rates = two_coin_rates(frame, [4, 4]).loc[0]
    assert rates["sensitivity"] == 1.0
    assert np.isnan(rates["specificity"])
    assert rates["different_pairs"] == 0


def test_weights_grow_with_the_rates():
    labels = np.repeat(["ant", "bee", "cow"], [45, 30, 15])
    frame = simulate_pairs(labels, [0.5, 0.7, 0.9], [0.5, 0.7, 0.9], pairs_per_worker=3000, seed=2)
    weight = two_coin_rates(frame, labels)["weight"]
    expected = [0.0, 2 * np.log(7 / 3), 2 * np.log(9)]
    np.testing.assert_allclose(weight, expected, atol=0.35)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": [2]}, "column label must be 0 or 1, but row 0 holds 2"),
        ({"right": [3]}, "column right must lie in 0 to 1"),
        ({"left": []}, "frame is empty"),
    ],
)
def test_bad_answers_are_refused(changes, message):
    columns = {"left": [0], "right": [1], "worker": [0], "label": [1], **changes}
    size = min(len(values) for values in columns.values())
    frame = pd.DataFrame({name: values[:size] for name, values in columns.items()})
    with pytest.raises(ValueError, match=message):
        two_coin_rates(frame, [0, 1])


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match=r"lacks the columns \['worker', 'label'\]"):
        two_coin_rates(pd.DataFrame({"left": [0], "right": [1]}), [0, 1])
