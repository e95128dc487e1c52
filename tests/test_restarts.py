from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import Fitted
from pyro_crowdclust.diagnostics import aligned_order, arviz, to_arviz
from pyro_crowdclust.restarts import INTERRUPTED_STARTS, average_probabilities, fit_restarts
from pyro_crowdclust.training import Checkpoint

from .control_c import press_control_c, press_in_start
from .crowds import crowd, message_passing_pair, plain_pair, quiet_fit

OPTIONS = {"batch_size": None, "step_size": 0.5, "epochs": 15, "dtype": torch.float64}


def test_best_comes_first_and_each_is_the_fit_of_its_seed():
    data = crowd(30)
    results = fit_restarts(
        *message_passing_pair(),
        data,
        seeds=[5, 1, 2],
        epochs=2,
        progress=False,
        dtype=torch.float64,
    )
    elbos = [result.elbo for result in results]
    assert elbos == sorted(elbos, reverse=True)
    assert sorted(result.seed for result in results) == [1, 2, 5]
    assert len(set(elbos)) == 3
    assert {result.stop_reason for result in results} == {"budget: 2 steps in 2 epochs"}


def test_a_seed_gives_what_fit_gives():
    data, (model, guide) = crowd(30), plain_pair()
    (result,) = fit_restarts(model, guide, data, seeds=[3], progress=False, **OPTIONS)
    alone = quiet_fit(model, guide, data, seed=3, **OPTIONS)
    np.testing.assert_array_equal(result.probabilities, alone.probabilities)


def test_seeds_may_be_an_array():
    data, pair = crowd(30), plain_pair()
    options = OPTIONS | {"epochs": 2, "progress": False}
    (of_array,) = fit_restarts(*pair, data, seeds=np.arange(3, 4, dtype=np.int32), **options)
    (of_list,) = fit_restarts(*pair, data, seeds=[3], **options)
    np.testing.assert_array_equal(of_array.probabilities, of_list.probabilities)
    assert type(of_array.seed) is int


def test_every_seed_has_a_checkpoint_of_its_own(tmp_path):
    data, pair, path = crowd(30), plain_pair(), tmp_path / "run.safetensors"
    options = OPTIONS | {"progress": False, "seeds": [3, 1]}
    begun = fit_restarts(*pair, data, checkpoint=path, **options | {"epochs": 2})
    files = ["run_seed1.safetensors", "run_seed3.safetensors"]
    assert sorted(file.name for file in tmp_path.iterdir()) == files
    whole = fit_restarts(*pair, data, **options)
    resumed = fit_restarts(*pair, data, checkpoint=Checkpoint(path, resume=True), **options)
    assert [result.elbo for result in resumed] == [result.elbo for result in whole]
    first_rows = {result.seed: result.history for result in begun}
    for result in resumed:  # which did not begin anew, as times show
        pd.testing.assert_frame_equal(result.history[:2], first_rows[result.seed])
    with pytest.raises(ValueError, match="checkpoint is 3, but must be the path of a file"):
        fit_restarts(*pair, data, checkpoint=3, **options)


def test_clear_clusters_are_found_from_every_start():
    results = fit_restarts(*plain_pair(), crowd(40), seeds=range(3), progress=False, **OPTIONS)
    tree = to_arviz(results, 150, log_likelihood=False)
    assert tree["posterior"].sizes["chain"] == 3
    assert tree["posterior"].attrs["seed"] == [result.seed for result in results]
    rhat = arviz().rhat(tree, var_names=["weights", "component_mean", "sensitivity"])
    assert all(float(values.max()) < 1.1 for values in rhat.data_vars.values())


def test_an_average_counts_all_fits_alike_and_knows_no_names_of_clusters():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.05), 50)
    found = [0.8 * truth + 0.2 * rng.dirichlet(np.ones(3), 50) for _ in range(4)]
    fits = [SimpleNamespace(probabilities=q[:, rng.permutation(3)]) for q in found]
    order = aligned_order(fits[0].probabilities, found[0])
    average = average_probabilities(fits)
    np.testing.assert_allclose(average, np.mean(found, axis=0)[:, order], rtol=1e-12)


def test_no_fit_to_average():
    with pytest.raises(ValueError, match="pass the list that fit_restarts returns"):
        average_probabilities([])


@pytest.mark.parametrize("seeds", [[], [1, 1]])
def test_bad_seeds(seeds):
    with pytest.raises(ValueError, match="at least one seed, and none twice"):
        fit_restarts(*plain_pair(), crowd(30), seeds=seeds)


def test_ctrl_c_ends_it_with_the_fits_so_far(monkeypatch):
    data = crowd(30)
    press_in_start(monkeypatch, 3)
    found = fit_restarts(*plain_pair(), data, seeds=range(9), progress=False, **OPTIONS)
    assert sorted(result.seed for result in found) == [0, 1, 2]
    assert found[0].stop_reason == INTERRUPTED_STARTS
    assert found[2].stop_reason == "interrupted by the user after 0 steps"


def test_ctrl_c_twice_leaves_the_fit_that_is_not_done(monkeypatch):
    data = crowd(30)
    press_in_start(monkeypatch, 2)
    press_in_start(monkeypatch, 2)
    (result,) = fit_restarts(*plain_pair(), data, seeds=range(9), progress=False, **OPTIONS)
    assert (result.seed, len(result.history)) == (0, 15)
    press_in_start(monkeypatch, 1)
    press_in_start(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt, match="before a first fit was finished"):
        fit_restarts(*plain_pair(), data, progress=False, **OPTIONS)


def test_ctrl_c_while_the_elbo_is_computed_loses_nothing(monkeypatch):
    press_control_c(monkeypatch, Fitted, "elbo_of", 1)
    (result,) = fit_restarts(*plain_pair(), crowd(30), progress=False, **OPTIONS)
    assert result.stop_reason.startswith("interrupted")
    assert len(result.history) == 15
