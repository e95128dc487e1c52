"""How alike the items of pairs are: what is read, refused, cut and kept in a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.data.some_items import some_items
from pyro_crowdclust.results.saved_data import data_fields, data_of

SAID = {"left": ["a", "b"], "right": ["b", "c"], "worker": ["w", "w"], "label": [1, 0]}
ALIKE = {"left": ["c", "a", "b"], "right": ["a", "b", "d"], "texts": [0.1, 0.9, 0.4], "maker": 1}


def data() -> CrowdData:
    return CrowdData(None, SAID, likeness=pd.DataFrame(ALIKE))


def test_pairs_are_read_in_positions_with_the_names_of_their_numbers():
    found = data()
    assert [*found.item_ids] == ["a", "b", "c", "d"]  # nobody was asked about d
    assert found.likeness.items.tolist() == [[0, 2], [0, 1], [1, 3]]
    assert [*found.likeness_names] == ["texts", "maker"]
    np.testing.assert_array_equal(found.likeness.values, [[0.1, 1], [0.9, 1], [0.4, 1]])
    assert (found.likeness.num_pairs, found.likeness.num_numbers) == (3, 2)
    assert repr(found).endswith("likeness of 3 pairs)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"texts": ["x", "y", "z"]}, "likeness column 'texts' holds .* must hold numbers"),
        (
            {"texts": [0.1, np.nan, 0.3]},
            "likeness row 1 .*texts is nan, which is not a finite number",
        ),
        ({"right": ["a", "b", "b"]}, "likeness row 2 .*paired with itself"),
        ({"right": ["a", "b", "a"]}, r"likeness row 2 .* repeats the pair \('b', 'a'\)"),
        ({"left": [None, "a", "b"]}, "likeness row 0 .*left is .*missing"),
    ],
)
def test_what_says_nothing_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        CrowdData(None, SAID, likeness=ALIKE | change)


def test_unknown_items_and_tables_without_numbers_are_refused():
    with pytest.raises(ValueError, match="likeness row 2 .*right is 'd'"):
        CrowdData(None, SAID, likeness=ALIKE, item_ids=["a", "b", "c"])
    with pytest.raises(ValueError, match="no column but left and right"):
        CrowdData(None, SAID, likeness={"left": ["a"], "right": ["b"]})
    with pytest.raises(ValueError, match="likeness are given without pairs"):
        CrowdData(np.eye(2), likeness=ALIKE)


def test_some_items_have_the_pairs_among_them():
    part = some_items(data(), torch.tensor([0, 2, 3]))
    assert part.likeness.items.tolist() == [[0, 1]]
    assert part.likeness.values.tolist() == [[0.1, 1.0]]
    assert some_items(data(), torch.tensor([2, 3])).likeness is None


def test_more_answers_leave_it_as_it_is():
    more = {"left": ["c"], "right": ["d"], "worker": ["v"], "label": [1]}
    after = extended(data(), pairs=more)
    assert after.num_pairs == 3
    assert after.likeness.items.tolist() == data().likeness.items.tolist()
    assert [*after.likeness_names] == ["texts", "maker"]


def test_a_file_keeps_it_and_older_files_have_none():
    again = data_of(data_fields(data()))
    np.testing.assert_array_equal(again.likeness.values, data().likeness.values)
    assert [*again.likeness_names] == ["texts", "maker"]
    fields = data_fields(data())
    for name in ("likeness", "likeness_names"):
        del fields[name]
    assert data_of(fields).likeness is None


@pytest.mark.parametrize(
    "values", [torch.zeros(3, 1).double(), torch.full((3, 2), np.inf).double()]
)
def test_a_file_that_was_tampered_with_is_refused(values):
    fields = data_fields(data())
    fields["likeness"]["values"] = values
    with pytest.raises(ValueError, match="likeness.values"):
        data_of(fields)
