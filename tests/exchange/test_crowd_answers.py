"""Answers as tables: ids that files made texts of, and who said something twice."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.exchange import Argilla, CrowdAnswers, PlainCsv, read_answers
from pyro_crowdclust.exchange.crowd_answers import GivenAnswer
from pyro_crowdclust.exchange.questions import read_questions

from .small_crowd import (
    ITEMS,
    PAGES,
    SAID_OF_PAGES,
    STUDIO,
    annotation,
    expected_pairs,
    in_argilla,
    in_label_studio,
)


def test_ids_of_files_are_texts_that_items_get_back():
    table = PlainCsv().parse("left,right,worker,label\n1,2,ann,same\n007,x,ann,same\n")
    answers = PlainCsv().answers(table)
    assert answers.for_items([1, 2, 7]).pairs["left"].tolist() == [1, "007"]
    assert answers.for_items(["1", "2"]).pairs["left"].tolist() == ["1", "007"]


@pytest.mark.parametrize("number", [int, float, np.float32])
def test_whole_numbers_are_known_with_and_without_a_point(number):
    pairs = expected_pairs().assign(left=["1", "1.0", "1.5"], right=["2", "2.0", "x"])
    found = CrowdAnswers.of_tables(pairs=pairs).for_items([number(1), number(2)]).pairs
    assert found["left"].tolist() == [1, 1, "1.5"]
    assert found["right"].tolist() == [2, 2, "x"]
    assert {type(one) for one in found["left"][:2]} == {number}


def test_ids_that_are_both_are_told_apart():
    pairs = expected_pairs().assign(left=["1", "1.0", "2"])
    assert CrowdAnswers.of_tables(pairs=pairs).for_items(["1", "1.0", 2]).pairs[
        "left"
    ].tolist() == ["1", "1.0", 2]


def test_ids_that_lost_their_outer_spaces_are_found_if_one_fits():
    ids = [" a", "b ", " b", "c", " c"]
    said = pd.DataFrame({"item": ["a", "b", "c", " c"], "worker": "ann", "label": "x"})
    answers = CrowdAnswers.of_tables(labels=said)
    assert answers.for_items(ids).labels["item"].tolist() == [" a", "b", "c", " c"]
    before = pd.DataFrame({"item": [" a", "b"], "worker": "ann ", "label": ["x ", "y"]})
    found = answers.for_data(CrowdData(None, labels=before)).labels
    assert found.iloc[0].tolist() == [" a", "ann ", "x "]


def test_workers_classes_and_grades_of_data_come_back_from_texts(tmp_path):
    """So that a fit on numbers goes on with what people wrote into a file."""
    rows = itertools.product(range(3), [7, 8])
    known = pd.DataFrame(rows, columns=["item", "worker"]).assign(label=[0, 0, 1, 1, 2, 1])
    data = CrowdData(None, labels=known)
    asked = PlainCsv().tasks(pd.DataFrame({"item": range(3), "worker": [7, 8, 9]}))
    (tmp_path / "said.csv").write_text(asked.assign(label=["1", "2.0", "0"]).to_csv(index=False))
    labels = read_answers(tmp_path / "said.csv").for_data(data).labels
    assert labels.to_numpy().tolist() == [[0, 7, 1], [1, 8, 2], [2, "9", 0]]
    longer = CrowdData(None, labels=pd.concat([known, labels[:2]]))
    assert (longer.num_items, longer.num_workers, longer.num_classes) == (3, 2, 3)
    pairs = pd.DataFrame({"left": [0], "right": [1], "worker": [7], "label": [2]})
    graded = CrowdData(None, pairs=pairs, grades=[0, 1, 2])
    said = CrowdAnswers.of_tables(pairs=pairs.astype(str)).for_data(graded).pairs
    pd.testing.assert_frame_equal(said, pairs, check_dtype=False)


def test_a_choice_of_same_or_different_is_no_grade():
    known = {"left": [0, 1], "right": [1, 2], "worker": [7, 7], "label": [2, 4]}
    graded = CrowdData(None, pairs=known, grades=[1, 2, 3, 4])
    questions = pd.DataFrame({"left": [0, 0], "right": [1, 2]})
    said = [
        GivenAnswer(question, "ann", answer)
        for question, answer in zip(read_questions(questions), ["same", "different"], strict=True)
    ]
    with pytest.raises(ValueError, match=r"row 0 .*label is 1, \"same\" .* grades \[1, 2, 3"):
        CrowdAnswers.of(said).for_data(graded)
    probable = CrowdData(None, pairs={**known, "label": [0.1, 0.9]}, grades=5)
    assert CrowdAnswers.of(said).for_data(probable).pairs["label"].tolist() == [1, 0]
    filled = PlainCsv().answers(PlainCsv().tasks(questions).assign(worker="ann", label=["4", "1"]))
    assert filled.for_data(graded).pairs["label"].tolist() == [4, 1]


def test_pages_that_several_sort_are_one_for_each():
    tasks = STUDIO.tasks(PAGES.query("page == 'q'"), ITEMS)
    (task,) = in_label_studio(tasks, [SAID_OF_PAGES["q"]])
    other = annotation("ann", "groups", "ranker", {"ranker": {"1": ["d", "e"]}})
    task["annotations"].append(other)
    found = STUDIO.answers([task]).placements
    assert found["page"].unique().tolist() == ["q of ben", "q of ann"]
    assert CrowdData(None, placements=found).placements.num_pages == 2


def test_a_pair_in_the_other_order_is_the_same_question():
    twice = pd.DataFrame({"left": ["a", "b"], "right": ["b", "a"], "worker": "ann"})
    export = in_label_studio(STUDIO.tasks(twice), ["same", "different"])
    assert STUDIO.answers(export).pairs["label"].tolist() == [0]
    records = in_argilla(Argilla().tasks(twice), ["same", "can't tell"])
    assert Argilla().answers(records).tables() == {}


def test_pages_and_single_pairs_are_pairs_together():
    """As ``CrowdData`` takes them; ``update`` of a fit of sorted pages makes these pages again."""
    pages = pd.DataFrame(
        {"page": "p", "item": list("abcd"), "worker": "ann", "group": [1, 1, 2, 3]}
    )
    single = expected_pairs()
    answers = CrowdAnswers.of_tables(pairs=single, placements=pages)
    assert repr(answers) == f"CrowdAnswers({len(single)} pairs, 4 placements, 0 unanswered)"
    data = CrowdData(None, **answers.tables())
    assert data.num_pairs == 6 + len(single)
    assert f"in 1 page sorted into groups and {len(single)} single pairs" in repr(data)
    of_page = data.pairs.query("page == 'p'")
    assert of_page["label"].tolist() == [1, 0, 0, 0, 0, 0]
    labelled = CrowdAnswers.of_tables(pairs=single, labels=pd.DataFrame({"item": ["a"]}))
    assert labelled.tables().keys() == {"pairs", "labels"}


def test_a_page_that_was_saved_again_counts_once(tmp_path):
    """As the HTML page saves all answers whenever somebody goes on with it."""
    first = "page,item,worker,group\n1,a,ann,1\n1,b,ann,2\n1,c,ann,\n"
    (tmp_path / "one.csv").write_text(first, encoding="utf-8")
    (tmp_path / "two.csv").write_text(f"{first}2,a,ann,1\n2,d,ann,1\n", encoding="utf-8")
    said = r"'ann' sorted page '1' in two of the files in the same way \(1 such page\)"
    with pytest.warns(UserWarning, match=said):
        both = read_answers(tmp_path / "one.csv", tmp_path / "two.csv")
    later = read_answers(tmp_path / "two.csv")
    pd.testing.assert_frame_equal(
        both.placements.reset_index(drop=True), later.placements.reset_index(drop=True)
    )
    assert both.unanswered["item"].tolist() == ["c"]
    assert both.placements.index.tolist()[:3] == ["one.csv line 2", "one.csv line 3"] + [
        "two.csv line 5"
    ]


def test_a_page_in_two_files_in_two_ways(tmp_path):
    for name, group in (("one.csv", 1), ("two.csv", 2)):
        text = f"page,item,worker,group\n1,a,ann,1\n1,b,ann,{group}\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="two of the files, in two ways: leave out the older one$"):
        read_answers(tmp_path / "one.csv", tmp_path / "two.csv")


def test_the_index_says_where_in_which_file_an_answer_is(tmp_path):
    """With answers from a tool beside them, which have no lines, rows are numbered."""
    for name in ("one.csv", "two.csv"):
        text = f"item,worker,label\n\n1,{name},dog\n2,{name},\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    both = read_answers(tmp_path / "one.csv", tmp_path / "two.csv")
    assert both.labels.index.tolist() == ["one.csv line 3", "two.csv line 3"]
    assert both.unanswered.index.tolist() == ["one.csv line 4", "two.csv line 4"]
    of_tool = CrowdAnswers.of_tables(labels=both.labels.reset_index(drop=True))
    assert CrowdAnswers.joined([both, of_tool]).labels.index.tolist() == [0, 1, 2, 3]
