"""What of the data is exported, and of how many rows, by the user's ids."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.diagnostics.exported_data import ExportedRows, data_groups
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.transforms import PowerTransformed, Selected

from ..crowds import NUM_FEATURES, blobs, plain_pair, quiet_fit
from .exports import IDS, NUM_ITEMS


def test_data_by_the_users_ids(plain, tree):
    pairs, constant = plain.data.pairs, tree["constant_data"]
    assert constant["left"].values.tolist() == pairs["left"].tolist()
    assert constant["right"].values.tolist() == pairs["right"].tolist()
    assert constant["worker_of_answer"].values.tolist() == pairs["worker"].tolist()
    observed = tree["observed_data"]
    assert observed["answers"].values.tolist() == pairs["label"].tolist()
    np.testing.assert_array_equal(observed["features"], plain.data.features)
    np.testing.assert_allclose(constant["probabilities"][0], plain.probabilities)


def test_answers_that_count_are_exported():
    rng = np.random.default_rng(0)
    ends = np.array([rng.choice(NUM_ITEMS, 2, replace=False) for _ in range(40)])
    once = pd.DataFrame(ends, columns=["left", "right"])
    once["label"] = rng.integers(2, size=len(once))
    table = pd.concat([once.assign(worker=worker) for worker in (0, 1, 2, 0)], ignore_index=True)
    with pytest.warns(UserWarning, match="repeats an earlier answer"):
        data = CrowdData(blobs(NUM_ITEMS)[0], table)
    counted = data.counted_pairs
    assert len(counted) == 120
    assert len(data.pairs) == 160
    result = quiet_fit(*plain_pair(), data, epochs=1)
    groups = data_groups([result], ExportedRows.of(result, 3, 500, 500))
    for name, column in (("left", "left"), ("worker_of_answer", "worker")):
        assert groups["constant_data"][name][1].tolist() == counted[column].tolist()
    assert groups["observed_data"]["answers"][1].tolist() == counted["label"].tolist()


def test_a_part_of_many_items_and_answers(plain):
    tree = to_arviz(plain, 3, max_items=21, max_answers=5)
    likelihood = tree["log_likelihood"]
    assert likelihood.sizes["item"] == 21
    assert likelihood.sizes["answer"] == 5
    full = to_arviz(plain, 3)["log_likelihood"]["features"]
    np.testing.assert_allclose(
        likelihood["features"], full.sel(item=likelihood["item"].values), rtol=1e-10
    )


def test_features_of_many_numbers_are_drawn_of_fewer_items(plain, monkeypatch):
    monkeypatch.setattr("pyro_crowdclust.diagnostics.exported_data._MAX_REPLICATED", 200)
    tree = to_arviz(plain, 5)
    replicated = tree["posterior_predictive"]["features"]
    assert replicated.sizes["item"] == 200 // (5 * NUM_FEATURES)
    assert set(replicated["item"].values) <= set(IDS)
    assert tree["log_likelihood"].sizes["item"] == NUM_ITEMS


def test_coordinates_in_other_units_than_their_features_say_so():
    features = pd.DataFrame(blobs(40)[0][:, :3], columns=["bent", "straight", "shifted"])
    powers = torch.tensor([0.0, 1.0, 1.0])
    emission = PowerTransformed(powers, torch.tensor([0.0, 0.0, 5.0]), torch.ones(3))
    model = SemiCrowdsourcedMixture(
        DirichletWeights(2, 1.0), GaussianComponents(2, 3), Selected(emission, torch.ones(3) > 0)
    )
    guide = MessagePassingGuide(model)
    tree = to_arviz(quiet_fit(model, guide, CrowdData(features)), 3, log_likelihood=False)
    names = ["bent (transformed)", "straight", "shifted (transformed)"]
    assert tree["posterior"]["dim"].values.tolist() == names
