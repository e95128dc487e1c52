"""The report of models that somebody wrote, which have no tables of their own."""

from __future__ import annotations

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.interface.command_line.summary import tables

from ...problems import location_model

POINTS = np.repeat([[0.0], [6.0]], [12, 8], axis=0)
ANSWERS = {"left": [0, 0, 1], "right": [1, 19, 18], "worker": list("aab"), "label": [1, 0, 0]}


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


def test_a_model_without_clusters_has_a_report_of_its_training():
    data = CrowdData(POINTS)
    result = fit(location_model, AutoNormal(location_model), data, epochs=2, progress=False)
    assert tables(result).keys() == {"history"}
    assert "<h2>Training</h2>" in report_page(result)
