"""Numbers of more pairs, after those that the data have; other data are updated with their fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.extending import extended

SAID = {"left": ["a"], "right": ["b"], "worker": ["w"], "label": [1]}
ALIKE = {"left": ["a", "c"], "right": ["b", "a"], "texts": [0.5, 0.25], "prices": [1.0, 2.0]}
MORE = {"left": ["d", "b"], "right": ["b", "c"], "prices": [3.0, 4.0], "texts": [0.75, 1.0]}


def compared() -> CrowdData:
    return CrowdData(None, SAID, likeness=ALIKE, item_ids=list("abcd"))


def test_more_pairs_come_after_those_of_the_data_whatever_the_order_of_their_columns():
    found = extended(compared(), likeness=MORE)
    both = pd.concat([pd.DataFrame(ALIKE), pd.DataFrame(MORE)], ignore_index=True)
    expected = CrowdData(None, SAID, likeness=both, item_ids=list("abcd"))
    assert found.likeness.items.tolist() == expected.likeness.items.tolist()
    np.testing.assert_array_equal(found.likeness.values, expected.likeness.values)
    assert found.likeness_names.tolist() == ["texts", "prices"]
    assert compared().likeness.num_pairs == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"left": ["d", "e"]}, "likeness row 1 .*left is 'e', not among the item ids"),
        ({"left": ["b", "a"], "right": ["a", "d"]}, "likeness row 0 .*pass new pairs alone"),
        ({"left": ["d", "b"], "right": ["b", "d"]}, r"\('b', 'd'\) once more"),
        ({"colours": [1.0, 2.0]}, r"'colours'\], but the fit heard \['texts', 'prices'\]"),
        ({"texts": [0.75, np.nan]}, "likeness row 1 .*texts is nan, which is no finite number"),
    ],
    ids=["nobody", "again", "twice", "others", "missing"],
)
def test_pairs_that_cannot_be_heard(changed, message):
    with pytest.raises(ValueError, match=message):
        extended(compared(), likeness=MORE | changed)


def test_a_fit_that_heard_of_no_likeness_hears_of_none():
    with pytest.raises(ValueError, match="the fit heard of none: fit anew"):
        extended(CrowdData(None, SAID, item_ids=list("abcd")), likeness=MORE)
    with pytest.raises(ValueError, match="there are features, .*: leave it out"):
        extended(CrowdData(np.eye(4), SAID, item_ids=list("abcd")), likeness=MORE)
