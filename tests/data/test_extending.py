"""Numbers of more pairs, after those that the data have, and rows of tables that are warned of.

Other data are updated with their fits.
"""

from __future__ import annotations

import warnings

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
        ({"left": ["b", "a"], "right": ["a", "d"]}, "likeness row 0 .*pass only new pairs"),
        ({"left": ["d", "b"], "right": ["b", "d"]}, r"repeats the pair \('b', 'd'\)"),
        ({"colours": [1.0, 2.0]}, r"'colours'\], but the fit used \['texts', 'prices'\]"),
        ({"texts": [0.75, np.nan]}, "likeness row 1 .*texts is nan, which is not a finite number"),
    ],
    ids=["nobody", "again", "twice", "others", "missing"],
)
def test_pairs_that_cannot_be_heard(changed, message):
    with pytest.raises(ValueError, match=message):
        extended(compared(), likeness=MORE | changed)


def test_a_fit_that_heard_of_no_likeness_hears_of_none():
    with pytest.raises(ValueError, match="the fit did not use likeness, .*: fit anew"):
        extended(CrowdData(None, SAID, item_ids=list("abcd")), likeness=MORE)
    with pytest.raises(ValueError, match="there are features, .*: leave it out"):
        extended(CrowdData(np.eye(4), SAID, item_ids=list("abcd")), likeness=MORE)


def warned(data: CrowdData, **tables: object) -> tuple[CrowdData, list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        data = extended(data, **tables)
    return data, [str(one.message) for one in found]


PAGED = SAID | {"page": [0]}
SORTED = {"page": [0, 0], "item": ["a", "b"], "worker": ["w", "w"], "group": [0, 0]}
CLASSES = {"item": ["a", "b"], "worker": ["w", "w"], "label": [1, 0]}


@pytest.mark.parametrize(
    ("before", "more", "message"),
    [
        (
            {"pairs": SAID},
            {"pairs": {"left": ["c", "b"], "right": ["d", "a"], "worker": "w", "label": [1, 1]}},
            "pairs row 1 (index 'two'): repeats an earlier answer",
        ),
        (
            {"pairs": SAID},
            {
                "placements": {
                    "page": [1, 1, 1],
                    "item": ["b", "c", "a"],
                    "worker": "w",
                    "group": [0, 1, 0],
                }
            },
            "placements row 2 (index 'three'): repeats an earlier answer",
        ),
        (
            {"placements": SORTED},
            {
                "pairs": {
                    "left": ["c", "d"],
                    "right": ["d", "c"],
                    "worker": "w",
                    "label": [1, 1],
                    "page": [1, 1],
                }
            },
            "pairs row 1 (index 'two'): repeats an earlier answer",
        ),
        (
            {"labels": CLASSES},
            {"labels": {"item": ["c", "a"], "worker": "w", "label": [1, 1]}},
            "labels row 1 (index 'two'): repeats an earlier answer",
        ),
        (
            {"labels": CLASSES},
            {"labels": {"item": ["c", "e"], "worker": ["w", None], "label": [1, None]}},
            "labels row 1 (index 'two'): label is missing; rows without a label are skipped",
        ),
        (
            {"pairs": SAID, "grades": [0, 1]},
            {"pairs": {"left": ["c", "c"], "right": ["d", "b"], "worker": "w", "label": [1, "x"]}},
            "pairs row 1 (index 'two'): label is not among the grades [0, 1]",
        ),
    ],
    ids=["pairs", "pages as pairs", "pairs as pages", "labels", "skipped", "grades"],
)
def test_rows_are_those_of_the_table_that_was_passed(before, more, message):
    ((name, columns),) = more.items()
    size = max(len(part) for part in columns.values() if isinstance(part, list))
    table = pd.DataFrame(columns, index=["one", "two", "three"][:size])
    _, (said,) = warned(CrowdData(None, **before, item_ids=list("abcd")), **{name: table})
    assert said.startswith(message)


def test_pages_and_pairs_at_once_are_told_apart():
    said = {"left": ["c", "a"], "right": ["b", "b"], "worker": "w", "label": 1}
    pages = {"page": [1, 1], "item": ["c", "b"], "worker": "w", "group": 0}
    data = CrowdData(None, SAID, item_ids=list("abcd"))
    _, found = warned(data, pairs=pd.DataFrame(said), placements=pd.DataFrame(pages))
    assert [one.split(":")[0] for one in found] == [
        "pairs row 1 (index 1)",
        "placements row 1 (index 1)",
    ]


@pytest.mark.parametrize(
    ("before", "more", "name"),
    [
        ({"pairs": PAGED}, {"placements": SORTED}, "placements"),
        ({"placements": SORTED}, {"pairs": PAGED}, "pairs"),
    ],
    ids=["pages", "pairs"],
)
def test_a_page_that_there_is_already_is_of_the_table_that_was_passed(before, more, name):
    with pytest.raises(ValueError, match=f"^{name}: page 0 was answered before"):
        extended(CrowdData(None, **before, item_ids=list("abcd")), **more)
