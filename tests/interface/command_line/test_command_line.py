"""Tables of every kind through ``fit``, ``predict`` and ``report``: files in, files out."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import load
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.metrics import clustering_accuracy

from .command_lines import few_candidates, only_error


@pytest.mark.long
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
        (["--binary", "ill", "--counts", "ill"], "'ill' is declared as both binary and count"),
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


@pytest.mark.long
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
    skipped = pd.DataFrame({"item": ["photo 0", "photo 1"], "worker": ["dan", None]})
    pd.concat([frame, skipped]).to_csv(tmp_path / "labels.csv", index=False)
    words = ["fit", "--model", "dawid-skene", "--labels", str(tmp_path / "labels.csv")]
    assert main([*words, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert "2 such rows): label is missing; rows without a label are" in capsys.readouterr().err
    items = pd.read_csv(tmp_path / "out" / "items.csv", index_col="item")
    found = items.loc[[f"photo {i}" for i in range(40)], "class"]
    assert (found.to_numpy() == truth).mean() >= 0.9
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
    assert "labels without features, which cannot predict classes of" in only_error(capsys)


@pytest.mark.long
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
