"""What ``load`` is given beside the file: models of one's own, data, and none of another fit."""

from __future__ import annotations

import pandas as pd
import pytest
from pyro.infer import Trace_ELBO
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust import CrowdData, load

from ..crowds import crowd, quiet_fit
from ..problems import location_guide, location_model
from ..refusals import refuses
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
    with refuses(r"location_model, no plain value .*pass them as they were for the fit"):
        load(path)
    with refuses("for an autoguide or a guide with pyro.param pass data=, too"):
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
    with refuses("data is a list, but must be the CrowdData of the fit"):
        load(path, data=[1])
