"""``ask`` and ``fit --answers``: questions out to people, and their answers back, in a shell."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.asking import Pages, suggest
from pyro_crowdclust.exchange import FORMATS
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.interface.command_line.arguments import FORMAT_NAMES
from pyro_crowdclust.interface.command_line.ask import _about_guesses
from pyro_crowdclust.interface.command_line.fit_folder import read_result
from pyro_crowdclust.interface.command_line.reading import read_shown

QUICK = ["--clusters", "6", "--model", "gaussian", "--starts", "1", "--epochs", "10", "--quiet"]


@pytest.fixture(scope="module")
def truth(crowd):
    return pd.read_csv(crowd / "truth.csv", index_col="item")["cluster"]


def fit_to(crowd, out, *answers):
    features = ["--features", str(crowd / "features.csv")]
    return main(["fit", *features, "--answers", *answers, "--out", str(out), *QUICK])


def only_error(capsys) -> str:
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_questions_do_not_replace_what_people_see(crowd, fitted, tmp_path, capsys):
    shown = shutil.copy(crowd / "features.csv", tmp_path / "questions-ann.csv")
    words = ["ask", str(fitted), "--pairs", "2", "--workers", "ann", "--out", str(tmp_path)]
    before = shown.read_bytes()
    assert main([*words, "--items", str(shown), "--force"]) == 1
    assert f"{shown} is read by this command, which would write over it" in only_error(capsys)
    assert shown.read_bytes() == before


def test_the_parser_knows_the_formats():
    assert {*FORMAT_NAMES} == {*FORMATS}


def test_pages_to_sort_for_every_worker_and_back(crowd, fitted, truth, tmp_path, capsys):
    words = ["ask", str(fitted), "--pages", "4", "--size", "5", "--html"]
    assert main([*words, "--workers", "ann", "ben", "--out", str(tmp_path / "tasks")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{tmp_path / 'tasks'}: sort-")
    assert said[1].startswith("Suggestions(4 pages to ask about")
    assert "reliability" in said[3]
    result, _ = read_result(fitted, with_features=True)
    doubt = int((result.assignment_probabilities < 0.9).sum())
    moved = float(re.search(r"may move about (\S+) of 60 items", said[4])[1])
    again = suggest(result, Pages(5), count=4, workers=["ann", "ben"])
    assert moved == pytest.approx(again.expected_moved, abs=0.06)
    assert said[4].endswith(
        f"in doubt now: {doubt} items, each with less than 90% for its most probable cluster"
    )
    saved = []
    for path in sorted((tmp_path / "tasks").iterdir()):
        page = path.read_text(encoding="utf-8")
        data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
        assert path.name == f"sort-{data['worker']}.html"
        assert data["pages"][0]["items"][0]["text"].startswith("a: ")  # the features
        rows = [
            (page["page"], one["item"], data["worker"], truth[one["item"]], 1.5)
            for page in data["pages"]
            for one in page["items"]
        ]
        table = pd.DataFrame(rows, columns=["page", "item", "worker", "group", "seconds"])
        table = table.astype({"group": object})
        table.loc[0, "group"] = ""  # can't tell
        saved.append(tmp_path / f"answers-{data['worker']}.csv")
        table.to_csv(saved[-1], index=False)
    assert fit_to(crowd, tmp_path / "fit", *map(str, saved)) == 0
    workers = pd.read_csv(tmp_path / "fit" / "workers.csv", index_col="worker")
    assert {*workers.index} <= {"ann", "ben"}
    assert workers["answers"].sum() == 4 * 5 - len(saved)
    # What was read is found again. The next round has pages of other names, and asks nobody twice.
    words = ["ask", str(tmp_path / "fit"), "--pages", "4", "--size", "5", "--format", "csv"]
    assert main([*words, "--out", str(tmp_path / "next"), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    asked = pd.concat(map(pd.read_csv, (tmp_path / "next").iterdir()))
    before = pd.concat(map(pd.read_csv, saved))
    assert not {*asked["page"]} & {*before["page"]}
    sorted_before = {*before.dropna()[["worker", "item"]].itertuples(index=False, name=None)}
    assert not sorted_before & {*asked[["worker", "item"]].itertuples(index=False, name=None)}


def test_fewer_questions_and_smaller_pages_than_asked_for(fitted, tmp_path, capsys):
    words = ["ask", str(fitted), "--pages", "3", "--size", "500", "--workers", "ann"]
    assert main([*words, "--out", str(tmp_path / "tasks")]) == 0
    said = capsys.readouterr()
    assert "--size 500: to choose pages of so many of 60 items may take long; a page" in said.err
    *_, fewer, smaller = said.out.splitlines()
    assert fewer == "3 questions were asked for, but 1 are all that is left to ask these workers"
    assert smaller.startswith("pages of 500 items were asked for, but they have")


def test_questions_for_workers_who_guess():
    workers = pd.DataFrame({"asked": [4, 2, 0], "reliability": [0.8, 0.1, 0.0]}, ["a", "gus", "b"])
    found = type("Found", (), {"workers": workers, "__len__": lambda _: 6})()
    (note,) = _about_guesses(found)
    assert note.startswith("2 of 6 questions are for workers who seem to guess ('gus')")
    workers["reliability"] = 0.1  # there is nobody else to ask
    assert _about_guesses(found) == []


def test_a_first_round_before_anybody_answered(crowd, tmp_path, capsys):
    out = tmp_path / "fit"
    assert main(["fit", "--features", str(crowd / "features.csv"), "--out", str(out), *QUICK]) == 0
    words = ["ask", str(out), "--pages", "2", "--size", "4"]
    assert main([*words, "--out", str(tmp_path / "nobody")]) == 0
    assert [path.name for path in (tmp_path / "nobody").iterdir()] == ["sort.html"]
    assert main([*words, "--workers", "ann", "--out", str(tmp_path / "ann")]) == 0
    assert [path.name for path in (tmp_path / "ann").iterdir()] == ["sort-ann.html"]
    assert capsys.readouterr().err == ""


def test_numbers_are_shown_as_people_read_them(tmp_path, capsys):
    """And a column that was found empty is not spoken of again."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kg": rng.normal(70, 9, 20), "euro": rng.normal(3e4, 5e3, 20)})
    table.assign(none="").to_csv(tmp_path / "people.csv", index=False)
    fit = ["fit", "--features", str(tmp_path / "people.csv"), "--out", str(tmp_path / "fit")]
    assert main([*fit, *QUICK]) == 0
    assert only_error(capsys).endswith("left out, as all cells are empty: 'none'")
    words = ["ask", str(tmp_path / "fit"), "--pairs", "1", "--workers", "ann", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "tasks")]) == 0
    assert capsys.readouterr().err == ""
    question = pd.read_csv(tmp_path / "tasks" / "questions-ann.csv").iloc[0]
    weight, money = question["text_left"].splitlines()[:2]
    assert re.fullmatch(r"kg: \d\d\.\d\d?", weight)
    assert re.fullmatch(r"euro: \d{5}\.0", money)


def test_many_numbers_are_nothing_to_see(tmp_path, capsys):
    features = np.random.default_rng(0).normal(size=(20, 21))
    np.save(tmp_path / "x.npy", features)
    out = tmp_path / "fit"
    assert main(["fit", "--features", str(tmp_path / "x.npy"), "--out", str(out), *QUICK]) == 0
    words = ["ask", str(out), "--pairs", "2", "--quiet", "--out", str(tmp_path / "tasks")]
    assert main(words) == 0
    assert "people will see only the ids of the items" in only_error(capsys)
    asked = pd.read_csv(tmp_path / "tasks" / "questions.csv")
    assert asked["text_left"].equals(asked["left"])
    # Pictures instead, in the order of the rows.
    np.save(tmp_path / "pictures.npy", features[:, :16].reshape(20, 4, 4) ** 2)
    shown = ["--items", str(tmp_path / "pictures.npy"), "--format", "label-studio", "--force"]
    assert main([*words, *shown]) == 0
    assert capsys.readouterr().err == ""
    tasks = json.loads((tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8"))
    assert tasks[0]["data"]["image_1"].startswith("data:image/png")


def test_pairs_through_label_studio_and_back(crowd, fitted, truth, tmp_path):
    words = ["ask", str(fitted), "--pairs", "12", "--format", "label-studio", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "tasks")]) == 0
    assert "<Choices" in (tmp_path / "tasks" / "labelling.xml").read_text(encoding="utf-8")
    tasks = json.loads((tmp_path / "tasks" / "tasks.json").read_text(encoding="utf-8"))
    for task in tasks:
        same = truth[task["data"]["left"]] == truth[task["data"]["right"]]
        value = {"choices": ["same" if same else "different"]}
        result = {"from_name": "answer", "to_name": "text_1", "type": "choices", "value": value}
        task["annotations"] = [{"completed_by": 3, "result": [result], "was_cancelled": False}]
    (tmp_path / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    assert fit_to(crowd, tmp_path / "fit", str(tmp_path / "export.json")) == 0
    workers = pd.read_csv(tmp_path / "fit" / "workers.csv", index_col="worker")
    assert workers["answers"].to_dict() == {3: 12}


@pytest.mark.parametrize("num_placed", [0, 12], ids=["pairs", "pairs and pages"])
def test_answers_of_all_rounds_are_heard_together(num_placed, crowd, truth, tmp_path, capsys):
    """A first table of pairs with pages, a pair in a tool's export without one, sorted pages."""
    items, pairs = truth.index, pd.read_csv(crowd / "answers.csv")
    value = {"choices": ["same" if truth.iloc[0] == truth.iloc[1] else "different"]}
    said = {"completed_by": 3, "result": [{"from_name": "answer", "value": value}]}
    task = {"data": {"left": items[0], "right": items[1]}, "annotations": [said]}
    files = [crowd / "answers.csv", tmp_path / "export.json", tmp_path / "sorted.csv"]
    files[1].write_text(json.dumps([task]), encoding="utf-8")
    pages = pd.DataFrame({"page": "pair 0", "item": items[:num_placed], "worker": "ann"})
    pages.assign(group=truth.to_numpy()[:num_placed]).to_csv(files[2], index=False)
    assert fit_to(crowd, tmp_path / "fit", *map(str, files)) == 0
    result, _ = read_result(tmp_path / "fit", with_features=True)
    assert result.data.features is not None
    assert result.data.num_pairs == len(pairs) + 1 + num_placed * (num_placed - 1) // 2
    assert len(result.data.page_ids) == pairs["page"].nunique() + 1 + (num_placed > 0)
    assert capsys.readouterr().err == ""


def test_labels_in_a_table_and_back(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = rng.choice(["cat", "dog"], 30)
    rows = [
        (str(item), worker, kind if rng.random() < 0.8 else rng.choice(["cat", "dog"]))
        for item, kind in enumerate(truth)
        for worker in ("ann", "ben", "cem")
        if rng.random() < 0.7
    ]
    table = pd.DataFrame(rows, columns=["task", "worker", "label"])
    table.to_csv(tmp_path / "labels.csv", index=False)
    words = ["fit", "--answers", str(tmp_path / "labels.csv"), "--quiet"]
    assert (
        main(
            [
                *words,
                "--answers-format",
                "crowd-kit",
                "--epochs",
                "3",
                "--out",
                str(tmp_path / "fit"),
            ]
        )
        == 0
    )
    assert main(["report", str(tmp_path / "fit")]) == 0
    page = (tmp_path / "fit" / "report.html").read_text(encoding="utf-8")
    assert "Classes of labels.csv" in page
    capsys.readouterr()
    words = ["ask", str(tmp_path / "fit"), "--labels", "6", "--out", str(tmp_path / "tasks")]
    assert main([*words[:2], "--pages", "1", "--size", "2", "--out", str(tmp_path / "two")]) == 0
    assert sum(len(pd.read_csv(path)) for path in (tmp_path / "two").glob("*.csv")) == 2
    assert main(words) == 0
    asked = pd.concat(
        pd.read_csv(path, dtype=str) for path in (tmp_path / "tasks").glob("questions*.csv")
    )
    assert len(asked) == 6
    assert main([*words[:2], "--pairs", "3", "--out", str(tmp_path / "pairs")]) == 1
    assert "not use pairs: ask for labels of items" in capsys.readouterr().err
    words = [*words[:4], "--format", "label-studio", "--out", str(tmp_path / "studio"), "--quiet"]
    assert main(words) == 0
    labelling = (tmp_path / "studio" / "labelling.xml").read_text(encoding="utf-8")
    assert '<Choice value="cat"/>' in labelling
    known = {*table[["task", "worker"]].itertuples(index=False, name=None)}
    assert not known & {*asked[["item", "worker"]].itertuples(index=False, name=None)}


def test_pictures_are_shown_as_they_are(tmp_path):
    np.save(tmp_path / "images.npy", np.random.default_rng(0).random((8, 4, 4)))
    table = read_shown(tmp_path / "images.npy")
    assert table.index.tolist() == [str(row) for row in range(8)]
    assert table["image"].str.startswith("data:image/png").all()
    text = 'item,name,image\n007,"=x, y",a.png\nb,NA,https://x.org/b.png\nc,,\n'
    (tmp_path / "items.csv").write_text(text, encoding="utf-8")
    table = read_shown(tmp_path / "items.csv")
    assert table.index.tolist() == ["007", "b", "c"]
    assert table["name"].tolist()[:2] == ["=x, y", "NA"]
    assert table["image"].tolist()[:2] == [str(tmp_path / "a.png"), "https://x.org/b.png"]
    assert table["image"].isna().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("item,worker,label\na,ann,dog\n", [], "item is 'a', not among the item ids"),
        (
            "item,worker,label\na,ann,dog\n",
            ["--model", "gaussian"],
            "the model uses pairs or placements, but the file",
        ),
        (
            "left,right,worker,label\na,b,ann,\n",
            [],
            "export.csv: the one question in it is unanswered or undecided",
        ),
        (
            "page,item,worker,group\n1,item-0,ann,a\n1,item-1,ann,a\n",
            ["--grades", "1", "2", "3"],
            "the model uses pairs, but the files have placements",
        ),
        (
            '{"match": [[{"item": "item-0"}, {"item": "item-1"}]], "distinct": []}',
            ["--answers-format", "dedupe", "--grades", "1", "2", "3"],
            'or "different" (0) from a tool, but the answers of the fit are the grades',
        ),
        (
            "left,right,worker,label\na,b,ann,\na,c,ann,can't tell\n",
            [],
            "export.csv: all 2 questions in it are unanswered or undecided",
        ),
        (
            "left,right,worker,label\n",
            [],
            "export.csv has no rows and no tasks",
        ),
        (
            '{"match": [], "distinct": [], "uncertain": [[{"item": "a"}, {"item": "b"}]]}',
            ["--answers-format", "dedupe"],
            "export.csv: the one question in it is unanswered or undecided",
        ),
        ("", [], "export.csv: the table is empty: it must begin with a line of column names"),
        (
            "left,right,worker,label\n\na,b,ann,1\n",
            [],
            "export.csv line 3: left is 'a', not among the item ids",
        ),
        (
            "sep=;\nleft;right;worker;label\nitem-0001;item-0002;ann;JA\nitem-0001;item-0003;ann;joa\n",
            [],
            "export.csv line 4: label is 'joa', neither 1 nor 0",
        ),
        (
            "left,right,label\nitem-0,item-1,1\n",
            [],
            "export.csv: there is no column 'worker': add it, and fill in who answered",
        ),
        ("", ["--pairs", __file__], "--answers and --pairs are both given: name all files"),
    ],
)
def test_answers_that_do_not_fit(text, words, message, crowd, tmp_path, capsys):
    (tmp_path / "export.csv").write_text(text, encoding="utf-8")
    features = ["--features", str(crowd / "features.csv")]
    files = ["--answers", str(tmp_path / "export.csv"), *words]
    assert main(["fit", *features, *files, "--out", str(tmp_path / "out")]) == 1
    assert message in only_error(capsys)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["FIT", "--pairs", "3", "--html"], "the HTML page can only sort pages: ask for pages"),
        (["FIT", "--labels", "3"], "has no classes: ask by --pages N or --pairs N"),
        (["FIT", "--workers", "WORKER,zoe"], ": separate workers by spaces, --workers WORKER zoe"),
        (["FIT", "--items", "none.csv"], "there is no file none.csv"),
        (["FIT", "--items", "few.csv"], "a question is about the item 'item-"),
        (
            ["FIT", "--items", "bare.csv"],
            "bare.csv has no ids, so that its rows are numbered from 0 to 1, but a question is "
            "about the item 'item-",
        ),
        (["FIT", "--items", "bare.npy"], ": save a table with a column 'item'"),
    ],
)
def test_what_cannot_be_asked(words, message, fitted, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.csv").write_text("item,name\nx,y\n", encoding="utf-8")
    (tmp_path / "bare.csv").write_text("price,name\n1,x\n2,y\n", encoding="utf-8")
    np.save(tmp_path / "bare.npy", np.zeros((2, 4, 4)))
    known = pd.read_csv(fitted / "workers.csv")["worker"][0]
    message = message.replace("WORKER", str(known))
    words = [str(fitted) if word == "FIT" else word.replace("WORKER", str(known)) for word in words]
    assert main(["ask", *words, "--out", str(tmp_path / "tasks")]) == 1
    assert message in only_error(capsys)
    assert not (tmp_path / "tasks").exists()


@pytest.fixture(scope="module")
def of_grades(crowd, truth, tmp_path_factory):
    """A fit of pairs that people graded from 1 to 3."""
    folder = tmp_path_factory.mktemp("grades")
    names = truth.index.to_numpy()
    ends = np.random.default_rng(0).choice(len(names), (120, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    same = truth.to_numpy()[ends[:, 0]] == truth.to_numpy()[ends[:, 1]]
    table = pd.DataFrame(names[ends], columns=["left", "right"])
    table = table.assign(worker=["ann", "ben"] * (len(ends) // 2) + ["ann"] * (len(ends) % 2))
    table.assign(label=np.where(same, 3, 1)).to_csv(folder / "pairs.csv", index=False)
    files = ["--pairs", str(folder / "pairs.csv"), "--grades", "1", "2", "3"]
    features = ["--features", str(crowd / "features.csv")]
    assert main(["fit", *features, *files, "--out", str(folder / "fit"), *QUICK]) == 0
    return folder / "fit"


def test_after_grades_ask_asks_for_pairs(of_grades, tmp_path, capsys):
    words = ["ask", str(of_grades), "--size", "3", "--out", str(tmp_path / "tasks")]
    assert main(words) == 0
    assert "60 pairs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pages", "3"], "the workers of this fit grade pairs, and a group has no grade: ask by"),
        (["--labels", "3"], "and has no classes: ask by --pairs N"),
    ],
)
def test_what_grades_cannot_answer(words, message, of_grades, tmp_path, capsys):
    assert main(["ask", str(of_grades), *words, "--out", str(tmp_path / "tasks")]) == 1
    assert message in only_error(capsys)
