"""Own names and coordinates of axes in an export, as ``arviz.from_dict`` takes them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.minibatches import ItemPlate

from ..crowds import quiet_fit


def model(batch):
    with pyro.plate("kind", 3):
        mean = pyro.sample("mean", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    with ItemPlate("items", batch):
        pyro.sample("o", dist.Normal(mean.sum(0), 1.0).to_event(1), obs=batch.features)


@pytest.fixture(scope="module")
def result():
    table = pd.DataFrame(np.zeros((5, 2)), columns=["length", "width"])
    return quiet_fit(model, AutoNormal(model), CrowdData(table), epochs=1)


def test_names_replace_those_of_plates_and_numbers(result):
    plain = to_arviz(result, 4)["posterior"]["mean"]
    named = to_arviz(result, 4, dims={"mean": ["cup", "part"]}, coords={"cup": ["a", "b", "c"]})[
        "posterior"
    ]["mean"]
    assert named.dims == ("chain", "draw", "cup", "part")
    assert named["cup"].values.tolist() == ["a", "b", "c"]
    assert named["part"].values.tolist() == [0, 1]
    np.testing.assert_array_equal(named.values, plain.values)


def test_features_have_their_names(result):
    tree = result.to_arviz(4, dims={"mean": ["kind", "features_dim_0"]})
    assert tree["posterior"]["mean"]["features_dim_0"].values.tolist() == ["length", "width"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dims": {"means": ["a", "b"]}}, "no such variable; did you mean 'mean'"),
        ({"dims": {"mean": ["a"]}}, r"dims of 'mean' are \['a'\], .* \['kind', 'mean_dim_0'\]"),
        ({"coords": {"kinds": [1, 2, 3]}}, "no variable has such an axis; did you mean 'kind'"),
        ({"coords": {"kind": [1, 2]}}, "coords of 'kind' have 2 values, but the axis has 3"),
    ],
)
def test_what_does_not_suit_is_refused(result, options, said):
    with pytest.raises(ValueError, match=said):
        result.to_arviz(4, **options)
