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

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.files import rebuilt
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.inference import LossTerms
from pyro_crowdclust.interface import infer_classes, with_workers_refitted
from pyro_crowdclust.interface.choosing.rereading import with_answers_added, with_components_joined
from pyro_crowdclust.minibatches import Batch, MinibatchSampler, full_batch
from pyro_crowdclust.mixture import SoftmaxRegression
from pyro_crowdclust.networks import OpinionPool, PatchClassifier, SkipMLP, ViewOrItself
from pyro_crowdclust.starts import Distillation, NeighborPartition, TaughtStart, ViewTeaching
from pyro_crowdclust.training import NaturalGradient
from pyro_crowdclust.training.elbo import default_elbo

from .crowds import (
    NUM_WORKERS,
    amortized_pair,
    crowd,
    message_passing_pair,
    plain_mixture,
    plain_pair,
    quiet_fit,
)
from .interface.small_choices import answered, misleading, small
from .ranks_fit import crowd_of_pages, dawid_skene_pair, labelled_crowd
from .striped_photos import SIZE, guide_with, stripes

PAIRS = {
    "message passing": (message_passing_pair, crowd_of_pages),
    "amortized": (amortized_pair, crowd_of_pages),
    "plain": (plain_pair, crowd_of_pages),
    "class labels": (dawid_skene_pair, labelled_crowd),
}


class Shaken:
    """A view: every feature moves a little."""

    num_random = 1

    def __call__(self, features: torch.Tensor, amounts: torch.Tensor) -> torch.Tensor:
        return features + 0.1 * amounts.to(features)


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


def silent_mixture():
    """Model and guide for features alone."""
    model = rebuilt(plain_mixture(), annotators=None)
    return model, MessagePassingGuide(model)


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


@needs_gpu
@pytest.mark.parametrize("kind", PAIRS)
def test_what_was_fitted_on_a_gpu_goes_on_anywhere(kind, tmp_path):
    make, make_data = PAIRS[kind]
    data = make_data()
    result = quiet_fit(*make(), data, epochs=5, device="cuda")
    result.save(tmp_path / "fit")
    on_processor = load(tmp_path / "fit")
    assert np.allclose(on_processor.probabilities, result.probabilities, atol=1e-4)
    again = load(tmp_path / "fit", device="cuda")
    assert np.allclose(again.probabilities, result.probabilities, atol=1e-4)
    for device in ("cpu", "cuda"):
        further = quiet_fit(result.model, result.guide, data, epochs=2, device=device)
        assert np.isfinite(further.history["elbo"]).all()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_answers_are_added_to_a_fit_where_it_is(device):
    silent, heard = silent_mixture(), crowd()
    fitted = quiet_fit(*silent, heard.with_answers(None), device=device)
    for add in (with_answers_added, with_components_joined):
        read = add(fitted, heard, 0.5)
        assert {one.device.type for one in read.guide.state_dict().values()} == {device}
        assert np.isfinite(read.workers["sensitivity"]).all()
        assert np.isfinite(with_workers_refitted(read).elbo)


@needs_gpu
def test_two_workers_have_one_rate_on_a_gpu():
    label = [0, 1, 2, 0, 1, 2, 0, 1, 2, 1]
    said = {"item": [0, 1, 2, 3, 4] * 2, "worker": [0] * 5 + [1] * 5, "label": label}
    result = infer_classes(CrowdData(None, labels=said), device="cuda", progress=False)
    assert next(result.guide.parameters()).device.type == "cuda"
    assert np.isfinite(result.confusion.to_numpy()).all()


@needs_gpu
@pytest.mark.long
def test_a_choice_is_corrected_on_a_gpu():
    """Where the answers are about other clusters than the features show."""
    choice = small(answered(*misleading(160), 60, range(60)), 2, 4)
    result = choice.fit(progress=False, device="cuda")
    assert "explain the answers worse than partitions" in result.chosen.reason
    assert np.isfinite(result.workers["sensitivity"]).all()


def test_parts_that_a_model_gains_are_where_the_guide_is():
    model, guide = silent_mixture()
    for part in (model, guide):
        part.to("meta")
    other = guide.for_model(rebuilt(model, annotators=TwoCoin(NUM_WORKERS)))
    assert {one.device.type for one in other.state_dict().values()} == {"meta"}


@pytest.mark.parametrize("device", ["cpu", "meta", pytest.param("cuda", marks=needs_gpu)])
def test_probabilities_of_class_labels_are_where_the_positions_are(device):
    data = labelled_crowd()
    guide = quiet_fit(*dawid_skene_pair(), data).guide
    labels = full_batch(data).to(device).class_labels
    position = torch.zeros(4, dtype=torch.int64, device=device)
    found = guide.answer_probabilities(labels, position, position, position)
    assert (found.device.type, found.shape) == (device, (4, data.num_classes))


@pytest.mark.parametrize("device", ["cpu", "meta", pytest.param("cuda", marks=needs_gpu)])
def test_coefficients_are_drawn_where_the_regression_is(device):
    drawn = SoftmaxRegression(3, 2).to(device).distribution().rsample()
    assert drawn.device.type == device


@needs_gpu
@pytest.mark.parametrize(
    ("classifier", "teaching"),
    [
        (SkipMLP((SIZE**2, 8, 3)), ViewTeaching(ViewOrItself(Shaken()), steps=200)),
        (
            OpinionPool([PatchClassifier((1, SIZE, SIZE), 3, 8), SkipMLP((SIZE**2, 8, 3))]),
            Distillation(ViewOrItself(Shaken()), steps=200),
        ),
    ],
)
def test_networks_are_taught_on_a_gpu(classifier, teaching):
    images, kind = stripes(300, seed=0)
    guide = guide_with(classifier)
    clusters = torch.where(torch.arange(300) < 100, kind, -1)
    result = quiet_fit(
        guide.model,
        guide,
        CrowdData(images),
        initialize=TaughtStart(clusters, teaching, device="cuda"),
        epochs=2,
        device="cuda",
    )
    assert next(result.guide.parameters()).device.type == "cuda"
    assert result.predict_proba(images).shape == (300, 3)


@needs_gpu
def test_neighbors_are_learned_on_a_gpu():
    images, _ = stripes(300, seed=0)
    partition = NeighborPartition(
        lambda count: SkipMLP((SIZE**2, 8, count)), ViewOrItself(Shaken()), steps=50, device="cuda"
    )
    found = partition(images, 5, torch.Generator().manual_seed(0))
    assert found.device.type == "cpu"
    assert torch.allclose(found.sum(1), torch.ones(300, dtype=found.dtype))


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
