"""Guides with a row of parameters for every item of the fit say nothing of new ones."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal, AutoNormal
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.minibatches import ItemPlate

from ..crowds import quiet_fit

ENUMERATE = {"enumerate": "parallel"}
NUM_ITEMS = 60
KINDS = torch.arange(NUM_ITEMS) % 2
NOISE = torch.randn(NUM_ITEMS, generator=torch.Generator().manual_seed(0)) / 2
FEATURES = (6.0 * KINDS - 3 + NOISE).double()[:, None]


def plate_of_items(batch):
    return pyro.plate("items", batch.num_items, subsample=batch.items)


def model(batch, has_height=True):
    """Clusters of heights that were measured with noise, or of the measurements themselves."""
    with pyro.plate("cluster", 2):
        loc = pyro.sample("loc", dist.Normal(0.0, 5.0))
    with plate_of_items(batch):
        z = pyro.sample("z", dist.Categorical(torch.ones(2)), infer=ENUMERATE)
        height = pyro.sample("height", dist.Normal(loc[z], 0.5)) if has_height else loc[z]
        pyro.sample("o", dist.Normal(height, 0.3), obs=batch.features[:, 0])


OF_HEIGHTS, plain = poutine.block(model, hide=["z"]), partial(model, has_height=False)


def start(site):
    return torch.tensor([-2.0, 2.0]) if site["name"] == "loc" else torch.zeros(site["fn"].shape())


def places():
    """A guide of ``loc`` that needs no training."""
    with pyro.plate("cluster", 2):
        pyro.sample("loc", dist.Delta(pyro.param("at", torch.tensor([-3.0, 3.0]))))


def by_position(batch):
    places()
    height = pyro.param("height of items", FEATURES[:, 0])
    with plate_of_items(batch):
        pyro.sample("height", dist.Normal(height[batch.items], 0.1))


def by_row(batch):
    places()
    height = pyro.param("height of items", FEATURES[:, 0])
    with pyro.plate("items", len(batch.items)):
        pyro.sample("height", dist.Normal(height, 0.1))


def code_by_position(batch):
    places()
    logits = pyro.param("logits", torch.stack([-FEATURES[:, 0], FEATURES[:, 0]], -1))
    with plate_of_items(batch):
        code = dist.Categorical(logits=9 * logits[batch.items])
        pyro.sample("z", code, infer=ENUMERATE)


def autoguide(kind, **options):
    return kind(OF_HEIGHTS, init_loc_fn=start, **options)


REFUSED = {
    "AutoNormal": (model, lambda: autoguide(AutoNormal, create_plates=plate_of_items)),
    "AutoNormal in ItemPlate": (
        model,
        lambda: autoguide(AutoNormal, create_plates=partial(ItemPlate, "items")),
    ),
    "AutoDelta": (model, lambda: autoguide(AutoDelta, create_plates=plate_of_items)),
    "rows of an autoguide": (model, lambda: autoguide(AutoNormal)),
    "one normal of all": (model, lambda: autoguide(AutoDiagonalNormal)),
    "pyro.param": (model, lambda: by_position),
    "rows of pyro.param": (model, lambda: by_row),
    "codes": (plain, lambda: code_by_position),
    "in EnumeratedGuide": (
        model,
        lambda: EnumeratedGuide(model, autoguide(AutoNormal, create_plates=plate_of_items)),
    ),
}


class Amortized(nn.Module):
    """A guide of heights that reads the measurements."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(1, 1)
        nn.init.ones_(self.net.weight)

    def forward(self, batch):
        places()
        with plate_of_items(batch):
            pyro.sample("height", dist.Normal(self.net(batch.features)[:, 0], 0.1))


class Codes(nn.Module):
    """One of clusters."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(1, 2)
        self.net.weight.data = torch.tensor([[-1.0], [1.0]])

    def forward(self, batch):
        places()
        with plate_of_items(batch):
            pyro.sample("z", dist.Categorical(logits=9 * self.net(batch.features)), infer=ENUMERATE)


def always_the_same(batch):
    places()
    with plate_of_items(batch):
        pyro.sample("height", dist.Normal(0.0, pyro.param("scale", torch.tensor(0.01))))


ALLOWED = {
    "amortized": (model, Amortized),
    "amortized codes": (plain, Codes),
    "globals": (plain, lambda: AutoNormal(poutine.block(plain, hide=["z"]), init_loc_fn=start)),
    "in EnumeratedGuide": (plain, lambda: EnumeratedGuide(plain, lambda batch: places())),
}


def fitted(a_model, guide):
    adam = partial(torch.optim.Adam, lr=0.01)
    return quiet_fit(a_model, guide, CrowdData(FEATURES), epochs=3, batch_size=None, optim=adam)


@pytest.mark.parametrize("name", REFUSED)
def test_new_items_of_latents_by_position_are_refused(name):
    a_model, make = REFUSED[name]
    result = fitted(a_model, make())
    site = "z" if name == "codes" else "height"
    said = f"has '{site}' of the items of the fit only, by their positions: it cannot infer"
    if name == "rows of pyro.param":
        said = "has latents of the 60 items of the fit only .*: it cannot infer those of new items"
    for new in (FEATURES, FEATURES[:1], FEATURES[:7]):
        for read in (result.predict, result.transform, result.predict_proba):
            with pytest.raises(ValueError, match=said):
                read(new)
        with pytest.raises(ValueError, match=said):
            result.update(features=new)
    assert result.probabilities.shape == (NUM_ITEMS, 2)  # of its own items it knows enough


@pytest.mark.parametrize("name", ALLOWED)
def test_new_items_of_guides_that_read_features_are_predicted(name):
    a_model, make = ALLOWED[name]
    result = fitted(a_model, make())
    for new in (FEATURES.flip(0), FEATURES[:1], FEATURES.repeat(2, 1).reshape(-1, 1)):
        found = result.predict(new)
        expected = np.where(new[:, 0] < 0, *result.assignments[:2])
        np.testing.assert_array_equal(found, expected)
    more = result.update(features=FEATURES[:7], epochs=1)
    assert more.data.num_items == NUM_ITEMS + 7


def test_latents_that_are_the_same_for_all_items_are_no_positions():
    result = fitted(model, always_the_same)
    assert len(result.predict(FEATURES[:7])) == 7
