"""Training data of dedupe: what labels train, and records with their ids."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.exchange import Dedupe

from .small_crowd import ITEMS, PAIRS


@pytest.mark.parametrize(
    ("export", "message"),
    [
        ({"match": []}, "the training data: it lacks match or distinct"),
        ({"match": [3], "distinct": []}, "match 1 is 3, but must be a pair of records"),
        ({"match": [], "distinct": [({"x": 1}, {})]}, "distinct 1, record 1 has no field 'item'"),
    ],
)
def test_errors_in_training_data(export, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Dedupe().answers(export)


@pytest.mark.parametrize(
    "labels",
    [["same", "different"], ["1", "0"], [True, False], ["Yes", 0.0], np.array([1, 0])],
    ids=str,
)
def test_training_is_what_labels_say(labels):
    pairs = PAIRS[:2].assign(label=labels)
    training = Dedupe().training(pairs, ITEMS)
    assert training == {
        "match": Dedupe().tasks(PAIRS[:1], ITEMS)["uncertain"],
        "distinct": Dedupe().tasks(PAIRS[1:2], ITEMS)["uncertain"],
    }
    said = CrowdData(None, pairs=pairs).answers.label.tolist()
    assert [len(training["match"]), len(training["distinct"])] == [sum(said), 2 - sum(said)]


def test_ids_of_records_are_not_overwritten():
    """By a column of their own that has the name of the field that is to hold the ids."""
    goods = pd.DataFrame({"item": ["x", "y"], "price": [1, 2]}, index=["a", "b"])
    with pytest.raises(ValueError, match=r"item 'a' has 'x' in column 'item', .*Dedupe\(id_field="):
        Dedupe().tasks(PAIRS[:1], goods)
    form = Dedupe(id_field="id")
    answers = form.answers({"match": form.tasks(PAIRS[:1], goods)["uncertain"], "distinct": []})
    assert answers.pairs[["left", "right"]].to_numpy().tolist() == [["a", "b"]]
    same = goods.assign(item=goods.index)
    assert Dedupe().tasks(PAIRS[:1], same)["uncertain"][0][0] == {"item": "a", "price": 1}


def test_who_cannot_tell_trains_nothing():
    training = Dedupe().training(PAIRS.assign(label=["can't tell", None, "", "no"]))
    assert [len(training["match"]), len(training["distinct"])] == [0, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.3, 1.0], "pairs row 0 (index 0): label is 0.3, neither 1 nor 0; write 1 or same, 0 or"),
        ([0.3, 1.0], "different; dedupe has no grades, so convert them to 1 and 0"),
        (["same", "perhaps"], "pairs row 1 (index 1): label is 'perhaps', neither 1 nor 0"),
    ],
)
def test_training_of_grades_is_refused(labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Dedupe().training(PAIRS[:2].assign(label=labels))
