"""Tables as people and spreadsheets fill them in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.exchange import PlainCsv, read_answers, write_tasks

from .small_crowd import (
    CANNOT_TELL,
    ITEMS,
    LABELS,
    PAGES,
    SAID_OF_PAGES,
    expected_pages,
    same_tables,
)


def test_a_table_for_every_worker_comes_back_from_files(tmp_path):
    paths = write_tasks(tmp_path, PlainCsv(), PAGES, ITEMS)
    assert [path.name for path in paths] == ["questions-ann.csv", "questions-ben.csv"]
    for path in paths:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        table["group"] = [SAID_OF_PAGES[row.page].get(row.item, "") for row in table.itertuples()]
        # As a spreadsheet of another country saves it.
        table.to_csv(path, index=False, sep=";", encoding="utf-8-sig")
    same_tables(read_answers(*paths), {"placements": expected_pages()}, 1)


@pytest.mark.parametrize(
    "text",
    [
        "left,right,worker,label\na,b,ann,same,\na,c,ben,different,\n",
        "left,right,worker,label,,\na,b,ann,same,,\na,c,ben,different\n",
        ",,,\nleft,right,worker,label\n\na,b,ann,same\n,,,\na,c,ben,different\n,,,\n",
        ",left,right,worker,label\n0,a,b,ann,same\n1,a,c,ben,different\n",
        'left;right;worker;label\r\na;b; "ann";same\r\na;"c";ben;different\r\n',
        "sep=;\r\nleft;right;worker;label\r\na;b;ann;same\r\na;c;ben;different\r\n",
    ],
    ids=[
        "rows end in commas",
        "all end in commas",
        "blank rows",
        "row numbers",
        "semicolons",
        "sep=",
    ],
)
def test_tables_as_spreadsheets_save_them(text):
    table = PlainCsv().parse(text)
    assert table.columns[-4:].tolist() == ["left", "right", "worker", "label"]
    found = PlainCsv().answers(table).pairs
    assert found.to_numpy().tolist() == [["a", "b", "ann", "same"], ["a", "c", "ben", "different"]]


def test_a_cell_may_be_a_picture():
    picture = "data:image/png;base64," + "A" * 200_000
    (cell,) = PlainCsv().parse(f'item,text\n1,"{picture}"\n')["text"]
    assert cell == picture


def test_empty_rows_and_doubled_columns_in_memory():
    frame = pd.DataFrame({"item": ["a", None, ""], "worker": ["x", np.nan, " "], "label": "y"})
    frame.loc[1:, "label"] = None
    assert PlainCsv().answers(frame).labels.to_numpy().tolist() == [["a", "x", "y"]]
    assert len(PlainCsv().answers(frame).unanswered) == 0
    with pytest.raises(ValueError, match="have two columns 'label'"):
        PlainCsv().answers(pd.concat([frame, frame[["label"]]], axis=1))
    notes = pd.DataFrame([["p", "q"]] * 3, columns=["note", "note"])
    assert len(PlainCsv(worker="z").answers(pd.concat([frame, notes], axis=1)).labels) == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["same", "different", "same"], ["same", "different", "same"]),
        (["same", "same", "same"], ["same", "same", "same"]),
        (["same", "", "same"], ["same", "same"]),
        (["same", "can't tell", "same"], ["same", "same"]),
        (["", "different", ""], ["different"]),
        (["", "", ""], []),
    ],
)
def test_rows_of_one_person_about_one_question_are_several_answers(said, expected):
    pairs = pd.DataFrame({"left": list("aba"), "right": list("bab"), "worker": ["ann"] * 2 + ["x"]})
    answers = PlainCsv().answers(pairs.assign(label=said))
    assert answers.pairs["label"].tolist() == expected
    skipped = said[:2].count("") - (said[:2] == ["", ""])
    assert len(answers.pairs) + len(answers.unanswered) == 3 - skipped
    items = pd.DataFrame({"item": "a", "worker": pairs["worker"], "label": said})
    assert PlainCsv().answers(items).labels["label"].tolist() == expected


def test_questions_on_two_pages_are_two():
    pairs = pd.DataFrame({"left": ["a", "b"], "right": ["b", "a"], "worker": "ann", "page": [1, 2]})
    assert len(PlainCsv().answers(pairs.assign(label=["same", "different"])).pairs) == 2


def test_an_item_twice_on_a_page_is_refused():
    pages = pd.DataFrame({"page": 1, "item": list("aba"), "worker": "ann", "group": list("112")})
    with pytest.raises(ValueError, match="placements row 2"):
        CrowdData(None, **PlainCsv().answers(pages).tables())


def test_cells_without_an_answer_in_memory():
    table = PlainCsv().tasks(LABELS, ITEMS)
    for said in ([*CANNOT_TELL[1:3], "ant"], ["  ", None, "ant"], [np.nan, pd.NA, "ant"]):
        answers = PlainCsv().answers(table.assign(label=said))
        assert answers.labels["item"].tolist() == ["c"]
        assert answers.unanswered["item"].tolist() == ["a", "b"]


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_an_answer_about_no_item_is_refused(empty):
    table = {"item": ["a", empty], "worker": ["ann"] * 2, "label": ["x", "y"]}
    with pytest.raises(ValueError, match="row 2 has no item, but an answer: fill in the id"):
        PlainCsv().answers(pd.DataFrame(table))


def test_columns_in_other_capitals_are_told_of():
    table = {"Left": ["ant"], "right": ["bee"], "worker": ["ann"], "LABEL": ["same"]}
    with pytest.raises(ValueError, match="count: rename 'Left' to 'left', 'LABEL' to 'label'$"):
        PlainCsv().answers(table)
    table = {"left": ["ant"], "right": ["bee"], "Worker": ["ann"], "label": ["same"]}
    with pytest.raises(ValueError, match="column 'worker', but 'Worker', .* rename it to 'worker'"):
        PlainCsv().answers(table)
