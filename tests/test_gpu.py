"""Fits on a GPU: the same loss as on the processor; and steps that do not wait for the device.

The second needs no GPU: tensors on torch's device ``meta`` have shapes but no values, so whatever
reads a number, or mixes devices, is an error there.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import pyro
import pytest
import torch
from pyro.infer import Trace_ELBO, TraceEnum_ELBO

from pyro_crowdclust.batches import Batch, MinibatchSampler
from pyro_crowdclust.device_elbo import DeviceELBO
from pyro_crowdclust.fit import default_elbo
from pyro_crowdclust.optim import NaturalGradient
from pyro_crowdclust.priors import ConjugatePosterior

from .crowds import amortized_pair, message_passing_pair, plain_pair, quiet_fit
from .ranks_fit import crowd_of_pages, dawid_skene_pair, labelled_crowd

PAIRS = {
    "message passing": (message_passing_pair, crowd_of_pages),
    "amortized": (amortized_pair, crowd_of_pages),
    "plain": (plain_pair, crowd_of_pages),
    "class labels": (dawid_skene_pair, labelled_crowd),
}
# Pyro's bound of enumerated sites reads some numbers of its own.
TRACED = ["message passing", "plain", "class labels"]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def started(kind: str, dtype: torch.dtype):
    """Model, guide and a minibatch, at a start."""
    make, make_data = PAIRS[kind]
    data = make_data()
    result = quiet_fit(*make(), data, epochs=1, dtype=dtype)
    sampler = MinibatchSampler(
        data, batch_size=10, answers_per_step=40, generator=torch.Generator().manual_seed(0)
    )
    return result.model, result.guide, next(iter(sampler)).to(None, dtype)


def loss_of(model, guide, batch, elbo) -> torch.Tensor:
    with pyro.validation_enabled(False):
        loss = elbo.differentiable_loss(model, guide, batch)
    auxiliary = getattr(guide, "auxiliary_loss", None)
    return loss if auxiliary is None else loss + auxiliary


@needs_gpu
@pytest.mark.parametrize("kind", PAIRS)
def test_processor_and_gpu_agree_on_a_step(kind):
    model, guide, batch = started(kind, torch.float32)
    numbers = {}

    def noise(self, value):
        shape = tuple(value.shape)
        if shape not in numbers:
            numbers[shape] = torch.randn(shape, dtype=torch.float64)
        return numbers[shape].to(value)

    losses = []
    for device in ("cpu", "cuda"):
        for part in (model, guide):
            part.to(device)
        elbo = default_elbo(kind == "amortized", device)
        with mock.patch.object(Batch, "noise", noise):
            losses.append(loss_of(model, guide, batch.to(device), elbo).item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@needs_gpu
@pytest.mark.parametrize("kind", PAIRS)
def test_fits_on_a_gpu(kind):
    make, make_data = PAIRS[kind]
    result = quiet_fit(*make(), make_data(), epochs=5, device="cuda")
    assert np.isfinite(result.history["elbo"]).all()
    assert result.probabilities.shape[0] == make_data().num_items


# The sparse products of class labels are not there on this device.
@pytest.mark.parametrize("kind", ["message passing", "plain"])
def test_a_step_does_not_wait_for_the_device(kind):
    model, guide, batch = started(kind, torch.float64)
    for part in (model, guide):
        part.to("meta")
    loss = loss_of(model, guide, batch.to("meta"), default_elbo(False, "meta"))
    loss.backward()
    assert loss.device.type == "meta"
    posteriors = [part for part in guide.modules() if isinstance(part, ConjugatePosterior)]
    NaturalGradient(posteriors, 0.5).step()


@pytest.mark.parametrize("kind", TRACED)
def test_the_bound_on_a_device_is_that_of_pyro(kind):
    found = []
    model, guide, batch = started(kind, torch.float64)
    for elbo in (Trace_ELBO(max_plate_nesting=1), DeviceELBO(max_plate_nesting=1)):
        torch.manual_seed(0)
        loss = loss_of(model, guide, batch, elbo)
        leaves = [part for part in guide.parameters() if part.requires_grad]
        found.append([loss, *torch.autograd.grad(loss, leaves, allow_unused=True)])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_guides_that_draw_discrete_values_are_left_to_pyro():
    probability = torch.tensor(0.3, requires_grad=True)

    def model():
        pyro.sample("b", pyro.distributions.Bernoulli(0.5))

    def guide():
        pyro.sample("b", pyro.distributions.Bernoulli(probability))

    torch.manual_seed(0)
    loss = DeviceELBO().differentiable_loss(model, guide)
    (gradient,) = torch.autograd.grad(loss, probability)
    assert gradient.abs() > 0


def test_which_bound_a_fit_takes():
    assert type(default_elbo(False)) is Trace_ELBO
    assert type(default_elbo(False, "cuda:0")) is DeviceELBO
    assert type(default_elbo(True, "cuda")) is TraceEnum_ELBO
