"""What each version of ArviZ is given and reads, and the Pareto shape of tails that are known."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import torch

from pyro_crowdclust.diagnostics import arviz, pareto_k, to_arviz
from pyro_crowdclust.diagnostics.arviz_adapter import pareto_shape

from ..crowds import NUM_WORKERS


def test_the_sign_of_the_log_ratios():
    # q = N(0, 1) misses the tails of p = N(0, 2): k is near 0.75. With the sign turned the
    # weights are bounded.
    q = torch.randn(4000).numpy()
    log_ratios = scipy.stats.norm(0, 2).logpdf(q) - scipy.stats.norm(0, 1).logpdf(q)
    assert 0.5 < pareto_shape(log_ratios) < 1.0
    assert pareto_shape(-log_ratios) < 0


def test_equal_weights_have_no_tail():
    assert pareto_shape(np.zeros(100)) == -np.inf
    assert pareto_shape(np.append(np.zeros(99), -1.0)) == -np.inf


def test_version_one_gets_a_data_tree(plain, monkeypatch):
    import xarray

    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__="1.3.0"))
    tree = to_arviz(plain, 3)
    assert isinstance(tree, xarray.DataTree)
    assert tree["posterior"]["weights"].sizes["draw"] == 3
    assert tree.attrs["inference_library"] == "pyro_crowdclust"


def test_version_one_reads_what_was_written(plain, tree, tmp_path):
    """All else about the export runs under both, too; this is what only 1.x has."""
    module = arviz()
    if module.__version__.startswith("0."):
        pytest.skip(f"ArviZ {module.__version__} is installed: `make arviz1` runs this with 1.x")
    import xarray

    result = to_arviz(plain, 60)
    importance = pareto_k(plain, 60)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Estimated shape parameter", UserWarning)
        loo = module.loo_approximate_posterior(
            result, log_p=importance.log_joint, log_q=importance.log_guide, var_name="features"
        )
    assert np.isfinite(loo.elpd)
    assert module.summary(result, var_names=["sensitivity"]).shape[0] == NUM_WORKERS
    tree.to_netcdf(tmp_path / "fit.nc")
    with xarray.open_datatree(tmp_path / "fit.nc") as again:
        xarray.testing.assert_equal(again["posterior"].dataset, tree["posterior"].dataset)
        assert again.attrs["inference_library"] == "pyro_crowdclust"
