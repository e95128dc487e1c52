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

from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.inference import LossTerms
from pyro_crowdclust.minibatches import Batch, MinibatchSampler
from pyro_crowdclust.training import NaturalGradient
from pyro_crowdclust.training.elbo import default_elbo

from .crowds import amortized_pair, message_passing_pair, plain_pair, quiet_fit
from .ranks_fit import crowd_of_pages, dawid_skene_pair, labelled_crowd

PAIRS = {
    "message passing": (message_passing_pair, crowd_of_pages),
    "amortized": (amortized_pair, crowd_of_pages),
    "plain": (plain_pair, crowd_of_pages),
    "class labels": (dawid_skene_pair, labelled_crowd),
}
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
    with pyro.validation_enabled(False), LossTerms() as terms:
        loss = elbo.differentiable_loss(model, guide, batch)
    return loss + terms.total()


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
        elbo = default_elbo(kind == "amortized")
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
    loss = loss_of(model, guide, batch.to("meta"), default_elbo(False))
    loss.backward()
    assert loss.device.type == "meta"
    posteriors = [part for part in guide.modules() if isinstance(part, ConjugatePosterior)]
    NaturalGradient(posteriors, 0.5).step()
