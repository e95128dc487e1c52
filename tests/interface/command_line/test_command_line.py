"""The command line: files in, files out, errors in one line."""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import __version__, load
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.metrics import clustering_accuracy

ROOT = Path(__file__).resolve().parents[3]
CROWD = ["--items", "60", "--true-clusters", "3", "--workers", "4", "--pages", "2"]


@pytest.fixture(scope="module")
def fitted(crowd, tmp_path_factory):
    """A folder that ``fit`` wrote."""
    folder = tmp_path_factory.mktemp("fitted") / "out"
    assert main([*fit_words(crowd, folder), "--epochs", "10"]) == 0
    return folder


def fit_words(crowd: Path, folder: Path) -> list[str]:
    files = ["--features", str(crowd / "features.csv"), "--pairs", str(crowd / "answers.csv")]
    options = ["--clusters", "6", "--model", "gaussian", "--starts", "1", "--quiet"]
    return ["fit", *files, "--out", str(folder), *options]


def only_error(capsys) -> str:
    """The one line on standard error, with nothing on standard output."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("pyro-crowdclust: error: ")
    return line


def test_simulated_files(crowd):
    features = pd.read_csv(crowd / "features.csv", index_col="item")
    answers = pd.read_csv(crowd / "answers.csv")
    truth = pd.read_csv(crowd / "truth.csv", index_col="item")
    assert features.shape == (60, 4)
    assert truth.index.equals(features.index)
    assert answers.columns.tolist() == ["left", "right", "worker", "label", "page"]
    assert set(answers["left"]) | set(answers["right"]) <= set(features.index)
    assert answers["worker"].nunique() == 4


def test_fit_writes_tables_under_the_names_that_came_in(crowd, fitted):
    items = pd.read_csv(fitted / "items.csv", index_col="item")
    features = pd.read_csv(crowd / "features.csv", index_col="item")
    assert items.index.equals(features.index)
    assert items.columns.tolist() == ["cluster", "probability"]
    sizes = items["cluster"].value_counts()
    assert sizes.sort_index().is_monotonic_decreasing
    workers = pd.read_csv(fitted / "workers.csv", index_col="worker")
    assert workers.index.tolist() == [f"worker-{i}" for i in range(4)]
    clusters = pd.read_csv(fitted / "clusters.csv", index_col="cluster")
    assert clusters["assigned_items"].tolist()[: len(sizes)] == sizes.tolist()
    assert len(pd.read_csv(fitted / "history.csv")) == 10
    settings = json.loads((fitted / "settings.json").read_text(encoding="utf-8"))
    assert settings["columns"] == list("abcd")
    assert load(fitted / "result.safetensors").elbo == pytest.approx(settings["elbo"])


def test_the_same_seed_writes_the_same_tables(crowd, fitted, tmp_path):
    main([*fit_words(crowd, tmp_path / "again"), "--epochs", "10"])
    for name in ("items.csv", "workers.csv", "clusters.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (fitted / name).read_bytes()


def test_predict_takes_columns_by_name(crowd, fitted, tmp_path, capsys):
    new = pd.read_csv(crowd / "features.csv", index_col="item").iloc[:5]
    new[list("dbca")].assign(extra=1.0).to_csv(tmp_path / "new.csv")
    words = ["predict", str(fitted), "--features", str(tmp_path / "new.csv")]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert main([*words, "--out", str(tmp_path / "found.csv")]) == 0
    assert (tmp_path / "found.csv").read_text(encoding="utf-8") == printed
    found = pd.read_csv(tmp_path / "found.csv", index_col="item")
    assert found.index.equals(new.index)
    result = load(fitted / "result.safetensors")
    probabilities = result.predict_proba(new[list("abcd")].to_numpy())
    np.testing.assert_allclose(found["probability"], probabilities.max(1), rtol=1e-9)
    items = pd.read_csv(fitted / "items.csv", index_col="item").loc[new.index]
    asked = pd.read_csv(crowd / "answers.csv")
    silent = [name for name in new.index if name not in {*asked["left"], *asked["right"]}]
    assert found.loc[silent, "cluster"].equals(items.loc[silent, "cluster"])


@pytest.mark.parametrize("form", ["numbered.csv", "named.csv", "array.npy"])
def test_predict_finds_ids_by_itself_where_those_of_the_fit_are_not_there(
    crowd, fitted, tmp_path, capsys, form
):
    new, file = pd.read_csv(crowd / "features.csv", index_col="item").iloc[:5], tmp_path / form
    ids = {"numbered.csv": range(5), "named.csv": [*"vwxyz"], "array.npy": range(5)}[form]
    if form == "array.npy":
        np.save(file, new.to_numpy())
    else:
        named = [] if form == "numbered.csv" else [("name", ids)]
        pd.DataFrame(dict([*named, *new.items()])).set_axis(ids).to_csv(file, index=False)
    assert main(["predict", str(fitted), "--features", str(file)]) == 0
    found = pd.read_csv(io.StringIO(capsys.readouterr().out), index_col="item")
    assert found.index.tolist() == [*ids]
    probabilities = load(fitted / "result.safetensors").predict_proba(new)
    np.testing.assert_allclose(found["probability"], probabilities.max(1), rtol=1e-9)


def test_predict_needs_the_columns_of_the_fit(fitted, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("item,a,b,x\nu,1,2,3\n", encoding="utf-8")
    assert main(["predict", str(fitted), "--features", str(tmp_path / "new.csv")]) == 1
    message = "new.csv: the features lack 2 columns that the fit was on: 'c', 'd'; they have 'a', "
    assert message in only_error(capsys)


def test_a_failed_command_leaves_no_folder(tmp_path, capsys):
    out = tmp_path / "new" / "deeper"
    assert main(["fit", "--features", "none.csv", "--out", str(out)]) == 1
    assert only_error(capsys) == "pyro-crowdclust: error: there is no file none.csv"
    assert not out.parent.exists()
    out.mkdir(parents=True)  # a folder that was there stays
    assert main(["fit", "--features", "none.csv", "--out", str(out)]) == 1
    assert out.exists()


def test_a_file_where_a_folder_is_written_to(tmp_path, capsys):
    file = tmp_path / "result.csv"
    file.write_text("a\n", encoding="utf-8")
    assert main(["fit", "--features", "none.csv", "--out", str(file), "--force"]) == 1
    assert f"{file} is a file, but a folder is written to" in only_error(capsys)
    assert file.read_text(encoding="utf-8") == "a\n"


def test_the_parser_knows_the_commands():
    from pyro_crowdclust.interface.command_line import arguments, commands

    assert {*arguments.MODELS} == {*commands.MODELS}
    for name, summary in arguments._COMMANDS.items():
        assert getattr(commands, name).__doc__.startswith(summary.rstrip("."))


def test_columns_of_several_kinds_and_known_labels(tmp_path, capsys):
    rng = np.random.default_rng(0)
    kinds = np.arange(60) % 2
    table = pd.DataFrame(
        {
            "height": rng.normal(170 + 20 * kinds, 3),
            "ill": (rng.random(60) < 0.2 + 0.6 * kinds).astype(int),
            "visits": rng.poisson(2 + 8 * kinds),
        },
        index=pd.Index([f"person {i}" for i in range(60)], name="item"),
    )
    table.to_csv(tmp_path / "people.csv")
    known = pd.DataFrame({"item": table.index[:6], "label": np.where(kinds[:6], "tall", "short")})
    known.to_csv(tmp_path / "known.csv", index=False)
    link = pd.DataFrame({"left": [table.index[0]], "right": [table.index[1]]})
    link.to_csv(tmp_path / "cannot.csv", index=False)
    words = ["fit", "--features", str(tmp_path / "people.csv"), "--clusters", "4", "--quiet"]
    words += ["--binary", "ill", "--counts", "visits", "--known", str(tmp_path / "known.csv")]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    items = pd.read_csv(tmp_path / "out" / "items.csv", index_col="item")
    assert (items["class"] == np.where(kinds, "tall", "short")).mean() > 0.9
    assert items["class_probability"].between(0.5, 1).all()
    model = load(tmp_path / "out" / "result.safetensors").model
    assert [type(part).__name__ for part in model.components.parts] == [
        "DiagonalGaussianComponents",
        "PoissonComponents",
        "BernoulliComponents",
    ]
    assert model.components.columns == [[0], [2], [1]]
    columns = pd.read_csv(tmp_path / "out" / "columns.csv", index_col="column")
    assert columns["kind"].to_dict() == {"height": "real", "ill": "binary", "visits": "count"}
    # The report finds known labels and links again, too.
    linked = [*words, "--cannot-link", str(tmp_path / "cannot.csv"), "--epochs", "3"]
    assert main([*linked, "--out", str(tmp_path / "linked")]) == 0
    assert main(["report", str(tmp_path / "linked")]) == 0
    assert capsys.readouterr().err == ""
    for wrong, message in (
        (["--binary", "il"], "'ill', 'visits']; did you mean 'ill'?"),
        (["--binary", "ill", "--counts", "ill"], "'ill' is said to be binary and count: say one"),
    ):
        files = ["--features", str(tmp_path / "people.csv"), "--out", str(tmp_path / "no")]
        assert main(["fit", *files, *wrong]) == 1
        assert message in only_error(capsys)


def test_a_table_as_it_is(tmp_path, capsys):
    """Texts, yes and no, counts and empty cells, by files alone."""
    rng, kinds = np.random.default_rng(0), np.arange(90) % 3
    table = pd.DataFrame(
        {
            "height": rng.normal(150 + 20 * kinds, 3).round(1),
            "town": np.array(["Rome", "Bari", "Lecce"])[kinds],
            "smokes": np.where(rng.random(90) < 0.1 + 0.4 * kinds, "yes", "no"),
        }
    ).mask(rng.random((90, 3)) < 0.1)
    table.to_csv(tmp_path / "people.csv", index=False)
    words = ["fit", "--features", str(tmp_path / "people.csv"), "--clusters", "4"]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    missing = int(table.isna().sum().sum())
    said = capsys.readouterr().out.splitlines()[0]
    assert said.startswith(f"CrowdData(90 items, features 1 real, 1 binary, 1 category, {missing} ")
    items = pd.read_csv(tmp_path / "out" / "items.csv")
    assert clustering_accuracy(kinds, items["cluster"]) > 0.95
    table.head(3).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(tmp_path / "out"), "--features", str(tmp_path / "new.csv")]) == 0
    found = [line.split(",")[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert found == items["cluster"].astype(str).tolist()[:3]
    assert main(["report", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize("model", ["diagonal-gaussian", "binary", "counts", "words"])
def test_models_on_the_features_themselves(model, tmp_path):
    table = np.random.default_rng(0).integers(0, 2, size=(30, 4))
    np.save(tmp_path / "x.npy", table)
    words = ["fit", "--features", str(tmp_path / "x.npy"), "--model", model, "--epochs", "2"]
    assert main([*words, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    settings = json.loads((tmp_path / "out" / "settings.json").read_text(encoding="utf-8"))
    assert settings["model"] == model
    words = ["predict", str(tmp_path / "out"), "--features", str(tmp_path / "x.npy")]
    assert main([*words, "--out", str(tmp_path / "found.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "found.csv")) == 30


def test_a_folder_that_cannot_be_written_is_said_before_training(crowd, monkeypatch, capsys):
    def train(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("pyro_crowdclust.interface.recipe.fit", train)
    words = fit_words(crowd, Path("/proc/nowhere"))
    assert main(words) == 1
    assert "/proc/nowhere" in only_error(capsys)


def test_networks_and_arrays(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "images.npy", rng.uniform(size=(40, 3, 3)))
    words = ["fit", "--features", str(tmp_path / "images.npy"), "--model", "deep-bernoulli"]
    words += ["--dim", "2", "--hidden", "8", "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main([*words, "--quiet"]) == 0
    items = pd.read_csv(tmp_path / "out" / "items.csv")
    assert items["item"].tolist() == list(range(40))
    assert not (tmp_path / "out" / "workers.csv").exists()


def test_class_labels_with_features(tmp_path, capsys):
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=60)
    features = pd.DataFrame(rng.normal(size=(60, 2)) + 5 * kind[:, None], columns=["a", "b"])
    features.index = pd.Index([f"item {i}" for i in range(60)], name="item")
    features["size"] = rng.integers(3, size=60)
    said = np.array(["fly", "bee"])[np.where(rng.random((30, 2)) < 0.9, kind[:30, None], 0)]
    labels = pd.DataFrame({"item": np.repeat(features.index[:30], 2), "worker": ["x", "y"] * 30})
    labels.assign(label=said.ravel()).to_csv(tmp_path / "labels.csv", index=False)
    features.to_csv(tmp_path / "features.csv")
    files = ["--features", str(tmp_path / "features.csv"), "--labels", str(tmp_path / "labels.csv")]
    out = str(tmp_path / "fit")
    words = ["fit", *files, "--out", out, "--epochs", "10", "--quiet", "--categories", "size"]
    assert main(words) == 0
    columns = pd.read_csv(tmp_path / "fit" / "columns.csv", index_col="column")
    assert columns["kind"].to_dict() == {"a": "real", "b": "real", "size": "category"}
    found = pd.read_csv(tmp_path / "fit" / "items.csv", index_col="item")
    assert (found["class"].to_numpy() == np.array(["fly", "bee"])[kind]).mean() > 0.95
    assert "labels alone" in set(pd.read_csv(tmp_path / "fit" / "choice.csv")["kind"])
    assert main(["predict", out, *files[:2]]) == 0
    predicted = pd.read_csv(io.StringIO(capsys.readouterr().out), index_col="item")
    assert (predicted["class"].iloc[30:] == found["class"].iloc[30:]).all()
    assert main(["report", out]) == 0
    assert "Classes of features.csv" in (tmp_path / "fit" / "report.html").read_text("utf-8")


def test_class_labels(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = rng.choice(["cat", "dog"], 40)
    rows = [
        (f"photo {i}", worker, kind if rng.uniform() < right else rng.choice(["cat", "dog"]))
        for i, kind in enumerate(truth)
        for worker, right in (("ann", 0.95), ("ben", 0.9), ("cem", 0.0))
    ]
    frame = pd.DataFrame(rows, columns=["item", "worker", "label"])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    words = ["fit", "--model", "dawid-skene", "--labels", str(tmp_path / "labels.csv")]
    assert main([*words, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    items = pd.read_csv(tmp_path / "out" / "items.csv", index_col="item")
    found = items.loc[[f"photo {i}" for i in range(40)], "class"]
    assert (found.to_numpy() == truth).mean() > 0.9
    workers = pd.read_csv(tmp_path / "out" / "workers.csv", index_col="worker")
    assert workers["accuracy"].idxmin() == "cem"
    assert workers["labels"].tolist() == [40] * 3
    confusion = pd.read_csv(tmp_path / "out" / "confusion.csv", index_col=[0, 1])
    totals = confusion.groupby(level=[0, 1])["mean"].sum()
    np.testing.assert_allclose(totals, 1, rtol=1e-9)
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Classes</h2>" in page
    capsys.readouterr()
    (tmp_path / "x.csv").write_text("item,a\nu,1\n", encoding="utf-8")
    assert main(["predict", str(tmp_path / "out"), "--features", str(tmp_path / "x.csv")]) == 1
    assert "labels without features, which say nothing of new items" in only_error(capsys)


def test_sorted_pages_from_a_file(crowd, tmp_path, monkeypatch):
    few_candidates(monkeypatch)
    answers = pd.read_csv(crowd / "answers.csv")
    truth = pd.read_csv(crowd / "truth.csv", index_col="item")["cluster"]
    pages = pd.concat(
        pd.DataFrame({"page": page, "item": pd.unique(rows[["left", "right"]].to_numpy().ravel())})
        for page, rows in answers.groupby("page")
    )
    pages["worker"] = pages["page"].map(answers.groupby("page")["worker"].first())
    pages["group"] = "group " + truth.loc[pages["item"]].astype(str).to_numpy()
    pages.to_csv(tmp_path / "pages.csv", index=False)
    files = ["--features", str(crowd / "features.csv"), "--placements", str(tmp_path / "pages.csv")]
    out = tmp_path / "fit"
    assert main(["fit", *files, "--clusters", "6", "--out", str(out), "--quiet"]) == 0
    found = pd.read_csv(out / "pages.csv", index_col="page")
    assert set(found.index) == set(pages["page"])
    assert (found["sorted"] > 0.5).all()
    assert pd.read_csv(out / "workers.csv")["accuracy"].min() > 0.8
    assert main(["report", str(out)]) == 0


def few_candidates(monkeypatch):
    """A choice between two models instead of ten."""

    def choice(data, num_clusters):
        found = choice_for(data, num_clusters=num_clusters)
        return dataclasses.replace(
            found, forms=found.forms[:2], sizes=(num_clusters,), first_size=num_clusters
        )

    monkeypatch.setattr("pyro_crowdclust.interface.mixtures.choice_for", choice)


def test_demo_from_simulation_to_page(tmp_path, capsys, monkeypatch):
    few_candidates(monkeypatch)
    words = ["demo", "--out", str(tmp_path / "demo"), *CROWD, "--epochs", "20", "--quiet"]
    assert main([*words, "--clusters", "6"]) == 0
    assert "accuracy against the truth" in capsys.readouterr().out
    assert (tmp_path / "demo" / "fit" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predict", "nowhere", "--features", "x.csv"], "nowhere is no folder that .* wrote"),
        (["report", "full"], "full is no folder that .* wrote: it has no readable settings.json"),
        (["fit", "--features", "none.csv", "--out", "new"], "there is no file none.csv"),
        (["fit", "--features", "full/x.csv", "--out", "full"], "has files in it: name a new one"),
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
            ["fit", "--model", "words", "--features", "x.csv", "--labels", "l.csv", "--out", "new"],
            "--model words does not use --labels: leave out --model",
        ),
        (
            ["fit", "--pairs", "full/x.csv", "--labels", "l.csv", "--out", "new"],
            "--model choose does not use --pairs: beside labels there are --features at most",
        ),
        (
            ["fit", "--model", "dawid-skene", "--pairs", "pairs.csv", "--out", "new"],
            "--model dawid-skene does not use --pairs: choose another --model",
        ),
        (["fit", "--features", "text.csv", "--out", "new"], "column 'b' holds numbers written as"),
        (["fit", "--features", "dates.csv", "--out", "new"], "feature column 'b' holds dates: say"),
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
            r"networks take whole rows, but the features lack 1 value \(NaN\)",
        ),
        (
            ["fit", "--features", "full/x.csv", "--pairs", "pairs.csv", "--out", "new"],
            "left is 'w', not among the item ids",
        ),
        (
            ["fit", "--features", "full/x.csv", "--model", "deep-bernoulli", "--out", "new"],
            r"needs features in \[0, 1\]",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    files = {
        "full/x.csv": "item,a,b\nu,1,2\nv,3,4\n",
        "text.csv": "item,a,b\nu,1,2\nv,1,3\nw,2,unknown\n",
        "dates.csv": "item,a,b\nu,1,2020-03-01\nv,2,2021-11-30\n",
        "full/settings.json": "[]",
        "hole.csv": "item,a,b\nu,1,2\nv,3,\n",
        "pairs.csv": "left,right,worker,label\nw,v,x,1\n",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    assert main(words) == 1
    line = only_error(capsys)
    assert re.search(message, line), line


@pytest.mark.parametrize("words", [[], ["fly"], ["fit"], ["fit", "--clusters", "0"]])
def test_a_command_that_is_not_understood_exits_with_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: pyro-crowdclust" in capsys.readouterr().err


def test_version_and_help(capsys):
    for words in (["--version"], ["fit", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
    assert f"pyro-crowdclust {__version__}" in capsys.readouterr().out


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


def test_interruption_keeps_what_was_learned(crowd, tmp_path, monkeypatch):
    from pyro_crowdclust.callbacks import MergeMoves

    def press_control_c(self, trainer):
        trainer.history[-1]["merges"] = 0
        if trainer.history[-1]["epoch"] == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(MergeMoves, "__call__", press_control_c)
    assert main(fit_words(crowd, tmp_path / "out")) == 130
    assert len(pd.read_csv(tmp_path / "out" / "history.csv")) == 3
    settings = json.loads((tmp_path / "out" / "settings.json").read_text(encoding="utf-8"))
    assert settings["stop_reason"].startswith("interrupted by the user")


def test_interruption_while_a_command_is_loaded(crowd, tmp_path, monkeypatch, capsys):
    class Interrupting:
        def find_spec(self, name, *_):
            if name.endswith(".command_line.commands"):
                raise KeyboardInterrupt

    loaded = importlib.import_module("pyro_crowdclust.interface.command_line.commands")
    monkeypatch.delitem(sys.modules, loaded.__name__)
    monkeypatch.delattr(f"{loaded.__package__}.commands")
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert main(fit_words(crowd, tmp_path / "out")) == 130
    assert "interrupted before there was anything to save" in capsys.readouterr().err


def test_entry_point_and_module_are_the_same_command(crowd):
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = declared["project"]["scripts"]["pyro-crowdclust"].partition(":")
    assert getattr(importlib.import_module(module), name) is main
    command = [sys.executable, "-m", "pyro_crowdclust.interface"]
    missing = [*command, "fit", "--features", "none.csv", "--out", str(crowd / "new")]
    run = subprocess.run(missing, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == "pyro-crowdclust: error: there is no file none.csv\n"


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def test_report_in_a_real_browser(fitted, tmp_path):
    assert main(["report", str(fitted), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 4
    assert "http://" not in page  # nothing is asked of anybody
    assert "https://" not in page
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser to open the page in: none of {', '.join(BROWSERS)} is installed")
    # The script runs in the browser, after the page: it tells what was really decoded and laid out.
    probe = """<script>addEventListener("load", () => {
        const images = [...document.images].map(i => i.naturalWidth > 100 && i.complete);
        const rows = document.querySelectorAll("tbody tr").length;
        document.title = JSON.stringify({images, rows});
    });</script>"""
    probed = tmp_path / "probed.html"
    probed.write_text(page.replace("</body>", probe + "</body>"), encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", probed.as_uri()]
    run = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    title = run.stdout.partition("<title>")[2].partition("</title>")[0]
    seen = json.loads(title)
    assert seen["images"] == [True] * 4
    workers, clusters, summary = 4, 3, 5
    assert seen["rows"] >= workers + summary + min(clusters, 1)


def test_report_without_the_files_of_the_fit_lacks_one_picture(crowd, tmp_path, capsys):
    copied = shutil.copytree(crowd, tmp_path / "crowd")
    assert main([*fit_words(copied, tmp_path / "out"), "--epochs", "2"]) == 0
    features = copied / "features.csv"
    features.write_text(features.read_text(encoding="utf-8").replace("item-0003", "item-x"))
    assert main(["report", str(tmp_path / "out")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pyro-crowdclust: warning: the features of the fit are not used: ")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "No picture of items by cluster: the features of the fit are not at hand" in page
    assert page.count("data:image/png;base64,") == 3


def test_report_shows_ids_as_text_and_not_as_html(tmp_path):
    worker = "<script>alert(1)</script>"
    (tmp_path / "x.csv").write_text("item,a\nu,1\nv,2\nw,9\n", encoding="utf-8")
    answers = f"left,right,worker,label\nu,v,{worker},1\n"
    (tmp_path / "p.csv").write_text(answers, encoding="utf-8")
    words = ["fit", "--features", str(tmp_path / "x.csv"), "--pairs", str(tmp_path / "p.csv")]
    words += ["--clusters", "2", "--epochs", "1", "--out", str(tmp_path / "out"), "--quiet"]
    assert main(words) == 0
    assert main(["report", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "No picture of items by cluster: there is but one feature to show" in page
