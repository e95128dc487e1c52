"""Plates of pairs in batches without answers."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyro_crowdclust import CrowdData
from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.inference.empty_plates import explained_empty_plates

from ..crowds import crowd, quiet_fit

SAID = r"the plate 'twos' has size zero \(in model, .*line \d+\).*'if batch.num_pairs:'"


def test_a_mixture_is_told_to_leave_out_the_plate():
    def model(batch):
        items = pyro.plate("items", len(batch.items))
        with items, poutine.scale(scale=batch.item_weight):
            half = dist.Categorical(torch.ones(2))
            z = pyro.sample("z", half, infer={"enumerate": "parallel"})
            pyro.sample("o", dist.Normal(1.0 * z, 1.0), obs=batch.features[:, 0])
        with pyro.plate("twos", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            ends = batch.left, batch.right, batch.num_paired
            same = pyro.sample("same", SameCluster(z, *ends))
            answer = dist.Bernoulli(torch.where(same > 0.5, 0.9, 0.1))
            pyro.sample("label", answer, obs=batch.label)

    with pytest.raises(ValueError, match=SAID):
        quiet_fit(model, EnumeratedGuide(model, lambda batch: None), crowd())


def test_so_is_any_model_of_data_without_answers():
    def model(batch):
        right = pyro.sample("right", dist.Beta(2.0, 1.0))
        with pyro.plate("twos", batch.num_pairs), poutine.scale(scale=batch.pair_weight):
            pyro.sample("label", dist.Bernoulli(right), obs=batch.label)

    with pytest.raises(ValueError, match=SAID):
        quiet_fit(model, lambda batch: None, CrowdData(crowd().features))


def test_other_divisions_by_zero_are_what_they_are():
    with pytest.raises(ZeroDivisionError, match="division"), explained_empty_plates():
        raise ZeroDivisionError("division by zero")
