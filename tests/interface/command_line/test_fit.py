"""``fit``: tables under the user's names, the same for a seed, and kept after Ctrl-C."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from pyro_crowdclust import load
from pyro_crowdclust.interface.command_line import main

from ...control_c import press_control_c
from .command_lines import few_candidates, fit_words


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


def test_settings_are_those_that_were_typed(crowd, tmp_path, monkeypatch):
    few_candidates(monkeypatch)
    words = fit_words(crowd, tmp_path / "out")
    words[words.index("gaussian")] = "choose"
    words[words.index("--starts") + 1] = "3"
    assert main([*words, "--epochs", "7", "--seed", "5"]) == 0
    settings = json.loads((tmp_path / "out" / "settings.json").read_text(encoding="utf-8"))
    typed = {"clusters": 6, "epochs": 7, "starts": 3, "seed": 5, "trusted": []}
    assert {name: settings[name] for name in typed} == typed
    assert settings["seed_of_start"] == load(tmp_path / "out" / "result.safetensors").seed
    choice = pd.read_csv(tmp_path / "out" / "choice.csv", index_col="candidate")
    assert choice.index.tolist() == [*range(len(choice))]


def test_interruption_keeps_what_was_learned(crowd, tmp_path, monkeypatch):
    from pyro_crowdclust.callbacks import MergeMoves

    press_control_c(monkeypatch, MergeMoves, "__call__", 3)
    assert main(fit_words(crowd, tmp_path / "out")) == 130
    assert len(pd.read_csv(tmp_path / "out" / "history.csv")) == 3
    settings = json.loads((tmp_path / "out" / "settings.json").read_text(encoding="utf-8"))
    assert settings["stop_reason"].startswith("interrupted by the user")
