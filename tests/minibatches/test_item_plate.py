"""The plate of the items: rows of parameters by position in the data, and weights of items."""

from __future__ import annotations

import dataclasses

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.minibatches import (
    ItemPlate,
    MinibatchSampler,
    full_batch,
    item_batches,
)

PAIRS = {"left": [4], "right": [2], "worker": [0], "label": [1]}
DATA = CrowdData(torch.eye(6), PAIRS)
WHOLE = full_batch(DATA)
SOME = next(item_batches(DATA, 2, torch.tensor([5, 1])))
COPIES = next(item_batches(DATA, 6, torch.tensor([5, 1]).repeat(3)))
MORE_COPIES = next(item_batches(DATA, 8, torch.tensor([5, 1]).repeat(4)))


@pytest.fixture(autouse=True)
def own_parameters():
    with pyro.get_param_store().scope():
        yield


@pytest.mark.parametrize("batch", [WHOLE, SOME, COPIES, MORE_COPIES])
def test_rows_of_parameters_are_those_of_the_items(batch):
    table = torch.arange(12.0).double().reshape(6, 2)
    with ItemPlate("items", batch) as items:
        rows = pyro.param("rows", table, event_dim=1)
        data = pyro.subsample(table, event_dim=1)
        common = pyro.param("common", torch.zeros(1), event_dim=0)
        apart = pyro.param("apart", table)
        x = pyro.sample("x", dist.Normal(rows, 1.0).to_event(1))
    assert torch.equal(items, batch.items)
    assert torch.equal(rows, table[batch.items])
    assert torch.equal(data, rows)
    assert common.shape == (1,)
    assert torch.equal(apart, table)
    assert x.shape == (len(batch.items), 2)


def test_gradients_reach_the_rows_of_the_items():
    with ItemPlate("items", WHOLE):
        rows = pyro.param("rows", torch.zeros(6, dtype=torch.float64), event_dim=0)
    (rows * WHOLE.features[:, 3]).sum().backward()
    gradient = pyro.param("rows").unconstrained().grad
    assert gradient.tolist() == [0, 0, 0, 1, 0, 0]


def test_rows_for_some_items_are_refused():
    said = r"'rows' has 5 rows, but must have one for each of the 6 items: .*ItemPlate\('items'"
    with ItemPlate("items", SOME), pytest.raises(ValueError, match=said):
        pyro.param("rows", torch.zeros(5), event_dim=0)


def test_inside_a_plate_that_draws_columns():
    table = torch.arange(24.0).reshape(4, 6)
    with (
        pyro.plate("columns", 4, subsample=torch.tensor([3, 0]), dim=-2),
        ItemPlate("items", WHOLE),
    ):
        rows = pyro.param("rows", table, event_dim=0)
    assert torch.equal(rows, table[[3, 0]][:, WHOLE.items])


class TestWeights:
    @staticmethod
    def minibatch():
        generator = torch.Generator().manual_seed(0)
        return next(iter(MinibatchSampler(DATA, batch_size=2, generator=generator)))

    @staticmethod
    def scale_of(batch, dim=None):
        with poutine.trace() as run, poutine.scale(scale=3.0), ItemPlate("items", batch, dim):
            pyro.sample("x", dist.Normal(0.0, 1.0))
        site = run.trace.nodes["x"]
        assert site["value"].shape == (len(batch.items), *[1] * (-(dim or -1) - 1))
        return site["scale"]

    def test_are_those_of_the_items(self):
        batch = self.minibatch()
        weight = batch.item_weight
        assert weight.unique().numel() > 1
        assert torch.equal(self.scale_of(batch), 3 * weight)
        assert torch.equal(self.scale_of(batch, -2), 3 * weight[:, None])

    def test_are_one_number_if_they_are_equal(self):
        assert self.scale_of(WHOLE) == 3.0
        heavier = dataclasses.replace(WHOLE, item_weight=2 * WHOLE.item_weight)
        assert self.scale_of(heavier) == 6.0
