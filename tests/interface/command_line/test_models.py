"""The words after ``--model``: each fits the features that it is for."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust.interface.command_line import main


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


def test_networks_and_arrays(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "images.npy", rng.uniform(size=(40, 3, 3)))
    words = ["fit", "--features", str(tmp_path / "images.npy"), "--model", "deep-bernoulli"]
    words += ["--dim", "2", "--hidden", "8", "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main([*words, "--quiet"]) == 0
    items = pd.read_csv(tmp_path / "out" / "items.csv")
    assert items["item"].tolist() == list(range(40))
    assert not (tmp_path / "out" / "workers.csv").exists()
