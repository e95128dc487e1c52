"""Models that know nothing of the library, written out in Pyro, with guides of any kind."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import scipy.stats
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoLaplaceApproximation, AutoNormal

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.diagnostics import pareto_k, to_arviz
from pyro_crowdclust.minibatches import full_batch

from ..crowds import quiet_fit
from .exports import one_chain


def heights(batch):
    mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    sd = pyro.sample("sd", dist.LogNormal(0.0, 1.0))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_weight):
        pyro.sample("o", dist.Normal(mean, sd), obs=batch.features[:, 0])


@pytest.fixture
def fitted() -> Fitted:
    measured = 3 + 2 * np.random.default_rng(0).standard_normal((50, 1))
    return quiet_fit(
        heights, AutoNormal(heights), CrowdData(measured), epochs=300,
        batch_size=None, optim=partial(torch.optim.Adam, lr=0.05),
    )  # fmt: skip


def test_posterior_and_likelihood(fitted):
    tree = to_arviz(fitted, 60)
    assert set(tree["posterior"].data_vars) == {"mean", "sd"}
    mean, sd = (one_chain(tree, "posterior", name) for name in ("mean", "sd"))
    expected = scipy.stats.norm(mean[:, None], sd[:, None]).logpdf(fitted.data.features[:, 0])
    found = one_chain(tree, "log_likelihood", "features")
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert mean.mean() == pytest.approx(fitted.data.features.mean(), abs=0.3)


def test_pareto_k(fitted):
    # A normal posterior of a mean and a log deviation, from 50 points: nearly normal itself.
    assert pareto_k(fitted, 400).k < 0.7
    with pytest.raises(ValueError, match="together"):
        pareto_k(fitted, 30, sites=["mean"])


def test_delta_guides_are_points():
    data = CrowdData(np.random.default_rng(0).normal(size=(9, 1)))
    fitted = quiet_fit(heights, AutoDelta(heights), data, batch_size=None)
    with pytest.raises(ValueError, match="point estimates"):
        pareto_k(fitted)


def test_laplace_is_a_point_until_it_is_asked_for():
    """Then bound and draws are those of the posterior, which is normal here."""

    def model(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("o", dist.Normal(mean, 1.0), obs=batch.features[:, 0])

    x = 3 + torch.randn(20, 1)
    data, options = CrowdData(x), {"batch_size": None, "dtype": torch.float64, "progress": False}
    with pytest.warns(UserWarning, match=r"trains a point.*replace\(result, guide=result.guide."):
        result = fit(model, AutoLaplaceApproximation(model), data, **options)
    evidence = scipy.stats.multivariate_normal(np.zeros(20), np.eye(20) + 100).logpdf(x[:, 0])
    assert result.elbo > evidence + 0.5
    assert result.to_arviz(3).attrs["equal_draws"] == "mean"
    guide = result.guide.laplace_approximation(full_batch(data))
    normal = dataclasses.replace(result, guide=guide)
    assert normal.elbo == pytest.approx(evidence, abs=1e-6)
    drawn = one_chain(normal.to_arviz(1000), "posterior", "mean")
    assert drawn.std() == pytest.approx(20.01**-0.5, rel=0.1)


def test_a_model_written_out_in_an_example(monkeypatch):
    path = Path(__file__).resolve().parents[2] / "examples" / "minimal.py"
    spec = importlib.util.spec_from_file_location("minimal_example", path)
    minimal = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "minimal_example", minimal)
    spec.loader.exec_module(minimal)
    features = np.random.default_rng(0).normal(size=(30, 2))
    pairs = {"left": [0, 1, 2], "right": [3, 4, 5], "worker": [0, 1, 19], "label": [1, 0, 1]}
    pairs = pd.concat([pd.DataFrame(pairs)] + [
        pd.DataFrame({"left": [6], "right": [7], "worker": [w], "label": [1]})
        for w in range(2, 19)
    ])  # fmt: skip
    fitted = quiet_fit(
        minimal.model, minimal.Guide(), CrowdData(features, pairs), batch_size=None, epochs=3,
        initialize=minimal.k_means_start,
    )  # fmt: skip
    tree = to_arviz(fitted, 30)
    assert tree["posterior"]["components_mean"].dims[2] == "cluster"
    assert tree["posterior"]["sensitivity"].dims[2] == "worker"
    rates = one_chain(tree, "posterior", "sensitivity")[:, 0]
    wrong = one_chain(tree, "posterior", "specificity")[:, 0]
    same = fitted.same_cluster_probability(0, 3)
    expected = -np.log(same / rates + (1 - same) / (1 - wrong))
    np.testing.assert_allclose(one_chain(tree, "log_likelihood", "answers")[:, 0], expected)
    assert np.isfinite(tree["log_likelihood"]["features"]).all()
    assert np.isfinite(pareto_k(fitted, 30).k)
