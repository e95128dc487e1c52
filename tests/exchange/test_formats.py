"""Every format: questions out, answers back, and the same tables whichever way they went."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from pyro_crowdclust.exchange import (
    FORMATS,
    Argilla,
    CrowdKit,
    Dedupe,
    Format,
    HtmlPage,
    LabelStudio,
    PlainCsv,
    Prodigy,
    read_answers,
    write_tasks,
)

from .small_crowd import (
    ITEMS,
    LABELS,
    PAGES,
    PAIRS,
    SAID_OF_LABELS,
    SAID_OF_PAGES,
    SAID_OF_PAIRS,
    STUDIO,
    expected_labels,
    expected_pages,
    expected_pairs,
    in_argilla,
    in_dedupe,
    in_label_studio,
    in_prodigy,
    in_table,
    same_tables,
)


@pytest.mark.parametrize(
    ("form", "answered", "workers"),
    [
        (STUDIO, in_label_studio, ("ann", "ben", "ben")),
        (Prodigy(), in_prodigy, ("set-ann", "set-ben", "set-ben")),
        (Argilla(), in_argilla, ("ann", "ben", "ben")),
        (Dedupe(worker="ann"), in_dedupe, ("ann", "ann", "ann")),
        (PlainCsv(), in_table, ("ann", "ben", "ben")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Format) else "",
)
def test_pairs_come_back(form, answered, workers):
    export = answered(form.tasks(PAIRS, ITEMS), SAID_OF_PAIRS)
    same_tables(form.answers(export), {"pairs": expected_pairs(workers)}, 1)


@pytest.mark.parametrize(
    ("form", "answered", "said"),
    [(STUDIO, in_label_studio, SAID_OF_PAGES.values()), (PlainCsv(), in_table, SAID_OF_PAGES)],
    ids=["LabelStudio", "PlainCsv"],
)
def test_pages_come_back(form, answered, said):
    export = answered(form.tasks(PAGES, ITEMS), said)
    same_tables(form.answers(export), {"placements": expected_pages()}, 1)


@pytest.mark.parametrize(
    ("form", "answered"),
    [
        (STUDIO, in_label_studio),
        (Argilla(), in_argilla),
        (PlainCsv(), in_table),
    ],
    ids=["LabelStudio", "Argilla", "PlainCsv"],
)
def test_labels_come_back(form, answered):
    export = answered(form.tasks(LABELS, ITEMS), SAID_OF_LABELS)
    same_tables(form.answers(export), {"labels": expected_labels()}, 1)


@pytest.mark.parametrize("name", FORMATS)
def test_questions_may_be_a_dictionary(name, tmp_path):
    table = PAGES if name == "html" else PAIRS
    given = {column: values.tolist() for column, values in table.items()}
    found, wanted = (FORMATS[name].tasks(questions, ITEMS) for questions in (given, table))
    assert found.equals(wanted) if isinstance(wanted, pd.DataFrame) else found == wanted
    assert FORMATS[name].files(given, ITEMS) == FORMATS[name].files(table, ITEMS)
    assert write_tasks(tmp_path, FORMATS[name], given, ITEMS)


@pytest.mark.parametrize("form", [PlainCsv(), HtmlPage()])
def test_answers_may_be_a_dictionary(form):
    table = in_table(PlainCsv().tasks(PAGES, ITEMS), SAID_OF_PAGES)
    given = {column: values.tolist() for column, values in table.items()}
    same_tables(form.answers(given), {"placements": expected_pages()}, 1)
    with pytest.raises(ValueError, match="answers are not a table but int"):
        form.answers(3)


@pytest.mark.parametrize("name", FORMATS)
def test_files_hold_what_the_verbs_say(name, tmp_path):
    form = FORMATS[name]
    assert isinstance(form, Format)
    questions = PAGES if name == "html" else PAIRS
    paths = write_tasks(tmp_path / "tasks", form, questions, ITEMS)
    assert {path.name for path in paths} == {path.name for path in (tmp_path / "tasks").iterdir()}
    if name not in ("html", "csv"):  # which have a file for every worker
        parsed = form.parse(paths[0].read_text(encoding="utf-8"))
        tasks = form.tasks(questions, ITEMS)
        if isinstance(tasks, pd.DataFrame):
            pd.testing.assert_frame_equal(parsed, tasks, check_dtype=False)
        else:
            assert json.loads(json.dumps(unmarked(parsed))) == json.loads(json.dumps(tasks))


def unmarked(value):
    """Without the marks that dedupe puts at tuples."""
    if isinstance(value, dict) and "__class__" in value:
        return value["__value__"]
    if isinstance(value, dict):
        return {name: unmarked(one) for name, one in value.items()}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


def test_models_are_workers_unless_they_are_not_wanted():
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    value = {"choices": ["different"]}
    result = {"from_name": "answer", "type": "choices", "value": value}
    task["predictions"] = [{"model_version": "judge 2", "result": [result], "score": 0.5}]
    assert STUDIO.answers([task]).pairs["worker"].tolist() == ["ann", "judge 2"]
    assert STUDIO.answers([task]).pairs["label"].tolist() == [1, 0]
    assert len(LabelStudio(predictions=False).answers([task]).pairs) == 1
    # A plain export has no more than their numbers.
    task["predictions"] = [17]
    with pytest.warns(UserWarning, match="task 1: the export has only the numbers of predictions"):
        assert STUDIO.answers([task]).pairs["worker"].tolist() == ["ann"]
    assert len(LabelStudio(predictions=False).answers([task]).pairs) == 1
    record = in_argilla(Argilla().tasks(PAIRS[:1]), ["same"])[0]
    record["suggestions"] = {"answer": {"value": "different", "score": None, "agent": "judge"}}
    assert Argilla().answers([record]).pairs["worker"].tolist() == ["ann", "judge"]
    assert len(Argilla(suggestions=False).answers([record]).pairs) == 1


@pytest.mark.parametrize("status", ["draft", "discarded"])
def test_a_response_that_was_not_submitted_is_no_answer(status):
    records = in_argilla(Argilla().tasks(PAIRS[:2]), ["same", "different"])
    for record, of_record in zip(records, ("submitted", status), strict=True):
        record["responses"]["answer"][0]["status"] = of_record
    found = Argilla().answers(records)
    assert found.pairs["label"].tolist() == [1]
    assert len(found.unanswered) == 1


def broken(change):
    """A file of Label Studio with one thing changed."""
    export = in_label_studio(STUDIO.tasks(PAIRS, ITEMS), SAID_OF_PAIRS)
    change(export[1])
    return json.dumps(export)


WRONG = {
    "tasks.json": [
        ("{", "line 1 is not valid JSON"),
        ("{}", "the file is an object, but must be a list of tasks"),
        ("[1]", "task 1 is 1, but must be an object"),
        (broken(lambda task: task.pop("data")), "task 2 has no field 'data'; it has ['id'"),
        (
            broken(lambda task: task.update(data={"x": 1})),
            "it does not contain the question",
        ),
        (
            broken(lambda task: task["annotations"][0].pop("completed_by")),
            "task 2, annotation 1 has no field 'completed_by'",
        ),
        (
            broken(lambda task: task["annotations"][0].update(completed_by="ann")),
            "task 2, annotation 1: field 'completed_by' is 'ann', but must be an integer or an obj",
        ),
        (
            broken(lambda task: task["annotations"][0].update(result=3)),
            "task 2, annotation 1: field 'result' is 3, but must be a list",
        ),
        (
            broken(lambda task: task["annotations"][0]["result"][0].update(from_name="kind")),
            "task 2, annotation 1: no result is from the control 'answer', but from ['kind']",
        ),
        (
            broken(lambda task: task["annotations"][0]["result"][0].update(value={"choices": []})),
            "task 2, annotation 1, result 1, value: field 'choices' has 0 choices",
        ),
        (
            broken(
                lambda task: task["annotations"][0]["result"][0].update(value={"choices": ["eh"]})
            ),
            "about {'left': 'a', 'right': 'c', 'worker': '8'}: the answer is 'eh', but must be",
        ),
    ],
    "answers.jsonl": [
        ('{"answer": "accept"}\n{', "line 2 is not valid JSON"),
        ('{"answer": "accept"}', "record 1 has no field 'crowdclust'"),
        (
            '{"answer": "yes", "crowdclust": {"left": 1, "right": 2}}',
            "record 1: field 'answer' is 'yes', but must be accept, reject or ignore",
        ),
        (
            '{"answer": "accept", "crowdclust": {"left": 1.5, "right": 2}}',
            "record 1: left is 1.5, but ids in files are texts or integers",
        ),
    ],
    "answers.csv": [
        ("item,worker\n1,ann\n", "must include those of one kind of answers"),
        ("item,label\n1,dog\n", "there is no column 'worker'"),
        (
            "item,worker,label\n1,ann,dog\n,,\n2,,dog\n",
            "line 4 has no worker (item '2'): fill it in, or give PlainCsv(worker=)",
        ),
        ("", "the table is empty: it must begin with a line of column names"),
        (",,\n", "the table is empty: it must begin with a line of column names"),
        ("item,worker,label,label\n1,ann,dog,cat\n", "the table has two columns 'label'"),
        (
            "item,worker,label\n1,ann,dog\n2,ann,dog,cat\n",
            "line 3 has 4 values, but the first line has 3 names: name every column",
        ),
        (
            'item,worker,label\n1,ann,"dog\n2,ann,cat\n',
            "line 3 is not a row of a table",
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [(name, text, message) for name, cases in WRONG.items() for text, message in cases],
)
def test_errors_say_file_record_and_field(name, text, message, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{name}: ") + ".*" + re.escape(message)):
        read_answers(tmp_path / name)


def test_a_file_of_another_tool_is_told_of_formats(tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text('{"match": [], "distinct": []}', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"a list of tasks; it is read as LabelStudio, .* \(form=\)"
    ):
        read_answers(path)
    with pytest.raises(ValueError, match=r"must be a list of tasks$"):
        read_answers(path, form=LabelStudio())
    assert len(read_answers(path, form=Dedupe()).pairs) == 0


def test_files_in_a_list():
    with pytest.raises(ValueError, match=r"a list is not the path .* read_answers\(\*paths\)$"):
        read_answers(["one.csv", "other.csv"])


@pytest.mark.parametrize("name", ["nothing.csv", "answers.txt"])
def test_files_that_cannot_be_read(name, tmp_path):
    message = "there is no file" if name == "nothing.csv" else "does not end in .csv, .tsv, .json"
    with pytest.raises(ValueError, match=message):
        read_answers(tmp_path / name)


def test_a_table_that_a_spreadsheet_wrote_in_another_encoding(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("left;right;worker;label\nbär;ross;ann;1\n", encoding="cp1252")
    with pytest.raises(
        ValueError,
        match=r"answers.csv: it is not UTF-8; save it .* 'CSV UTF-8'$",
    ):
        read_answers(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_table_whose_mark_states_the_encoding(encoding, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("left\tright\tworker\tlabel\nbär\tross\tann\t1\n", encoding=encoding)
    assert read_answers(path).pairs.iloc[0].tolist() == ["bär", "ross", "ann", "1"]


@pytest.mark.parametrize(
    ("form", "questions", "message"),
    [
        (Prodigy(), PAGES, "Prodigy cannot sort pages"),
        (Argilla(), PAGES, "Argilla cannot sort pages"),
        (CrowdKit(), PAGES, "crowd-kit has no pages"),
        (Dedupe(), PAGES, "dedupe only has pairs"),
        (Dedupe(), LABELS, "dedupe only has pairs"),
        (HtmlPage(), PAIRS, "the HTML page can only sort pages"),
        (Prodigy(), LABELS, "need the classes to choose from"),
        (LabelStudio(), LABELS, "need the classes to choose from"),
    ],
)
def test_questions_that_a_tool_does_not_know(form, questions, message):
    with pytest.raises(ValueError, match=message):
        form.files(questions, ITEMS)


@pytest.mark.parametrize("name", FORMATS)
def test_an_item_that_is_not_shown(name):
    questions = PAGES if name == "html" else PAIRS
    shown = {key: text for key, text in ITEMS.items() if key != "b"}
    if name == "crowd-kit":  # which shows nothing
        assert len(FORMATS[name].tasks(questions, shown)) == len(questions)
    else:
        with pytest.raises(ValueError, match="a question is about the item 'b', not among"):
            FORMATS[name].tasks(questions, shown)
