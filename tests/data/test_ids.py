"""Ids of items: one for each, no two alike."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

from pyro_crowdclust import cluster
from pyro_crowdclust.data import CrowdData

from .animals import features


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            ["ant", "bee", "ant", "bee"],
            r"item_ids row 2 is 'ant', which is there already \(2 such rows\)",
        ),
        (["ant", "bee", None, "dog"], "item_ids row 2 is .*, which is missing"),
        (["ant", "bee"], "2 item_ids for 4 rows"),
        ([], "item_ids are empty"),
        ([["ant"], ["bee"], ["cat"], ["dog"]], "item_ids must be a flat list"),
        (
            "ants",
            "item_ids must be a flat list of .*, but is 'ants': pass a list, even for a single one",
        ),
    ],
)
def test_item_ids_that_are_rejected(ids, message):
    with pytest.raises(ValueError, match=message):
        CrowdData(features(), item_ids=ids)


def test_a_data_frame_with_a_repeated_index():
    with pytest.raises(ValueError, match="row 1 is 'a', which is there already"):
        CrowdData(pd.DataFrame({"x": [1, 2]}, index=["a", "a"]))


@pytest.mark.parametrize("name", ["pairs", "labels"])
def test_an_id_that_occurs_once_where_others_occur_often_may_be_mistyped(name):
    photos = [f"photo {letter}" for letter in "abcdef"]
    if name == "pairs":
        table = pd.DataFrame([*itertools.combinations(photos, 2)], columns=["left", "right"])
        table = table.assign(worker="ann", label=[1, 0, 0] * 5)
        item = "right"
    else:
        table = pd.DataFrame([*itertools.product(photos, "vwxyz")], columns=["item", "worker"])
        table = table.assign(label=["x", "y", "x"] * 10)
        item = "item"
    CrowdData(None, **{name: table})  # no warning
    wrong = table.copy()
    wrong.loc[7, item] = "foto d"
    message = r"1 item \('foto d'\) occurs once .* others about 5 times: .* mean 'photo d'\?"
    with pytest.warns(UserWarning, match=message):
        assert CrowdData(None, **{name: wrong}).num_items == 7
    CrowdData(None, **{name: wrong.iloc[[0, 1, 7, 8]]})  # where all occur seldom
    with pytest.raises(ValueError, match="'foto d', not among the item ids"):
        CrowdData(None, item_ids=photos, **{name: wrong})


def test_no_items():
    """Of the arguments that the message names, pairs and placements are those of ``cluster``."""
    message = (
        "there are no items: pass features, or answers, which are pairs or placements; "
        "CrowdData also takes labels or item_ids$"
    )
    for call in (CrowdData, cluster):
        with pytest.raises(ValueError, match=message):
            call(None)
