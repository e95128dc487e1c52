"""Copies of what training changes: autoguides keep their model, users their tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoDelta, AutoGuideList, AutoNormal

from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.protocols import unwrapped
from pyro_crowdclust.training.copies import copied_into

from ..crowds import quiet_fit
from ..plain_pyro import autoguide_location, noise_around
from ..problems import location_model


def test_memory_that_fits_is_written_again():
    first = torch.rand(3, 2)
    old = copied_into(None, first)
    assert old.data_ptr() != first.data_ptr()
    new = torch.rand(3, 2, requires_grad=True)
    assert copied_into(old, new) is old
    torch.testing.assert_close(old, new.detach(), rtol=0, atol=0)
    assert not old.requires_grad


@pytest.mark.parametrize("new", [torch.rand(2, 3), torch.rand(3, 2, dtype=torch.float32)])
def test_memory_that_does_not_fit_is_left_alone(new):
    old = torch.zeros(3, 2, dtype=torch.float64)
    copy = copied_into(old, new)
    assert copy.dtype == new.dtype
    assert torch.equal(copy, new)
    assert copy.data_ptr() != new.data_ptr()
    assert not old.any()


def test_autoguides_keep_their_model():
    """Copying a Pyro autoguide makes it forget; a fit must not."""
    guide = AutoGuideList(location_model)
    guide.append(AutoNormal(location_model))
    inner = guide[0].model
    result = quiet_fit(location_model, guide, noise_around(1.0))
    assert guide.model is result.guide.model is location_model
    assert guide[0].model is inner
    assert callable(result.guide[0].model)
    assert guide[0].master() is guide
    assert result.guide[0].master() is result.guide
    assert guide[0].prototype_trace is None
    assert "mean" in result.guide[0].prototype_trace.nodes


def test_autoguides_in_handlers_keep_their_model():
    guide = poutine.scale(AutoNormal(location_model), 1.0)
    train = partial(quiet_fit, data=noise_around(1.0))
    result, other = train(location_model, guide), train(location_model, unwrapped(guide))
    assert (
        autoguide_location(other)
        == dict(unwrapped(result.guide).named_parameters())["locs.mean_unconstrained"]
    )
    assert repr(result).splitlines()[1].startswith("location_model, AutoNormal")


class TestTensorsOfTheUser:
    """Where parameters begin they are, under no constraint, the user's own tensors."""

    FIRST = torch.tensor(0.5)

    def by_param(self, batch: Batch) -> None:
        pyro.sample("mean", dist.Normal(pyro.param("loc", self.FIRST), 0.1))

    def by_function(self, batch: Batch) -> None:
        pyro.sample("mean", dist.Normal(pyro.param("loc", lambda: self.FIRST), 0.1))

    @pytest.mark.parametrize("kind", ["AutoDelta", "AutoNormal", "by_param", "by_function"])
    def test_are_left_as_they_were(self, kind):
        guide: Callable = getattr(self, kind, None)
        if guide is None:
            make = {"AutoDelta": AutoDelta, "AutoNormal": AutoNormal}[kind]
            guide = make(location_model, init_loc_fn=lambda site: self.FIRST)
        results = [quiet_fit(location_model, guide, noise_around(2.0), seed=1) for _ in range(2)]
        assert self.FIRST.detach() == 0.5
        assert results[0].elbo == results[1].elbo
        elbo = results[0].history["elbo"]
        assert elbo.iloc[0] != elbo.iloc[1]
