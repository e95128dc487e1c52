"""What ``load`` is given beside the file: models of one's own, data, and none of another fit."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.simulation import simulate_placements

from ..crowds import crowd, plain_pair, quiet_fit
from ..problems import location_guide, location_model
from ..refusals import refuses
from ..registries import PAIRS_OF_MODEL_AND_GUIDE
from ..same_fits import equal
from .saved_fits import IDS, fitted


@pytest.mark.parametrize(
    "make_guide",
    [lambda: location_guide, lambda: AutoNormal(location_model)],
    ids=["pyro.param", "AutoNormal"],
)
def test_plain_pyro_models(make_guide, path):
    data = crowd()
    result = quiet_fit(location_model, make_guide(), data, elbo=Trace_ELBO(num_particles=3))
    result.save(path)
    with refuses(
        r"location_model, which is neither a plain value .*pass them as they were for the fit"
    ):
        load(path)
    with refuses("for an autoguide or a guide with pyro.param also pass data="):
        load(path, location_model, make_guide())
    loaded = load(path, location_model, make_guide(), data)
    assert loaded.elbo == result.elbo
    assert type(loaded.elbo_objective) is Trace_ELBO
    assert loaded.elbo_objective.num_particles == 3
    stores = [one.parameter_store["params"] for one in (loaded, result)]
    assert equal(*stores)
    pd.testing.assert_frame_equal(loaded.history, result.history)
    with refuses(r"has no infer\(\)"):
        _ = loaded.probabilities


def test_a_model_of_ones_own_says_that_it_needs_its_features(path):
    class OfFeatures(nn.Module):
        def __init__(self):
            super().__init__()
            self.loc = nn.Parameter(torch.tensor(0.0))

        forward = staticmethod(location_model)

    class Guide(OfFeatures):
        def forward(self, batch):
            pyro.sample("mean", dist.Normal(self.loc, 1.0))

    quiet_fit(OfFeatures(), Guide(), crowd()).save(path)
    loaded = load(path, OfFeatures(), Guide())
    for read in (lambda: loaded.to_arviz(2), lambda: loaded.probabilities):
        with refuses(r"Files do not hold features: load a result with them as load\(path, data="):
            read()
    assert load(path, OfFeatures(), Guide(), crowd()).to_arviz(2)["posterior"]["mean"].size == 2


@pytest.mark.parametrize("name", PAIRS_OF_MODEL_AND_GUIDE)
def test_what_needs_features_says_so(name, path):
    model, guide, data = PAIRS_OF_MODEL_AND_GUIDE[name]()
    quiet_fit(model, guide, data, epochs=1).save(path)
    loaded = load(path)
    if data.features is None:
        assert loaded.elbo_of(full_batch(loaded.data)) == pytest.approx(loaded.elbo)
        return
    for read in (lambda: loaded.to_arviz(2), lambda: loaded.elbo_of(full_batch(loaded.data))):
        with refuses(r"Files do not hold features: load a result with them as load\(path, data="):
            read()


def test_data_of_another_fit(path):
    result = fitted("plain")
    result.save(path)
    for other in (
        crowd(),
        CrowdData(result.data.features, item_ids=IDS),
        CrowdData(result.data.features[:, :3], result.data.pairs, item_ids=IDS),
    ):
        with refuses("the data are not those of the fit"):
            load(path, data=other)
    message = (
        r"must be the CrowdData of the fit: pass data=CrowdData\(features, pairs=pairs\), made"
    )
    with refuses(f"data is a list, but {message}"):
        load(path, data=[1])


def test_numbers_that_a_first_call_heard_as_real(path):
    """As ``classify`` hears counts, and numbers that are 0 and 1."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    table["c"], table["d"] = rng.poisson(3, 60), rng.integers(2, size=60)
    kinds = {"c": "real", "d": "real"}
    result = quiet_fit(*plain_pair(), CrowdData(table, crowd().pairs, kinds=kinds), epochs=1)
    result.save(path)
    loaded = load(path, data=CrowdData(table, crowd().pairs))
    assert loaded.elbo_of(full_batch(loaded.data)) == result.elbo
    assert loaded.data.columns.kinds == ("real",) * 4
    with refuses("the data are not those of the fit"):
        load(path, data=CrowdData(table.rename(columns={"c": "e"}), crowd().pairs))


def test_sorted_pairs_that_a_first_call_heard_as_those_of_their_pages(path):
    """Whose order is another; pages that tell nothing are heard so."""
    pages = simulate_placements(
        np.arange(60) % 3, [0.8] * 3, pages_per_worker=4, page_size=9, seed=0
    )
    given = CrowdData(crowd().features, CrowdData(None, placements=pages).as_pairs().pairs[::-1])
    heard = given.as_placements().as_pairs()
    quiet_fit(*plain_pair(), heard, epochs=1).save(path)
    assert load(path, data=given).data.pairs.equals(heard.pairs)
    quiet_fit(*plain_pair(), given, epochs=1).save(path)
    assert load(path, data=given).data is given


def test_a_result_that_is_replaced_in_part_computes_its_own_values(path):
    """Values in the file are those of its own guide, not of another one."""
    data = crowd()
    result = quiet_fit(*plain_pair(), data, epochs=2)
    result.save(path)
    loaded = load(path, data=data)
    assert loaded.elbo == result.elbo
    moved = copy.deepcopy(loaded.guide)
    with torch.no_grad():
        for posterior in moved.posteriors.values():
            eta = posterior.natural_parameters
            eta.copy_(eta.roll(1, 0))
    other = dataclasses.replace(loaded, guide=moved)
    assert other.elbo != loaded.elbo
    assert not np.allclose(other.component_probabilities, loaded.component_probabilities)
