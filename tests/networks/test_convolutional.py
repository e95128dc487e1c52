"""Networks on images: linear at first, item by item, and inside whole fits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.emissions import BernoulliEmission
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.networks import (
    AmortizedRecognition,
    ConvolutionalClassifier,
    ConvolutionalEncoder,
    GaussianRecognition,
    ResidualClassifier,
    ResidualDecoder,
    ResidualEncoder,
)
from pyro_crowdclust.networks.convolutional import ResidualBlock
from pyro_crowdclust.simulation import simulate_pages
from pyro_crowdclust.starts import PrincipalComponentStart

from ..crowds import DIM, NUM_CLUSTERS, NUM_WORKERS, deep_mixture, quiet_fit

IMAGE = (2, 8, 12)
PIXELS, OUTPUTS = 2 * 8 * 12, 5
SMALL = {"channels": (3, 4), "hidden": 6}
WITH_SKIP = {
    "convolutional encoder": lambda: ConvolutionalEncoder(IMAGE, OUTPUTS, **SMALL),
    "residual encoder": lambda: ResidualEncoder(IMAGE, OUTPUTS, width=2),
    "residual decoder": lambda: ResidualDecoder(OUTPUTS, IMAGE, width=2),
}
NETWORKS = WITH_SKIP | {
    "classifier": lambda: ConvolutionalClassifier((2, 12, 16), OUTPUTS, width=2),
    "residual classifier": lambda: ResidualClassifier((2, 12, 16), OUTPUTS, width=2),
}


def stirred(network: nn.Module) -> nn.Module:
    """The network with no weight at zero."""
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3)
    return network


def inputs_of(network: nn.Module, rows: int = 4) -> torch.Tensor:
    if isinstance(network, ConvolutionalClassifier | ResidualClassifier):
        return torch.randn(rows, 2 * 12 * 16)
    return torch.randn(rows, network.skip.in_features)


@pytest.mark.parametrize("name", WITH_SKIP)
def test_networks_start_linear(name):
    network = WITH_SKIP[name]()
    x = inputs_of(network)
    assert torch.equal(network(x), network.skip(x))
    weight, bias = torch.randn_like(network.skip.weight), torch.randn_like(network.skip.bias)
    network.set_linear(weight, bias)
    torch.testing.assert_close(network(x), x @ weight.mT + bias)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_parameter_learns(name):
    """The zeros of a last layer have a gradient, and once they have moved, all others."""
    network = NETWORKS[name]()
    x = inputs_of(network, rows=20)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(3):
        loss = (network(x) - torch.sin(5 * network(x).detach() + 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(parameter.grad.abs().max() > 0 for parameter in network.parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_items_do_not_see_each_other(name):
    network = stirred(NETWORKS[name]())
    x = inputs_of(network)
    together = network(x)
    alone = torch.cat([network(row) for row in x.split(1)])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("name", WITH_SKIP)
def test_any_batch_shape(name):
    network = stirred(WITH_SKIP[name]())
    x = inputs_of(network, rows=6)
    torch.testing.assert_close(network(x.unflatten(0, (2, 3))), network(x).unflatten(0, (2, 3)))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_drawn_anew(name):
    torch.manual_seed(0)
    one = NETWORKS[name]()
    other = stirred(NETWORKS[name]())
    for network in (one, other):
        torch.manual_seed(0)
        network.draw_parameters()
    # Norms of the classifier keep what they have learned: they hold no draws.
    drawn = [module for module in other.modules() if not isinstance(module, nn.GroupNorm)]
    names = {n for n, m in other.named_modules() if m in drawn}
    theirs = dict(other.named_parameters())
    for parameter, values in one.named_parameters():
        if parameter.rpartition(".")[0] in names:
            assert torch.equal(values, theirs[parameter]), parameter


def test_a_residual_block_is_the_identity_and_two_convolutions():
    encoder = ResidualEncoder(IMAGE, OUTPUTS, width=3)
    x = torch.randn(2, 3, 8, 12)
    for block in (module for module in encoder.modules() if isinstance(module, ResidualBlock)):
        if block.first.in_channels == 3:
            assert torch.equal(block(x), x)
    block = stirred(ResidualBlock(3))
    padded = nn.functional.pad(x, (2, 2, 2, 2))
    middle = nn.functional.conv2d(padded.relu(), block.first.weight, block.first.bias)
    # What the block pads with is zero, not what lies beyond the image.
    inner = nn.functional.pad(middle[..., 1:-1, 1:-1], (1, 1, 1, 1)).relu()
    last = nn.functional.conv2d(inner, block.last.weight, block.last.bias)
    torch.testing.assert_close(block(x), x + last)


def test_depths_are_those_of_the_paper():
    def count(network: nn.Module, kind: type) -> int:
        return sum(isinstance(module, kind) for module in network.modules())

    encoder, decoder = ResidualEncoder((3, 32, 32), 8, 2), ResidualDecoder(4, (3, 32, 32), 2)
    assert count(encoder, ResidualBlock) == count(decoder, ResidualBlock) == 5
    assert count(ConvolutionalClassifier((3, 32, 32), 10, 2), nn.Conv2d) == 9
    seen = []
    encoder.hidden[-1].register_forward_hook(lambda module, given, made: seen.append(given[0]))
    encoder(torch.rand(1, 3072))
    assert seen[0].shape[-2:] == (8, 8)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ConvolutionalEncoder((1, 30, 28), 4),
        lambda: ResidualEncoder((3, 33, 32), 4),
        lambda: ResidualDecoder(4, (3, 32, 33)),
        lambda: ConvolutionalClassifier((3, 30, 30), 4),
    ],
)
def test_images_that_cannot_be_halved(build):
    with pytest.raises(ValueError, match="cannot be halved 2 times: pad them to multiples of 4"):
        build()


def test_images_that_are_too_small():
    with pytest.raises(ValueError, match="too small: pad them to at least 12 x 12"):
        ConvolutionalClassifier((3, 8, 8), 4)


def bars(num_items: int = 90) -> tuple[CrowdData, np.ndarray]:
    """Images of one channel with a bar at the left, in the middle or at the right."""
    rng = np.random.default_rng(0)
    kinds = np.arange(num_items) % NUM_CLUSTERS
    images = 0.1 * rng.random((num_items, 1, 12, 12))
    for image, kind in zip(images, kinds, strict=True):
        image[0, :, 4 * kind + 1 : 4 * kind + 3] += 0.8
    rates = [0.95] * NUM_WORKERS
    pairs = simulate_pages(kinds, rates, rates, pages_per_worker=2, page_size=6, seed=0)
    return CrowdData(images.reshape(num_items, -1), pairs), kinds


def message_passing(model):
    encoder = ConvolutionalEncoder((1, 12, 12), 2 * DIM, **SMALL)
    return MessagePassingGuide(model, GaussianRecognition(encoder, DIM))


def amortized(model):
    recognition = AmortizedRecognition(
        (144, 6),
        DIM,
        NUM_CLUSTERS,
        trunk=ResidualEncoder((1, 12, 12), 6, width=2),
        classifier=ConvolutionalClassifier((1, 12, 12), NUM_CLUSTERS, width=4),
    )
    return AmortizedGuide(model, recognition)


@pytest.mark.long
@pytest.mark.parametrize("make_guide", [message_passing, amortized])
def test_fits_of_images(make_guide, tmp_path):
    data, kinds = bars()
    decoder = ResidualDecoder(DIM, (1, 12, 12), width=2)
    model = deep_mixture(BernoulliEmission(decoder))
    start = PrincipalComponentStart(partition_steps=30)
    result = quiet_fit(model, make_guide(model), data, epochs=5, step_size=0.1, initialize=start)
    # So few steps are enough to leave chance, 0.33, behind.
    assert clustering_accuracy(kinds, result.predict(data.features)) > 0.6
    assert result.model.emission.network.output.weight.abs().max() > 0
    path = tmp_path / "images.safetensors"
    result.save(path)
    again = load(path)
    assert np.array_equal(again.predict_proba(data.features), result.predict_proba(data.features))


def test_networks_of_the_users_are_checked_where_sizes_are_known():
    data, _ = bars()
    model = deep_mixture(BernoulliEmission(ResidualDecoder(DIM, (1, 12, 12), width=2)))
    encoder = ConvolutionalEncoder((1, 12, 8), 2 * DIM, **SMALL)
    guide = MessagePassingGuide(model, GaussianRecognition(encoder, DIM))
    with pytest.raises(ValueError, match="takes 96 features per item, but the data have 144"):
        quiet_fit(model, guide, data)


@pytest.mark.long
def test_a_classifier_learns_a_partition_without_the_trunk():
    data, kinds = bars()
    features = torch.as_tensor(data.features)
    recognition = amortized(deep_mixture()).recognition
    before = [parameter.clone() for parameter in recognition.trunk.parameters()]
    partition = nn.functional.one_hot(torch.as_tensor(kinds), NUM_CLUSTERS).double()
    generator = torch.Generator().manual_seed(0)
    recognition.start_at_partition(features, partition, generator, steps=30)
    logits, _ = recognition.assignment_logits(features)
    assert (logits.argmax(-1).numpy() == kinds).mean() > 0.9
    assert all(map(torch.equal, before, recognition.trunk.parameters()))
