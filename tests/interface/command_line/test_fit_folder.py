"""The folder that ``fit`` writes: none is left by an error, and no file is overwritten."""

from __future__ import annotations

import errno
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.files.csv_files import write_csv
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.interface.command_line.fit_folder import read_result

from .command_lines import fit_words, only_error


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
    assert main(["fit", "--features", str(file), "--out", str(file), "--force"]) == 1
    assert f"{file} is a file, but must be a folder" in only_error(capsys)
    assert file.read_text(encoding="utf-8") == "a\n"


def test_a_folder_that_cannot_be_written_is_said_before_training(crowd, monkeypatch, capsys):
    def train(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("pyro_crowdclust.interface.recipe.fit", train)
    words = fit_words(crowd, Path("/proc/nowhere"))
    assert main(words) == 1
    assert "/proc/nowhere" in only_error(capsys)


def test_no_table_of_an_earlier_fit_stays(crowd, tmp_path):
    out = tmp_path / "out"
    assert main(fit_words(crowd, out)) == 0
    for name in ("classes", "confusion", "notes"):  # as if that had been of classes
        (out / f"{name}.csv").write_text("a\n", encoding="utf-8")
    (out / "report.html").write_text("about other data", encoding="utf-8")
    assert main([*fit_words(crowd, out), "--force"]) == 0
    assert not (out / "report.html").exists()
    assert {file.stem for file in out.iterdir() if file.suffix == ".csv"} == {
        *("items", "clusters", "workers", "columns", "history"),
        "notes",
    }


@pytest.mark.parametrize("name", ["items.csv", "settings.json", "report.html"])
def test_files_that_no_fit_wrote_stay(name, crowd, tmp_path, capsys):
    (tmp_path / name).write_text("[]", encoding="utf-8")
    assert main([*fit_words(crowd, tmp_path), "--force"]) == 1
    assert f"{tmp_path} has a file {name}, which no fit wrote" in only_error(capsys)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text(encoding="utf-8") == "[]"


@pytest.mark.parametrize("option", ["features", "pairs"])
def test_a_fit_does_not_write_over_what_it_reads(option, crowd, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "settings.json").write_text('{"pyro_crowdclust": "0"}', encoding="utf-8")
    words = fit_words(crowd, out)
    place = words.index(f"--{option}") + 1
    file = shutil.copy(words[place], out / "workers.csv")
    before = file.read_bytes()
    words[place] = str(file)
    assert main([*words, "--force"]) == 1
    assert f"{file} is read by this command, which would write over it" in only_error(capsys)
    assert file.read_bytes() == before


def test_other_files_of_a_folder_stay(crowd, tmp_path):
    folder = shutil.copytree(crowd, tmp_path / "all")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main([*fit_words(folder, folder), "--epochs", "1", "--force"]) == 0
    assert (folder / "items.csv").exists()
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_the_summary_names_the_files_that_were_written(crowd, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    words = [word for word in fit_words(crowd, tmp_path) if word != "--quiet"]
    assert main([*words, "--epochs", "1", "--force"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    written = {path.name for path in tmp_path.iterdir()} - {"notes.txt"}
    assert last == f"{tmp_path}: {', '.join(sorted(written))}"


def test_a_disk_that_is_full_at_the_end_keeps_the_fit(crowd, tmp_path, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    monkeypatch.setattr("pyro_crowdclust.interface.command_line.fit.write_csv", full)
    assert main(fit_words(crowd, out)) == 1
    assert f"cannot write all files of the fit to {out} (No space left" in only_error(capsys)
    assert read_result(out)[0].clusters.shape[0] == 6


def test_ctrl_c_while_files_are_written_waits_for_them(crowd, tmp_path, monkeypatch):
    def interrupted(frame, file, **options):
        signal.raise_signal(signal.SIGINT)
        monkeypatch.undo()
        write_csv(frame, file, **options)

    out = tmp_path / "out"
    monkeypatch.setattr("pyro_crowdclust.interface.command_line.fit.write_csv", interrupted)
    assert main(fit_words(crowd, out)) == 130
    assert {"items.csv", "history.csv", "settings.json"} <= {file.name for file in out.iterdir()}


@pytest.mark.parametrize("option", ["--labels", "--answers"])
def test_features_of_a_fit_of_classes_are_found_again(option, tmp_path, capsys):
    kinds = np.arange(40) % 2
    features = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)) + 4 * kinds[:, None])
    features = features.assign(visits=kinds).rename(index="item {}".format)
    said = {"item": features.index[:20], "worker": ["ann", "ben"] * 10, "label": kinds[:20]}
    pd.DataFrame(said).to_csv(tmp_path / "labels.csv", index=False)
    features.rename_axis("item").to_csv(tmp_path / "features.csv")
    files = ["--features", str(tmp_path / "features.csv"), option, str(tmp_path / "labels.csv")]
    out = str(tmp_path / "out")
    files += ["--trusted", "ben"]
    assert main(["fit", *files, "--out", out, "--epochs", "3", "--quiet"]) == 0
    result, _ = read_result(Path(out), with_features=True)
    assert result.data.features is not None
    assert result.model.annotators.is_trusted.tolist() == [False, True]
    words = ["ask", out, "--labels", "5", "--workers", "ann", "ben", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "tasks")]) == 0
    assert capsys.readouterr().err == ""
