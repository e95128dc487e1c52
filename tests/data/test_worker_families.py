"""One answer of a family, against votes counted one by one."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import one_answer_per_family

FAMILIES = {"a": "llama", "b": "llama", "c": "llama", "d": "gpt", "e": "gpt"}


def labels_table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "item": rng.integers(8, size=90),
            "worker": rng.choice(list("abcdefg"), size=90),
            "label": rng.choice(["x", "y", "z"], size=90),
        }
    )


def counted(table: pd.DataFrame, keys: list[tuple[object, ...]]) -> dict[tuple, str]:
    """What the votes of every key and family are for, where one label has the most."""
    votes = defaultdict(Counter)
    for key, worker, label in zip(keys, table["worker"], table["label"], strict=True):
        if not pd.isna(label):
            votes[*key, FAMILIES.get(worker, worker)][label] += 1
    first_two = {key: [*count.most_common(2), (None, 0)] for key, count in votes.items()}
    return {key: one for key, ((one, most), (_, second), *_) in first_two.items() if most > second}


@pytest.mark.parametrize("seed", range(3))
def test_a_family_says_what_most_of_its_workers_say(seed):
    table = labels_table(seed)
    found = one_answer_per_family(table, FAMILIES)
    assert list(found.columns) == ["item", "worker", "label"]
    said = dict(zip(zip(found["item"], found["worker"], strict=True), found["label"], strict=True))
    assert said == counted(table, [(item,) for item in table["item"]])
    assert len(said) == len(found)


def test_families_may_be_a_column_and_a_series():
    table = labels_table(3)
    wanted = one_answer_per_family(table, FAMILIES)
    column = table.assign(model=table["worker"].map(FAMILIES), note="of no use")
    pd.testing.assert_frame_equal(one_answer_per_family(column, "model"), wanted)
    pd.testing.assert_frame_equal(one_answer_per_family(table, pd.Series(FAMILIES)), wanted)


def test_without_families_every_worker_answers_for_itself():
    table = labels_table(4).drop_duplicates(["item", "worker"])
    found = one_answer_per_family(table, {})
    wanted = table.sort_values(["item", "worker"], ignore_index=True)
    pd.testing.assert_frame_equal(found, wanted)


def test_the_two_items_of_a_pair_have_no_order():
    rng = np.random.default_rng(5)
    ends = np.array([rng.choice(4, 2, replace=False) for _ in range(60)])
    pairs = pd.DataFrame(
        {
            **{"left": ends[:, 0], "right": ends[:, 1]},
            "worker": rng.choice(list("abcdefg"), size=60),
            "label": rng.choice([0.0, 1.0, np.nan], size=60),
        }
    )
    found = one_answer_per_family(pairs, FAMILIES)
    keys = [tuple(sorted(pair)) for pair in zip(found["left"], found["right"], strict=True)]
    who = [(*key, worker) for key, worker in zip(keys, found["worker"], strict=True)]
    said = dict(zip(who, found["label"], strict=True))
    assert said == counted(pairs, [tuple(sorted(pair)) for pair in ends.tolist()])
    assert len(said) == len(found)
    assert CrowdData(None, pairs=found).num_workers == 4


@pytest.mark.parametrize(
    "labels", [[1, "same", "yes", True], ["Same ", "1.0", "1", "no"], ["1", 1.0, None, " "]]
)
def test_labels_of_pairs_are_read_whatever_they_are_written_as(labels):
    pairs = pd.DataFrame({"left": [0, 1, 0, 0], "right": [1, 0, 1, 1], "worker": list("abcd")})
    found = one_answer_per_family(pairs.assign(label=labels), dict.fromkeys("abc", "llama"))
    own = found[found["worker"] == "llama"]
    assert own["label"].tolist() == labels[:1]
    assert CrowdData(None, pairs=own).answers.label.tolist() == [1.0]
    assert len(found) == 1 + (labels[3] in (True, "no"))


def test_grades_stay_as_they_are_written():
    grades = ["different", "alike", "same"]
    pairs = pd.DataFrame({"left": 0, "right": range(1, 4), "worker": "a", "label": grades})
    for table in (pairs, pairs[pairs["label"] != "alike"]):
        found = one_answer_per_family(table, {"a": "llama"})
        assert found["label"].tolist() == table["label"].tolist()
        assert CrowdData(None, pairs=found, grades=grades).num_pairs == len(table)


def test_blank_cells_are_missing():
    table = pd.DataFrame({"item": 0, "worker": list("abcde"), "label": ["x", "y", "y", " ", ""]})
    wanted = one_answer_per_family(table, {"c": "llama", "d": "llama", "e": "llama"})
    assert wanted["worker"].tolist() == ["a", "b", "llama"]
    column = table.assign(model=["", " ", "llama", "llama", "llama"])
    pd.testing.assert_frame_equal(one_answer_per_family(column, "model"), wanted)
    families = {"a": "", "b": " ", "c": "llama", "d": "llama", "e": "llama"}
    pd.testing.assert_frame_equal(one_answer_per_family(table, families), wanted)


def test_a_class_that_is_a_number_and_a_text_is_refused():
    table = {"item": [0, 0], "worker": ["a", "b"], "label": [1, "1"]}
    with pytest.raises(ValueError, match="labels 1 .int. and '1' .str. are written alike"):
        one_answer_per_family(table, {"a": "llama", "b": "llama"})


@pytest.mark.parametrize("family", [["a"], None, 3])
def test_families_that_are_none(family):
    with pytest.raises(ValueError, match="family is .*, but must be the name of a column, or a ma"):
        one_answer_per_family(labels_table(0), family)


def test_a_worker_of_two_families_and_a_taken_name_are_errors():
    table = labels_table(6)
    table["model"] = np.where(table.index < 45, "llama", "gpt")
    with pytest.raises(ValueError, match="is in two families"):
        one_answer_per_family(table, "model")
    with pytest.raises(
        ValueError, match="'g' is the name of a family and of a worker who is not in it"
    ):
        one_answer_per_family(table, {"a": "g", "b": "g"})
    with pytest.raises(ValueError, match="answers have no column 'modle'"):
        one_answer_per_family(table, "modle")
    with pytest.raises(ValueError, match="no worker of the answers .'f', .* has a family"):
        one_answer_per_family(table, {"A": "g", "B": "g"})


def test_what_is_no_table_is_an_error_in_words():
    data = CrowdData(None, labels={"item": [0, 0], "worker": list("ab"), "label": list("xy")})
    with pytest.raises(ValueError, match="answers are not a table"):
        one_answer_per_family(data, {"a": "g"})
