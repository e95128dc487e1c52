"""Parameters of items are in the order of the data, where items with answers do not come first."""

from __future__ import annotations

from functools import partial

import pyro.distributions as dist
import pytest
import torch
from pyro import poutine, sample
from pyro.infer.autoguide import AutoDelta, AutoNormal

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import EnumeratedGuide
from pyro_crowdclust.minibatches import ItemPlate, full_batch

from ..crowds import quiet_fit

NUM_ITEMS = 12
FEATURES = torch.linspace(-4, 4, NUM_ITEMS, dtype=torch.float64)[:, None]
PAIRS = {"left": [10], "right": [9], "worker": [0], "label": [1]}
DATA = CrowdData(FEATURES, PAIRS)
WHOLE = full_batch(DATA)
ADAM = partial(torch.optim.Adam, lr=0.1)


def plate_of_items(batch):
    return ItemPlate("items", batch)


def measured(batch):
    """``h_i ~ N(0, 5)`` and ``o_i ~ N(h_i, 0.1)``, so that h_i is nearly o_i."""
    with plate_of_items(batch):
        h = sample("h", dist.Normal(torch.zeros((), dtype=torch.float64), 5.0))
        sample("o", dist.Normal(h, 0.1), obs=batch.features[:, 0])


def mixture(batch):
    """The same in two clusters around -3 and 3: z_i is the sign of o_i."""
    with plate_of_items(batch):
        half = dist.Categorical(torch.ones(2, dtype=torch.float64))
        z = sample("z", half, infer={"enumerate": "parallel"})
        h = sample("h", dist.Normal(6.0 * z.double() - 3, 1.0))
        sample("o", dist.Normal(h, 0.1), obs=batch.features[:, 0])


def fitted(model, guide, batch_size, epochs=200):
    return quiet_fit(model, guide, DATA, batch_size=batch_size, epochs=epochs, optim=ADAM)


def autoguide(kind, model):
    start = {"h": torch.zeros((), dtype=torch.float64)}
    return kind(
        poutine.block(model, hide=["z"]),
        init_loc_fn=lambda site: start[site["name"]].expand(site["fn"].batch_shape),
        create_plates=plate_of_items,
    )


def is_near_the_features(guide):
    if isinstance(guide, AutoDelta):  # whose median is of the items of a batch
        return torch.allclose(guide.median(WHOLE)["h"], WHOLE.features[:, 0], atol=0.3)
    return torch.allclose(guide.median()["h"], FEATURES[:, 0], atol=0.3)


@pytest.mark.parametrize("batch_size", [None, 6])
@pytest.mark.parametrize("kind", [AutoNormal, AutoDelta])
def test_parameters_are_by_position(kind, batch_size, tmp_path):
    result = fitted(measured, autoguide(kind, measured), batch_size)
    assert is_near_the_features(result.guide)
    # Of items whose parameters are another's, it would be less than -1000.
    assert result.elbo > -60
    result.save(tmp_path / "fit")
    opened = load(tmp_path / "fit", measured, autoguide(kind, measured), DATA)
    assert is_near_the_features(opened.guide)
    assert opened.elbo_of(WHOLE) > -60


@pytest.mark.parametrize(("wrap", "batch_size"), [(False, None), (True, None), (True, 6)])
def test_clusters_are_those_of_the_items(wrap, batch_size):
    guide = autoguide(AutoNormal, mixture)
    guide = EnumeratedGuide(mixture, guide) if wrap else guide
    result = fitted(mixture, guide, batch_size)
    assert is_near_the_features(result.guide.of_globals if wrap else result.guide)
    assert result.assignments.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("batch_size", [None, 6])
def test_log_likelihoods_are_those_of_the_items(batch_size):
    """``log p(o_i) = log N(o_i | 0, sqrt(5^2 + 0.1^2))``, by importance sampling of h_i."""
    result = fitted(measured, autoguide(AutoNormal, measured), batch_size)
    found = torch.from_numpy(result.to_arviz(3)["log_likelihood"]["features"].values).mean((0, 1))
    exact = dist.Normal(0.0, 25.01**0.5).log_prob(FEATURES[:, 0])
    torch.testing.assert_close(found, exact, atol=1.0, rtol=0)


def test_updates_with_answers_about_others_keep_the_items():
    result = fitted(measured, autoguide(AutoNormal, measured), None)
    more = {"left": [5], "right": [7], "worker": [0], "label": [0]}
    updated = result.update(more, epochs=1, optim=partial(torch.optim.Adam, lr=1e-6))
    assert updated.data.annotated_items.tolist() == [5, 7, 9, 10]
    assert is_near_the_features(updated.guide)
    assert updated.elbo > -60
