"""Sites with more axes than plates: what to do is said."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust import CrowdData
from pyro_crowdclust.inference.shapes import explained_shapes
from pyro_crowdclust.minibatches import ItemPlate

from ..crowds import quiet_fit


@pytest.mark.parametrize("num_features", [2, 3])
@pytest.mark.parametrize("as_vector", [False, True])
def test_a_forgotten_event_is_named(num_features, as_vector):
    def model(batch):
        mean = pyro.sample("mean", dist.Normal(torch.zeros(num_features), 1.0).to_event(1))
        with ItemPlate("items", batch):
            o = dist.Normal(mean if as_vector else mean[0], 1.0)
            pyro.sample("o", o, obs=batch.features)

    said = (
        r"site '?o'?.*\. The axes of a site are its plates: .*to_event\(1\)"
        if as_vector
        else rf"site 'o' observes values \[5, {num_features}\], .*'items' of 5.*to_event\(1\)"
    )
    with pytest.raises(ValueError, match=said):
        quiet_fit(model, AutoNormal(model), CrowdData(torch.zeros(5, num_features)), epochs=1)


def test_other_errors_are_as_they_were():
    with pytest.raises(ValueError, match="^other$"), explained_shapes():
        raise ValueError("other")
