"""Ids and labels that are written alike: refused where types differ, told of where texts do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.columns import Columns

SAID = {"item": [0, 1, 2], "worker": ["ann"] * 3, "label": list("xyx")}
ANSWERS = {"left": [0, 1], "right": [2, 3], "worker": ["ann", "ben"], "label": [1, 0]}

TABLES = {
    "workers": lambda pair: CrowdData(np.eye(4), ANSWERS | {"worker": pair}),
    "labels": lambda pair: CrowdData(None, labels=SAID | {"label": [*pair, "x"]}),
    "known labels": lambda pair: CrowdData(np.eye(3), known=[*pair, None]),
    "item": lambda pair: CrowdData(None, ANSWERS | {"left": pair}),
    "feature column 'x':": lambda pair: Columns.of(pd.DataFrame({"x": [*pair, "no"]})),
}


@pytest.mark.parametrize(
    ("pair", "types"),
    [
        ((1, "1"), "int.*str"),
        (("2", 2.0), "(int|float).*str"),
        ((np.int64(3), " 3 "), "int.*str"),
        (("True", True), "bool.*str"),
        (("1.0", 1), "int.*str"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("what", ["workers", "labels", "known labels", "item"])
def test_a_text_and_a_number_that_are_written_alike_are_refused(what, pair, types):
    message = rf"^{what}.* \(({types})\) are written alike, .*: make all of them texts .*astype"
    with pytest.raises(ValueError, match=message):
        TABLES[what](pair)


def test_categories_that_are_written_alike_are_refused():
    with pytest.raises(ValueError, match=r"True .bool. and .True. .str. are written alike"):
        TABLES["feature column 'x':"](["True", True])


def test_ids_of_items_with_features():
    with pytest.raises(ValueError, match=r"item ids 1 .int. and '1' .str. are written alike"):
        CrowdData(np.eye(3), item_ids=[1, "1", 2])


def test_workers_of_two_tables():
    labels = SAID | {"worker": ["1", "2", "2"]}
    with pytest.raises(ValueError, match=r"workers 1 .int. and '1' .str. are written alike"):
        CrowdData(np.eye(4), ANSWERS | {"worker": [1, 2]}, labels=labels)


COMPOSED = "K\u00e4se"
DECOMPOSED = "Ka\u0308se"


@pytest.mark.parametrize("what", ["workers", "labels", "known labels", "item"])
def test_texts_that_encode_their_accents_differently(what):
    message = rf"^{what}s? 'K.*se' and 'K.*se' look the same, but encode their accents differently"
    with pytest.warns(UserWarning, match=message):
        TABLES[what]((COMPOSED, DECOMPOSED))


def test_an_unknown_id_that_looks_like_a_known_one():
    said = {"left": [DECOMPOSED], "right": ["x"], "worker": ["ann"], "label": [1]}
    message = f"left is '{DECOMPOSED}', not among .*; the known '{COMPOSED}' looks the same, but "
    with pytest.raises(ValueError, match=f"{message}encodes its accents differently: .*NFC"):
        CrowdData(np.eye(3), said, item_ids=["x", "y", COMPOSED])


@pytest.mark.parametrize("pair", [("Ann", "ann "), ("a  b", "a b"), ("1", "1.0")], ids=repr)
@pytest.mark.parametrize("what", ["workers", "labels", "known labels", "item"])
def test_texts_that_are_nearly_the_same_are_told_of(what, pair):
    message = rf"^{what}s? '.*' and '.*' differ only in case, spaces or a final .0"
    with pytest.warns(UserWarning, match=message) as told:
        TABLES[what](pair)
    assert all(repr(one) in str(told[0].message) for one in pair)


def test_categories_that_are_nearly_the_same_are_told_of():
    with pytest.warns(
        UserWarning, match="column 'x': 'Yes' and 'yes ' differ only in case, spaces"
    ):
        TABLES["feature column 'x':"](["Yes", "yes "])


def test_all_that_are_nearly_the_same_are_counted():
    workers = ["ann", "Ann", "ben", "ben ", "cem", "ANN"]
    answers = {"left": [0] * 6, "right": [1] * 6, "worker": workers, "label": [1] * 6}
    with pytest.warns(
        UserWarning, match="workers 'ANN' and 'Ann', and 2 more pairs, differ only in"
    ):
        CrowdData(np.eye(2), answers)


@pytest.mark.parametrize(
    "values",
    [[1, "a"], [1, 1.0], ["1.10", "1.1"], ["007", "7"], [True, 1], ["1.5", 1], [("a", 1), "a"]],
    ids=repr,
)
def test_what_differs_is_left_alone(values):
    answers = ANSWERS | {"worker": pd.Series(values, dtype=object)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = CrowdData(np.eye(4), answers)
    assert data.pairs["worker"].tolist() == values
