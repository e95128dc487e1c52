"""Every format: questions out, answers back, and the same tables whichever way they went."""

from __future__ import annotations

import copy
import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.exchange import (
    FORMATS,
    Argilla,
    CrowdAnswers,
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

ITEMS = {"a": "an ant", "b": "a <b>bee</b>", "c": "a \"cat\", 'grey'", "d": "=1+1", "e": "é"}
PAIRS = pd.DataFrame(
    {"left": ["a", "a", "b", "c"], "right": ["b", "c", "d", "e"], "worker": ["ann", "ben"] * 2}
)
PAGES = pd.DataFrame(
    {"page": ["p"] * 3 + ["q"] * 2, "item": list("abcde"), "worker": ["ann"] * 3 + ["ben"] * 2}
)
LABELS = pd.DataFrame({"item": list("abc"), "worker": ["ann", "ann", "ben"]})
CLASSES = ("insect", "mammal")

# What is said below, whatever the tool: "same", "different", nothing, "same"; one item of page p
# is not put into a group; the last label is missing.
SAID_OF_PAIRS = ["same", "different", None, "same"]
SAID_OF_PAGES = {"p": {"a": "1", "b": "1"}, "q": {"d": "1", "e": "2"}}
SAID_OF_LABELS = ["insect", "mammal", None]


def expected_pairs(workers=("ann", "ben", "ben")):
    return pd.DataFrame(
        {"left": list("aac"), "right": list("bce"), "worker": workers, "label": [1, 0, 1]}
    )


def expected_pages():
    return pd.DataFrame(
        {
            "page": list("ppqq"),
            "item": list("abde"),
            "worker": ["ann", "ann", "ben", "ben"],
            "group": list("1112"),
        }
    )


def expected_labels():
    return pd.DataFrame(
        {"item": ["a", "b"], "worker": ["ann", "ann"], "label": ["insect", "mammal"]}
    )


NUMBERS = {"ann": 7, "ben": 8}


def annotation(worker, name, kind, value):
    result = [{"from_name": name, "to_name": "x", "type": kind, "id": "r", "value": value}]
    return {
        "id": 1,
        "completed_by": NUMBERS[worker],
        "was_cancelled": False,
        "lead_time": 2.5,
        "result": result,
    }


def in_label_studio(tasks, said):
    """What Label Studio exports where people with these names answered so."""
    export = []
    for task, answer in zip(copy.deepcopy(tasks), said, strict=True):
        worker = task["data"]["worker"]
        if isinstance(answer, dict):
            buckets = {"_": [entry["id"] for entry in task["data"]["list"]]}
            for item, group in answer.items():
                buckets["_"].remove(item)
                buckets.setdefault(group, []).append(item)
            own = annotation(worker, "groups", "ranker", {"ranker": buckets})
        else:
            choice = "can't tell" if answer is None else answer
            own = annotation(worker, "answer", "choices", {"choices": [choice]})
        export.append({"id": len(export), **task, "annotations": [own], "predictions": []})
    return export


def in_prodigy(tasks, said):
    export = []
    for task, answer in zip(copy.deepcopy(tasks), said, strict=True):
        worker = {"_session_id": f"set-{task['meta']['worker']}", "_annotator_id": None}
        if answer is None:
            export.append({**task, **worker, "answer": "ignore"})
        elif "options" in task:
            export.append({**task, **worker, "answer": "accept", "accept": [answer]})
        else:
            word = "accept" if answer == "same" else "reject"
            export.append({**task, **worker, "answer": word})
    return export


def in_argilla(tasks, said):
    export = copy.deepcopy(tasks)
    for record, answer in zip(export, said, strict=True):
        value = "can't tell" if answer is None else answer
        user = record["metadata"]["worker"]
        record["responses"] = {"answer": [{"value": value, "user_id": user}]}
    return export


def in_dedupe(tasks, said):
    lists = {"same": "match", "different": "distinct", None: "uncertain"}
    export = {"match": [], "distinct": [], "uncertain": []}
    for pair, answer in zip(tasks["uncertain"], said, strict=True):
        export[lists[answer]].append(pair)
    return export


def in_table(tasks, said):
    answer = "group" if "page" in tasks else "label"
    if "page" in tasks:
        said = [said[row.page].get(row.item) for row in tasks.itertuples()]
    return tasks.assign(**{answer: ["" if value is None else value for value in said]})


def same_tables(answers: CrowdAnswers, expected: dict[str, pd.DataFrame], num_unanswered: int):
    found = answers.tables()
    assert list(found) == list(expected)
    for name, table in expected.items():
        own = found[name][table.columns.tolist()].sort_values(table.columns[:2].tolist())
        own = own.reset_index(drop=True).replace({"label": {"same": 1, "different": 0}})
        pd.testing.assert_frame_equal(own, table, check_dtype=False)
    assert len(answers.unanswered) == num_unanswered
    CrowdData(None, item_ids=list(ITEMS), **found)


STUDIO = LabelStudio(classes=CLASSES, workers={7: "ann", 8: "ben"})


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


def test_labels_come_back_from_prodigy():
    form = Prodigy(classes=CLASSES)
    export = in_prodigy(form.tasks(LABELS, ITEMS), SAID_OF_LABELS)
    expected = expected_labels().assign(worker=["set-ann", "set-ann"])
    same_tables(form.answers(export), {"labels": expected}, 1)


def test_texts_of_records_may_hold_what_ends_lines_elsewhere(tmp_path):
    shown = {key: f"{text}\u2028and\u2029more\u0085\x0b\x1c\n\r" for key, text in ITEMS.items()}
    (path,) = write_tasks(tmp_path, Prodigy(), PAIRS, shown)
    export = in_prodigy(Prodigy().parse(path.read_text(encoding="utf-8")), SAID_OF_PAIRS)
    path.write_text("\r\n".join(json.dumps(one, ensure_ascii=False) for one in export), "utf-8")
    expected = expected_pairs(("set-ann", "set-ben", "set-ben"))
    same_tables(read_answers(path), {"pairs": expected}, 1)


def test_frames_of_crowd_kit_come_back():
    form = CrowdKit()
    for name, table in (("pairs", expected_pairs()), ("labels", expected_labels())):
        answers = CrowdAnswers.of_tables(**{name: table})
        frame = form.frame(answers)
        assert frame.columns[:3].tolist() == ["task", "worker", "label"]
        same_tables(form.answers(frame), {name: table}, 0)
    assert form.tasks(PAIRS)["task"].nunique() == len(PAIRS)


@pytest.mark.parametrize("nothing", [None, np.nan, " ", "Can\u2019t tell"])
def test_a_label_that_a_frame_of_crowd_kit_lacks_is_unanswered(nothing):
    """As it is in a plain table of the same."""
    labels = LABELS.assign(label=["insect", nothing, "mammal"])
    pairs = PAIRS.assign(label=[1, 0, nothing, 1])
    for plain, task in ((labels, labels["item"]), (pairs, pairs["left"] + pairs["right"])):
        expected = PlainCsv().answers(plain)
        found = CrowdKit().answers(plain.assign(task=task))
        same_tables(found, expected.tables(), 1)
        assert found.unanswered.equals(expected.unanswered)
    with pytest.raises(ValueError, match="answers row 1 .*: worker is .*, which is missing"):
        CrowdKit().answers({"task": ["a", "b"], "worker": ["ann", None], "label": [None, "ant"]})


def test_tasks_of_crowd_kit_are_pairs_without_order():
    pairs = pd.DataFrame(
        {
            "left": ["a", "b", "a | b", "a", "a", "a\\", "a"],
            "right": ["b", "a", "c", "b | c", "\\", "", "\\"],
        }
    )
    answers = CrowdAnswers.of_tables(pairs=pairs.assign(worker="ann", label=1))
    tasks = CrowdKit().frame(answers)["task"]
    assert tasks[0] == tasks[1] == "a | b"
    assert tasks[4] == tasks[6]
    assert tasks.nunique() == 5
    asked = CrowdKit().tasks(pairs[:4])
    assert asked["task"].tolist() == tasks[:4].tolist()
    assert asked[["left", "right"]].equals(pairs[:4])
    said = pairs[:4].assign(worker="ann", label=["same", "Yes", "no", "1"])
    found = CrowdKit().frame(CrowdAnswers.of_tables(pairs=said))["label"]
    assert found.tolist() == ["same", "same", "no", "same"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"pairs": expected_pairs(), "labels": expected_labels()}, "about pairs and labels, but"),
        ({"placements": expected_pages()}, "crowd-kit knows no sorted pages: pass the pairs"),
    ],
)
def test_answers_of_which_crowd_kit_has_no_frame(tables, message):
    with pytest.raises(ValueError, match=message):
        CrowdKit().frame(CrowdAnswers.of_tables(**tables))


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
    ],
    ids=["rows end in commas", "all end in commas", "blank rows", "row numbers", "semicolons"],
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


@pytest.mark.parametrize("classes", [range(3), np.arange(3), pd.Index([0, 1, 2]), (0, 1, 2)])
def test_classes_are_any_sequence(classes):
    questions = pd.DataFrame({"item": [5]})
    configuration = LabelStudio(classes=classes).files(questions)["labelling.xml"]
    assert re.findall('Choice value="(.*)"', configuration) == ["0", "1", "2", "can't tell"]
    (task,) = json.loads(json.dumps(Prodigy(classes=classes).tasks(questions)))
    assert [option["id"] for option in task["options"]] == ["0", "1", "2"]
    assert Prodigy().answers([{**task, "answer": "accept", "accept": ["2"]}]).labels[
        "label"
    ].tolist() == ["2"]


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ("insect", "is 'insect': pass a list of classes"),
        ([1, "1"], "has '1' twice: name every"),
        (["insect", "Unsure"], "has 'Unsure', which is read as no answer: leave it out"),
    ],
)
@pytest.mark.parametrize("form", [LabelStudio, Prodigy])
def test_classes_that_are_none(form, classes, message):
    with pytest.raises(ValueError, match=f"{form.__name__}.classes=. {message}"):
        form(classes=classes).files(LABELS)


def test_integers_stay_integers_in_json():
    pairs = pd.DataFrame({"left": np.array([1, 2]), "right": np.array([3, 4])})
    tasks = json.loads(json.dumps(STUDIO.tasks(pairs.assign(worker="ann"))))
    answers = STUDIO.answers(in_label_studio(tasks, ["same", "same"]))
    assert answers.pairs["right"].tolist() == [3, 4]


def test_pages_that_several_sort_are_one_for_each():
    tasks = STUDIO.tasks(PAGES.query("page == 'q'"), ITEMS)
    (task,) = in_label_studio(tasks, [SAID_OF_PAGES["q"]])
    other = annotation("ann", "groups", "ranker", {"ranker": {"1": ["d", "e"]}})
    task["annotations"].append(other)
    found = STUDIO.answers([task]).placements
    assert found["page"].unique().tolist() == ["q of ben", "q of ann"]
    assert CrowdData(None, placements=found).placements.num_pages == 2


def test_the_last_of_two_annotations_by_one_person_counts():
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    late = annotation("ann", "answer", "choices", {"choices": ["different"]})
    early = copy.deepcopy(task["annotations"][0])
    late["updated_at"], early["updated_at"] = "2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"
    task["annotations"] = [late, early]
    assert STUDIO.answers([task]).pairs["label"].tolist() == [0]


def test_a_pair_in_the_other_order_is_the_same_question():
    twice = pd.DataFrame({"left": ["a", "b"], "right": ["b", "a"], "worker": "ann"})
    export = in_label_studio(STUDIO.tasks(twice), ["same", "different"])
    assert STUDIO.answers(export).pairs["label"].tolist() == [0]
    records = in_argilla(Argilla().tasks(twice), ["same", "can't tell"])
    assert Argilla().answers(records).tables() == {}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["same", "different", "same"], ["different", "same"]),
        (["same", "", "same"], ["same", "same"]),
        (["same", "can't tell", "same"], ["same"]),
        (["", "different", ""], ["different"]),
        (["", "", ""], []),
    ],
)
def test_the_last_of_two_rows_of_one_person_counts(said, expected):
    pairs = pd.DataFrame({"left": list("aba"), "right": list("bab"), "worker": ["ann"] * 2 + ["x"]})
    answers = PlainCsv().answers(pairs.assign(label=said))
    assert answers.pairs["label"].tolist() == expected
    assert len(answers.pairs) + len(answers.unanswered) == 2
    items = pd.DataFrame({"item": "a", "worker": pairs["worker"], "label": said})
    assert PlainCsv().answers(items).labels["label"].tolist() == expected


def test_questions_on_two_pages_are_two():
    pairs = pd.DataFrame({"left": ["a", "b"], "right": ["b", "a"], "worker": "ann", "page": [1, 2]})
    assert len(PlainCsv().answers(pairs.assign(label=["same", "different"])).pairs) == 2


def test_an_item_twice_on_a_page_is_refused():
    pages = pd.DataFrame({"page": 1, "item": list("aba"), "worker": "ann", "group": list("112")})
    with pytest.raises(ValueError, match="placements row 2"):
        CrowdData(None, **PlainCsv().answers(pages).tables())


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
    with pytest.warns(UserWarning, match="task 1: its predictions are numbers alone"):
        assert STUDIO.answers([task]).pairs["worker"].tolist() == ["ann"]
    assert len(LabelStudio(predictions=False).answers([task]).pairs) == 1
    record = in_argilla(Argilla().tasks(PAIRS[:1]), ["same"])[0]
    record["suggestions"] = {"answer": {"value": "different", "score": None, "agent": "judge"}}
    assert Argilla().answers([record]).pairs["worker"].tolist() == ["ann", "judge"]
    assert len(Argilla(suggestions=False).answers([record]).pairs) == 1


def test_cancelled_annotations_are_no_answers():
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    task["annotations"][0]["was_cancelled"] = True
    answers = STUDIO.answers([task])
    assert answers.tables() == {}
    assert answers.unanswered[["left", "right", "worker"]].to_numpy().tolist() == [
        ["a", "b", "ann"]
    ]


@pytest.mark.parametrize(
    ("who", "name"),
    [(7, "ann"), (9, "9"), ({"id": 9, "email": "z@x.org"}, "z@x.org"), ({"id": 7}, "ann")],
)
def test_people_of_label_studio_have_names(who, name):
    (task,) = in_label_studio(STUDIO.tasks(PAIRS[:1], ITEMS), ["same"])
    task["annotations"][0]["completed_by"] = who
    found = STUDIO.answers([task]).pairs
    assert found["worker"].tolist() == [name]
    assert found["seconds"].tolist() == [2.5]


CANNOT_TELL = [
    "can't tell",
    "Can\u2019t tell",
    " CAN'T  TELL ",
    "can`t tell",
    "cannot tell",
    "Unsure",
]


@pytest.mark.parametrize("words", CANNOT_TELL)
def test_who_cannot_tell_gave_no_answer_however_it_is_written(words):
    """An apostrophe of a word processor, another case, blanks around it."""
    for form, answered in ((STUDIO, in_label_studio), (Argilla(), in_argilla)):
        for questions in (PAIRS, LABELS):
            export = answered(form.tasks(questions, ITEMS), [words] * len(questions))
            assert form.answers(export).tables() == {}
            assert len(form.answers(export).unanswered) == len(questions)
    groups = [{"a": "1", "b": words, "c": words}, {"d": words, "e": words}]
    placements = STUDIO.answers(in_label_studio(STUDIO.tasks(PAGES, ITEMS), groups)).placements
    assert placements["item"].tolist() == ["a"]


def test_cells_without_an_answer_in_memory():
    table = PlainCsv().tasks(LABELS, ITEMS)
    for said in ([*CANNOT_TELL[1:3], "ant"], ["  ", None, "ant"], [np.nan, pd.NA, "ant"]):
        answers = PlainCsv().answers(table.assign(label=said))
        assert answers.labels["item"].tolist() == ["c"]
        assert answers.unanswered["item"].tolist() == ["a", "b"]


def broken(change):
    """A file of Label Studio with one thing changed."""
    export = in_label_studio(STUDIO.tasks(PAIRS, ITEMS), SAID_OF_PAIRS)
    change(export[1])
    return json.dumps(export)


WRONG = {
    "tasks.json": [
        ("{", "line 1 is no JSON"),
        ("{}", "the file is an object, but must be a list of tasks"),
        ("[1]", "task 1 is 1, but must be an object"),
        (broken(lambda task: task.pop("data")), "task 2 has no field 'data'; it has ['id'"),
        (broken(lambda task: task.update(data={"x": 1})), "task 2: it does not say what it asked"),
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
            "of {'left': 'a', 'right': 'c', 'worker': '8'}: the answer is 'eh', neither 'same'",
        ),
    ],
    "answers.jsonl": [
        ('{"answer": "accept"}\n{', "line 2 is no JSON"),
        ('{"answer": "accept"}', "record 1 has no field 'crowdclust'"),
        (
            '{"answer": "yes", "crowdclust": {"left": 1, "right": 2}}',
            "record 1: field 'answer' is 'yes': neither accept, reject nor ignore",
        ),
        (
            '{"answer": "accept", "crowdclust": {"left": 1.5, "right": 2}}',
            "record 1: left is 1.5, but ids in files are texts or integers",
        ),
    ],
    "answers.csv": [
        ("item,worker\n1,ann\n", "must be those of one kind of answers"),
        ("item,label\n1,dog\n", "there is no column 'worker'"),
        (
            "item,worker,label\n1,ann,dog\n,,\n2,,dog\n",
            "row 2 has no worker (item '2'): fill it in, or say PlainCsv(worker=)",
        ),
        ("", "there is nothing in it: a table begins with a line of names"),
        (",,\n", "there is nothing in it: a table begins with a line of names"),
        ("item,worker,label,label\n1,ann,dog,cat\n", "the table has two columns 'label'"),
        (
            "item,worker,label\n1,ann,dog\n2,ann,dog,cat\n",
            "row 2 holds 4 values, but the first line has 3 names: name every column",
        ),
        ('item,worker,label\n1,ann,"dog\n2,ann,cat\n', "line 3 is no row of a table (unexpected"),
    ],
}


@pytest.mark.parametrize(
    ("form", "record", "place"),
    [
        (LabelStudio(), {"annotations": []}, "task 1"),
        (Prodigy(), {"answer": "accept"}, "record 1"),
        (Argilla(), {"responses": {}}, "record 1"),
    ],
)
def test_a_record_that_does_not_say_what_it_asked_is_named_once(form, record, place):
    with pytest.raises(ValueError, match=f"^{place} has no field '"):
        form.answers([record])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [(name, text, message) for name, cases in WRONG.items() for text, message in cases],
)
def test_errors_say_file_record_and_field(name, text, message, tmp_path):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(f"{name}: ") + ".*" + re.escape(message)):
        read_answers(tmp_path / name)


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
    with pytest.raises(ValueError, match=r"item 'a' has another 'item', 'x', .*Dedupe\(id_field="):
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
        ([0.3, 1.0], "different; dedupe knows no grades, so make them 1 and 0"),
        (["same", "perhaps"], "pairs row 1 (index 1): label is 'perhaps', neither 1 nor 0"),
    ],
)
def test_training_of_grades_is_refused(labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Dedupe().training(PAIRS[:2].assign(label=labels))


def test_an_item_that_was_not_on_the_page():
    tasks = STUDIO.tasks(PAGES, ITEMS)
    export = in_label_studio(tasks, SAID_OF_PAGES.values())
    export[0]["annotations"][0]["result"][0]["value"]["ranker"]["1"].append("z")
    with pytest.raises(ValueError, match="task 1, annotation 1, result 1, value, ranker: '1' hol"):
        STUDIO.answers(export)


def test_a_page_in_two_files_of_one_worker(tmp_path):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("page,item,worker,group\n1,a,ann,1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'ann' sorted page '1' in two of the files"):
        read_answers(tmp_path / "one.csv", tmp_path / "two.csv")


@pytest.mark.parametrize("name", ["nothing.csv", "answers.txt"])
def test_files_that_cannot_be_read(name, tmp_path):
    message = "there is no file" if name == "nothing.csv" else "does not end in .csv, .tsv, .json"
    with pytest.raises(ValueError, match=message):
        read_answers(tmp_path / name)


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ({"x": [1]}, "questions have neither columns left, right"),
        ({"left": ["a"], "right": [None]}, "right is None, which is missing"),
        ({"item": [1.5]}, "item is 1.5, but ids in files are texts or integers"),
        ({"page": [1, 1], "item": ["a", "a"]}, "page 1 has the item 'a' twice"),
        ({"page": [1, 1], "item": ["a", "b"], "worker": ["ann", "ben"]}, "is for several workers"),
    ],
)
def test_questions_that_are_none(questions, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        PlainCsv().tasks(pd.DataFrame(questions))


@pytest.mark.parametrize(
    ("form", "questions", "message"),
    [
        (Prodigy(), PAGES, "Prodigy cannot sort pages"),
        (Argilla(), PAGES, "Argilla cannot sort pages"),
        (CrowdKit(), PAGES, "crowd-kit knows no pages"),
        (Dedupe(), PAGES, "dedupe knows pairs"),
        (Dedupe(), LABELS, "dedupe knows pairs"),
        (HtmlPage(), PAIRS, "the page is to sort on"),
        (Prodigy(), LABELS, "without classes"),
        (LabelStudio(), LABELS, "without classes"),
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
