"""The page as a browser shows it, without the files of its fit, and of models of one's own."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.interface import cluster, infer_classes
from pyro_crowdclust.interface.answers_alone.kinds import kind_of_answers
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.interface.command_line.fit_folder import read_result
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.interface.command_line.summary import TABLES, tables
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.results.chosen import Chosen
from pyro_crowdclust.results.text import what_was_found
from pyro_crowdclust.simulation import simulate_placements

from ...problems import location_model
from .command_lines import fit_words

POINTS = np.repeat([[0.0], [6.0]], [12, 8], axis=0)
ANSWERS = {"left": [0, 0, 1], "right": [1, 19, 18], "worker": list("aab"), "label": [1, 0, 0]}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def mixture(batch):
    with pyro.plate("cluster", 2):
        location = pyro.sample("location", dist.Normal(0.0, 10.0))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer={"enumerate": "parallel"})
        pyro.sample("o", dist.Normal(location[z], 1.0), obs=batch.features[:, 0])
    if batch.num_pairs:
        with pyro.plate("pairs", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            said = SameCluster(z, batch.left, batch.right, batch.num_paired)
            same = pyro.sample("same", said)
            pyro.sample("label", dist.Bernoulli(0.1 + 0.8 * same), obs=batch.label)


def test_a_mixture_of_ones_own_has_clusters_and_a_report():
    inner = AutoDelta(
        poutine.block(mixture, hide=["z", "same"]),
        init_loc_fn=lambda site: torch.tensor([1.0, 5.0]),
    )
    guide, data = EnumeratedGuide(mixture, inner), CrowdData(POINTS, ANSWERS)
    result = fit(mixture, guide, data, epochs=2, batch_size=None, progress=False)
    assert result.clusters.columns.tolist() == ["expected_items", "assigned_items", "share"]
    assert result.clusters["assigned_items"].tolist() == [12, 8]
    assert tables(result).keys() == {"items", "clusters", "history"}
    page = report_page(result)
    assert "<h2>Clusters</h2>" in page
    assert "<h2>Workers</h2>" not in page


def test_the_names_of_tables_are_all_of_them():
    """By which those of an earlier fit in the folder are known."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(12, 2)), columns=["a", "b"])
    pages = simulate_placements(np.arange(12) % 2, [0.9], pages_per_worker=3, page_size=4, seed=0)
    pages = pages.drop(columns="state")
    parts = {"components": GaussianComponents, "num_clusters": 2, "epochs": 1, "progress": False}
    said = {"item": [0, 0, 1], "worker": list("aba"), "label": list("xyx")}
    classes = infer_classes(CrowdData(None, labels=said), [0], epochs=1)
    found = tables(cluster(frame, placements=pages, **parts)).keys() | tables(classes).keys()
    assert found | {"choice"} == {*TABLES}


def test_a_report_of_answers_alone_lists_the_items_of_clusters():
    """There never were features to draw a map of, or columns to compare."""
    kinds = np.repeat(np.arange(70), 2)
    left, right = np.arange(139), np.arange(1, 140)
    label = (kinds[left] == kinds[right]).astype(int)
    said = {"left": left, "right": right, "worker": "ann", "label": label}
    answers = kind_of_answers(CrowdData(None, said))
    recipe = answers.recipe(answers.priors["many small clusters"]())
    result = recipe.fit(epochs=20, progress=False)
    page = report_page(result)
    assert "No picture of items" not in page
    assert "<h2>Items</h2>" not in page
    assert "What sets" not in page
    joined = int((result.clusters["assigned_items"] > 1).sum())
    assert joined > 50
    assert f"{joined} clusters of several items" in page
    for number in np.flatnonzero(result.clusters["assigned_items"] == 2):
        own = ", ".join(map(str, np.flatnonzero(result.assignments == number)))
        assert f"<td>{own}</td>" in page


def test_what_is_open_comes_first(fitted):
    result, _ = read_result(fitted, with_features=True)
    page = report_page(result)
    assert page.index("<h2>What is open</h2>") < page.index("<h2>Clusters</h2>")


def test_a_report_opens_with_what_was_found(fitted):
    result, _ = read_result(fitted, with_features=True)
    table = pd.DataFrame({"kind": ["Gaussians"], "features": ["columns"], "components": [6]})
    chosen = Chosen(table.assign(chosen=True), "because of its ELBO", None)
    page = report_page(dataclasses.replace(result, chosen=chosen))
    sure = int((result.assignment_probabilities >= 0.9).sum())
    parts = [
        f"<th>found</th><td style='text-align:left'>{what_was_found(result)}</td>",
        "<th>from</th><td style='text-align:left'>60 items, ",
        f"the cluster is at least 90% probable for {sure} of 60 items",
        "Gaussians on columns, 6 components; because of its ELBO",
        "<h2>Training</h2>",
        "SemiCrowdsourcedMixture, MessagePassingGuide",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert page.index("evidence lower bound") > page.index("<h2>Training</h2>")


def test_a_report_explains_the_columns_it_shows(fitted):
    page = report_page(read_result(fitted, with_features=True)[0])
    assert "Sensitivity: " in page
    assert "Careless: " not in page
    assert "Lumped: " not in page


def test_probabilities_have_three_digits(fitted, monkeypatch):
    pairs = pd.DataFrame({"left": ["u"], "right": ["v"], "probability of same": [1.03e-27]})
    monkeypatch.setattr(f"{report_page.__module__}.pairs_in_dispute", lambda _: pairs)
    page = report_page(read_result(fitted, with_features=True)[0])
    assert "<td>&lt; 0.001</td>" in page
    assert "e-27" not in page


def test_a_model_without_clusters_has_a_report_of_its_training():
    data = CrowdData(POINTS)
    result = fit(location_model, AutoNormal(location_model), data, epochs=2, progress=False)
    assert tables(result).keys() == {"history"}
    assert "<h2>Training</h2>" in report_page(result)


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


@pytest.mark.long
def test_report_without_the_files_of_the_fit_lacks_one_picture(crowd, tmp_path, capsys):
    copied = shutil.copytree(crowd, tmp_path / "crowd")
    assert main([*fit_words(copied, tmp_path / "out"), "--epochs", "2"]) == 0
    features = copied / "features.csv"
    features.write_text(features.read_text(encoding="utf-8").replace("item-0003", "item-x"))
    assert main(["report", str(tmp_path / "out")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pyro-crowdclust: warning: the features of the fit are not used: ")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "No picture of items by cluster: the features of the fit are not available" in page
    assert page.count("data:image/png;base64,") == 3


@pytest.mark.long
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
    assert "No picture of items by cluster: a plane needs two dimensions" in page
