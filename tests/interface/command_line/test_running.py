"""A command is run: errors, warnings and Ctrl-C are said in one line."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pyro_crowdclust.interface.command_line import main

from .command_lines import fit_words, only_error

ALIKE = ["--pairs", "pairs.csv", "--likeness", "alike.csv"]
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "nowhere", "--features", "abc.csv"], "there is no folder nowhere"),
        (["predict", "full", "--features", "none.csv"], "there is no file none.csv"),
        (["report", "full", "--out", "rep.txt"], "only if its name ends in .html: --out rep.html"),
        (["report", "full"], "full was not written by .*: it has no readable settings.json"),
        (["fit", "--features", "none.csv", "--out", "new"], "there is no file none.csv"),
        (["fit", "--answers", "abc.csv", "none.csv", "--out", "new"], "there is no file none.csv"),
        (["fit", "--features", "full/x.csv", "--out", "full"], "is not empty: name another"),
        (
            ["fit", "--features", "full/x.csv", "--known", "pairs.csv", "--out", "new"],
            "pairs.csv has no column 'item'; it has .*'left', 'right', 'worker', 'label'",
        ),
        (
            ["fit", "--features", "full/x.csv", "--model", "binary", "--out", "new"],
            "column 'a' is said to hold 0 and 1, but holds 3.0: say another kind",
        ),
        (
            ["fit", "--out", "new"],
            "nothing to fit: --model choose needs --features or ",
        ),
        (
            [
                "fit",
                "--model",
                "words",
                "--features",
                "full/x.csv",
                "--labels",
                "page.csv",
                "--out",
                "new",
            ],
            "--model words does not use --labels: leave out --model",
        ),
        (
            ["fit", "--pairs", "full/x.csv", "--labels", "page.csv", "--out", "new"],
            "--model choose does not use --pairs: labels of classes can be combined with "
            "--features",
        ),
        (
            ["fit", "--labels", "page.csv", "--clusters", "5", "--out", "new"],
            "--clusters limits the number of clusters, but the classes here are those that",
        ),
        (
            ["fit", "--model", "dawid-skene", "--pairs", "pairs.csv", "--out", "new"],
            "--model dawid-skene does not use --pairs: choose another --model",
        ),
        (["fit", "--features", "text.csv", "--out", "new"], "column 'b' holds numbers written as"),
        (["fit", "--features", "dates.csv", "--out", "new"], "feature column 'b' holds dates"),
        (
            ["fit", "--features", "names.csv", "--out", "new"],
            "looks like names: --ignore it, or make it the --id-column; for records, .*, leave out "
            "--features, and pass how alike the texts of pairs are as --likeness$",
        ),
        (
            ["fit", "--features", "full/x.csv", "--categories", "c", "--out", "new"],
            r"--categories names the column 'c', but full/x.csv has the features \['a'",
        ),
        (
            ["fit", "--features", "full/x.csv", "--counts", "aa", "--out", "new"],
            r"--counts names the column 'aa', .*; did you mean 'a'\?",
        ),
        (
            ["fit", "--features", "hole.csv", "--model", "deep-normal", "--out", "new"],
            r"networks need complete rows, but the features lack 1 value \(NaN\)",
        ),
        (
            ["fit", "--features", "full/x.csv", "--pairs", "pairs.csv", "--out", "new"],
            "left is 'w', not among the item ids",
        ),
        (
            ["fit", "--features", "full/x.csv", "--model", "deep-bernoulli", "--out", "new"],
            r"needs features in \[0, 1\]",
        ),
        (["fit", "--pairs", "pairs.csv", "--clusters", "5", "--out", "new"], ": --clusters is 5, "),
        (
            ["fit", "--pairs", "unsure.csv", "--out", "new"],
            'from "different" to "same" as --grades',
        ),
        (["fit", "--pairs", "shares.csv", "--out", "new"], "are probabilities, pass --grades 5"),
        (["fit", "--pairs", "grades.csv", "--out", "new"], "such as --grades 1 2 3 4 5"),
        (
            ["fit", "--pairs", "pairs.csv", "--placements", "page.csv", "--out", "new"],
            "--pairs and --placements are both given: name both files by --answers",
        ),
        (
            ["fit", "--placements", "sorted.csv", "--out", "new"],
            "on their own, write a row of --pairs for every two items of the page$",
        ),
        (
            ["fit", "--answers", "dedupe.json", "--out", "new"],
            r"if another tool wrote it, give the format \(--answers-format\)",
        ),
        (
            ["fit", "--pairs", "nobody.csv", "--out", "new"],
            "pairs line 3: worker is missing; fill it in, or drop the row",
        ),
        (
            ["fit", "--features", "abc.csv", "--known", "known.csv", "--out", "new"],
            r"known line 3: item is '0', not among the item ids \(such as 'u'.* drop the row$",
        ),
        (
            ["fit", "--features", "huge.csv", "--out", "new"],
            r"huge.csv line 4, column 'a' is 1e.200, beyond",
        ),
        (
            ["fit", "--features", "abc.csv", "--likeness", "alike.csv", "--out", "new"],
            "pass pairs, or leave --likeness out",
        ),
        (
            ["fit", "--features", "abc.csv", *ALIKE, "--out", "new"],
            "but features are given: leave out --features, or leave --likeness out",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    files = {
        "full/x.csv": "item,a,b\nu,1,2\nv,3,4\n",
        "text.csv": "item,a,b\nu,1,2\nv,1,3\nw,2,unknown\n",
        "dates.csv": "item,a,b\nu,1,2020-03-01\nv,2,2021-11-30\n",
        "names.csv": "item,b\n" + "".join(f"i{n},product no {n}\n" for n in range(12)),
        "full/settings.json": "[]",
        "hole.csv": "item,a,b\nu,1,2\nv,3,\n",
        "pairs.csv": "left,right,worker,label\nw,v,x,1\n",
        "unsure.csv": "left,right,worker,label\nw,v,x,1\nw,u,x,unsure\n",
        "shares.csv": "left,right,worker,label\nw,v,x,0.9\nw,u,x,0.1\n",
        "grades.csv": "left,right,worker,label\nw,v,x,5\nw,u,x,3\nu,v,x,1\n",
        "sorted.csv": "page,item,worker,group\n" + "".join(f"1,{i},x,{i % 2}\n" for i in range(5)),
        "nobody.csv": "left,right,worker,label\nw,v,x,1\nw,u,,0\n",
        "known.csv": "item,label\nu,a\n0,b\n",
        "huge.csv": "item,a\nu,1\n\nv,1e200\n",
        "page.csv": "page,item,worker,group\n1,u,x,a\n1,v,x,\n",
        "dedupe.json": '{"match": [], "distinct": []}',
        "abc.csv": "item,a\nu,1\nv,2\nw,4\n",
        "alike.csv": "left,right,cosine\nw,v,0.5\n",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    assert main(words) == 1
    line = only_error(capsys)
    assert re.search(message, line), line


def test_warnings_are_one_line_each(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("item,a\nu,1\nv,2\nw,9\n", encoding="utf-8")
    answers = "left,right,worker,label\nu,v,x,1\nu,v,x,1\n"
    (tmp_path / "p.csv").write_text(answers, encoding="utf-8")
    words = ["fit", "--features", str(tmp_path / "x.csv"), "--pairs", str(tmp_path / "p.csv")]
    words += ["--clusters", "2", "--epochs", "1", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(words) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pyro-crowdclust: warning: ")
    assert "repeat" in line


@pytest.fixture
def _interrupted_loading(monkeypatch):
    """Loading the commands, which load torch, is interrupted."""

    class Interrupting:
        def find_spec(self, name, *_):
            if name.endswith(".command_line.commands"):
                raise KeyboardInterrupt

    loaded = importlib.import_module("pyro_crowdclust.interface.command_line.commands")
    monkeypatch.delitem(sys.modules, loaded.__name__)
    monkeypatch.delattr(f"{loaded.__package__}.commands")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])


@pytest.mark.usefixtures("_interrupted_loading")
def test_interruption_while_a_command_is_loaded(crowd, tmp_path, capsys):
    assert main(fit_words(crowd, tmp_path / "out")) == 130
    assert "interrupted before there was anything to save" in capsys.readouterr().err


@pytest.mark.usefixtures("_interrupted_loading")
def test_files_are_looked_for_before_a_command_is_loaded(tmp_path, capsys):
    assert main(["fit", "--features", "none.csv", "--out", str(tmp_path / "out")]) == 1
    assert only_error(capsys).endswith("there is no file none.csv")


@pytest.mark.long
def test_entry_point_and_module_are_the_same_command(crowd):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = declared["project"]["scripts"]["pyro-crowdclust"].partition(":")
    assert getattr(importlib.import_module(module), name) is main
    command = [sys.executable, "-m", "pyro_crowdclust.interface"]
    missing = [*command, "fit", "--features", "none.csv", "--out", str(crowd / "new")]
    run = subprocess.run(missing, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "pyro-crowdclust: error: there is no file none.csv\n"
