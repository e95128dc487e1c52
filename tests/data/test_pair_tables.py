"""Labels of pairs, in numbers or words; answers that repeat, or contradict each other."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.pair_answers import repeated_answers

from .animals import crowd


@pytest.mark.parametrize(
    "labels",
    [
        [True, False, True],
        [1.0, 0.0, 1.0],
        pd.array([1, 0, 1], dtype="Int64"),
        pd.array([True, False, True], dtype="boolean"),
        np.array([True, 0, 1.0], dtype=object),
    ],
    ids=["bool", "float", "Int64", "boolean", "object"],
)
def test_labels_of_every_kind(labels):
    assert crowd(label=labels).answers.label.tolist() == [1.0, 0.0, 1.0]


def test_contradicting_answers_pass_silently():
    data = crowd(left=["ant", "bee", "dog"], right=["bee", "ant", "bee"], worker=["wu"] * 3)
    assert data.num_pairs == 3


def test_an_item_paired_with_itself():
    with pytest.raises(
        ValueError, match=r"row 2 \(index 'r2'\): left is 'dog', an item paired with it"
    ):
        crowd(right=["bee", "ant", "dog"])


@pytest.mark.parametrize("label", [2, -1, 0.5, "maybe", "2", float("inf")])
def test_a_label_that_is_neither_0_nor_1(label):
    labels = pd.Series([1, label, 0], dtype=object, index=["r0", "r1", "r2"])
    for given in (labels, labels.infer_objects()):
        with pytest.raises(ValueError, match=r"row 1 \(index 'r1'\): label is .*neither 1 nor 0"):
            crowd(label=given)


@pytest.mark.parametrize(
    "labels",
    [
        ["same", "different", "same"],
        [" Same", "DIFFERENT ", "1"],
        ["1.0", "0.0", "1"],
        ["true", "False", True],
        ["Yes", "no", "YES"],
        ["y", "N", "Y"],
        ["match", "distinct", "Match"],
        ["ja", "nein", "WAHR"],
        ["1,0", "0,0", "vrai"],
    ],
    ids=str,
)
def test_labels_in_words(labels):
    assert crowd(label=labels).answers.label.tolist() == [1, 0, 1]


def test_labels_that_are_probabilities_are_told_of_grades():
    with pytest.raises(ValueError, match="row 0 .*: label is 0.9, neither .* pass grades=5"):
        crowd(label=[0.9, 0.1, 1.0])
    with pytest.raises(ValueError, match="label is 2.5, neither 1 nor 0; write 1 .* different$"):
        crowd(label=[2.5, 0.1, 1.0])


def test_labels_that_are_grades_are_told_of_grades():
    with pytest.raises(ValueError, match="row 0 .*: label is 4, neither .* as grades=, such as "):
        crowd(label=[4, 1, 3])
    for codes in ([2, 1, 2], [-1, 1, 0], [99, 1, 0]):
        with pytest.raises(ValueError, match="neither 1 nor 0; write 1 .* different$"):
            crowd(label=codes)


def test_labels_from_minus_one_to_one_are_told_which_is_which():
    with pytest.raises(ValueError, match="if 1 is same and -1 different, pass label.replace"):
        crowd(label=[-1, 1, 1])


@pytest.mark.parametrize("classes", [[0, 1, 1], np.array(["a", "b", "a"])])
def test_classes_in_the_place_of_answers_are_told_of_known_labels(classes):
    with pytest.raises(ValueError, match="not an answer about a pair: pass known labels as known="):
        CrowdData(np.eye(3), classes)


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_a_label_that_is_missing_may_say_that_somebody_cannot_tell(missing):
    labels = [1, missing, 0]
    advice = """; if "can't tell" is .* "different" to "same" as grades=$"""
    with pytest.warns(UserWarning, match=f"pairs row 1 .*: label is missing; .* skipped{advice}"):
        data = crowd(label=labels)
    assert data.answers.label.tolist() == [1, 0]
    with pytest.raises(ValueError, match=f"every label is missing: .* leave pairs out{advice}"):
        crowd(label=[missing] * 3)
    pairs = crowd(label=[1, 1, 0]).pairs.assign(label=labels)
    heard = CrowdData(None, pairs, grades=[0, 1]).answers.label
    assert heard.isnan().tolist() == [False, True, False]


def test_an_answer_without_a_page_beside_others_gets_one_of_its_own():
    table = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    with pytest.raises(ValueError, match="row 1 .*page is .*every such answer a page of its own"):
        CrowdData(None, table | {"page": ["p", None]})
    assert CrowdData(None, table | {"page": ["p", "q"]}).page_ids.tolist() == ["p", "q"]


@pytest.mark.parametrize("words", ["can't tell", "Can\u2019t  tell ", "cannot tell", "Unsure"])
def test_a_label_that_says_so_may_be_left_out_or_be_a_grade(words):
    read = "leave such rows out, or read the file by exchange.read_answers, which does"
    advice = f"""different; {read}; or, if "can't tell" is .* "same" as grades=$"""
    with pytest.raises(ValueError, match=f"row 1 .*: label is .*, neither 1 nor 0; .*{advice}"):
        crowd(label=["same", words, "different"])
    pairs = crowd(label=[1, 1, 0]).pairs.assign(label=["same", words, "different"])
    heard = CrowdData(None, pairs, grades=["different", "same"]).answers.label
    assert heard.isnan().tolist() == [False, True, False]


def test_one_odd_word_among_many_is_the_one_that_is_named():
    words = ["same", "different"] * 300
    words[417] = "maybe"
    left, right = np.arange(600), np.arange(600) + 1
    pairs = pd.DataFrame({"left": left, "right": right, "worker": "wu", "label": words})
    with pytest.raises(ValueError, match=r"row 417 .*: label is 'maybe', neither 1 nor 0"):
        CrowdData(np.zeros((601, 1)), pairs)


def test_repeated_rows_are_kept_with_a_warning():
    again = {"left": ["ant", "bee", "ant"], "right": ["bee", "ant", "bee"]}
    with pytest.warns(UserWarning, match=r"row 1 \(index 'r1', 2 such rows\): repeats an earlier"):
        data = crowd(**again, worker=["wu"] * 3, label=[1, 1, 1])
    assert data.num_pairs == 3


def test_pairs_that_a_worker_had_twice_pass_silently_unless_a_part_of_the_table_is_there_twice():
    """Of 300 pairs of twenty items drawn at random, a few are drawn twice for a worker."""
    ends = np.random.default_rng(0).permuted(np.tile(np.arange(20), (300, 1)), axis=1)[:, :2]
    table = pd.DataFrame(ends, columns=["left", "right"]).assign(
        worker=np.arange(300) % 30, label=1
    )
    data = CrowdData(np.zeros((20, 1)), table)  # warnings are errors
    assert 0 < repeated_answers(data.answers).sum() <= 30
    joined = pd.concat([table, table[100:120]], ignore_index=True)
    with pytest.warns(UserWarning, match="such rows.: repeats an earlier answer"):
        CrowdData(np.zeros((20, 1)), joined)
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        CrowdData(np.zeros((20, 1)), pd.concat([table, table.sample(60, random_state=0)]))


@pytest.mark.parametrize(
    "difference",
    [
        {"worker": ["a", "b", "c"]},
        {"label": [1, 0, 1], "worker": ["a", "a", "b"]},
        {"page": [1, 2, 3]},
    ],
    ids=["worker", "label", "page"],
)
def test_rows_that_differ_are_no_repeats(difference):
    same = {"left": ["ant"] * 3, "right": ["bee"] * 3, "worker": ["wu"] * 3, "label": [1] * 3}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crowd(**(same | difference))
