"""``predict``: new items by the columns and ids of the fit."""

from __future__ import annotations

import io
import shutil

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import load
from pyro_crowdclust.interface.command_line import main

from .command_lines import only_error


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


@pytest.mark.parametrize("out", ["new.csv", "fit/result.safetensors"])
def test_predict_does_not_write_over_what_it_reads(crowd, fitted, tmp_path, capsys, out):
    shutil.copytree(fitted, tmp_path / "fit")
    shutil.copy(crowd / "features.csv", tmp_path / "new.csv")
    before = (tmp_path / out).read_bytes()
    words = ["predict", str(tmp_path / "fit"), "--features", str(tmp_path / "new.csv")]
    assert main([*words, "--out", str(tmp_path / "fit" / ".." / out)]) == 1
    assert "is read by this command, which would write over it" in only_error(capsys)
    assert (tmp_path / out).read_bytes() == before


def test_predict_needs_the_columns_of_the_fit(fitted, tmp_path, capsys):
    (tmp_path / "new.csv").write_text("item,a,b,x\nu,1,2,3\n", encoding="utf-8")
    assert main(["predict", str(fitted), "--features", str(tmp_path / "new.csv")]) == 1
    message = "new.csv: the features lack 2 columns that the fit used: 'c', 'd'; they have 'a', "
    assert message in only_error(capsys)
    (tmp_path / "new.csv").write_text("item,a,b,c,d\nu,1,2,3,4\nv,1,x,3,4\n", encoding="utf-8")
    assert main(["predict", str(fitted), "--features", str(tmp_path / "new.csv")]) == 1
    message = f"{tmp_path / 'new.csv'} line 3 (index 'v'): b is 'x', but those of the fit were num"
    assert message in only_error(capsys)
