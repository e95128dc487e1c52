"""``simulate`` and ``demo``: a crowd that is made up, and the page about it."""

from __future__ import annotations

import pandas as pd
import pytest

from pyro_crowdclust.interface.command_line import main

from .command_lines import few_candidates

CROWD = ["--items", "60", "--true-clusters", "3", "--workers", "4", "--pages", "2"]


def test_simulated_files(crowd):
    features = pd.read_csv(crowd / "features.csv", index_col="item")
    answers = pd.read_csv(crowd / "answers.csv")
    truth = pd.read_csv(crowd / "truth.csv", index_col="item")
    assert features.shape == (60, 4)
    assert truth.index.equals(features.index)
    assert answers.columns.tolist() == ["left", "right", "worker", "label", "page"]
    assert set(answers["left"]) | set(answers["right"]) <= set(features.index)
    assert answers["worker"].nunique() == 4


@pytest.mark.long
def test_demo_from_simulation_to_page(tmp_path, capsys, monkeypatch):
    few_candidates(monkeypatch)
    words = ["demo", "--out", str(tmp_path / "demo"), *CROWD, "--epochs", "20", "--quiet"]
    assert main([*words, "--clusters", "6"]) == 0
    assert "accuracy against the truth" in capsys.readouterr().out
    assert (tmp_path / "demo" / "fit" / "report.html").exists()
