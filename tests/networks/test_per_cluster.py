"""Networks that know the cluster are loops over clusters; rows are loops over items."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pyro_crowdclust.distributions import Rows
from pyro_crowdclust.networks import ClusterMLP, ClusterRecognition, CodedMLP, SkipMLP

K, SIZES = 4, (3, 6, 5, 2)
NETWORKS = {"coded": CodedMLP, "one each": ClusterMLP}
every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)


def randomized(network: nn.Module) -> nn.Module:
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.5)
    return network


def alone(network: nn.Module, x: torch.Tensor, cluster: int) -> torch.Tensor:
    """The network of one cluster, layer by layer, for one row."""
    if isinstance(network, CodedMLP):
        hidden = torch.relu(network.first.weight @ x + network.first.bias + network.code[cluster])
        for layer in network.hidden:
            hidden = torch.relu(layer.weight @ hidden + layer.bias)
        linear = network.skip.weight @ x + network.skip.bias
        return linear + network.output.weight @ hidden
    hidden = x
    for weight, bias in zip(network.weights, network.biases, strict=True):
        hidden = torch.relu(hidden @ weight[cluster] + bias[cluster, 0])
    linear = x @ network.skip_weight[cluster] + network.skip_bias[cluster, 0]
    return linear + hidden @ network.output[cluster]


@every_network
@pytest.mark.parametrize("one_hot", [True, False])
def test_rows_go_through_the_network_of_their_cluster(make, one_hot):
    network = randomized(make(SIZES, K))
    z = torch.eye(K)[[2, 0, 2, 2, 1]] if one_hot else torch.rand(5, K).round(decimals=1)
    rows = Rows.of(z)
    x = torch.randn(len(rows.item), 3, requires_grad=True)
    found = network(x, rows)
    expected = torch.stack(
        [alone(network, row, int(k)) for row, k in zip(x, rows.cluster, strict=True)]
    )
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    parts = [x, *network.parameters()]
    ours, theirs = (torch.autograd.grad((out * upstream).sum(), parts) for out in (found, expected))
    torch.testing.assert_close(ours, theirs)


def test_rows_add_up_to_items():
    z = torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.0, 0.8], [0.0, 0.0, 0.0]])
    rows = Rows.of(z)
    values = torch.randn(3)
    expected = torch.stack([values[0], 0.2 * values[1] + 0.8 * values[2], torch.tensor(0.0)])
    torch.testing.assert_close(rows.total(values), expected)
    filled = rows.by_cluster(values[:, None])
    assert filled.shape == (3, 1, 1)
    torch.testing.assert_close(rows.by_row(filled)[:, 0], values)


@every_network
def test_a_linear_start_holds_for_every_cluster(make):
    network = make(SIZES, K)
    weight, bias = torch.randn(2, 2), torch.randn(2)
    network.set_linear(weight, bias)
    x = torch.randn(K, 3)
    torch.testing.assert_close(network(x, Rows.of(torch.eye(K))), x[:, :2] @ weight.mT + bias)


@every_network
def test_a_linear_start_of_more_inputs_is_that_of_the_first(make):
    network = make(SIZES, K)
    weight, bias = torch.randn(2, 5), torch.randn(2)
    network.set_linear(weight, bias)
    x = torch.randn(K, 3)
    torch.testing.assert_close(network(x, Rows.of(torch.eye(K))), x @ weight[:, :3].mT + bias)


@every_network
def test_a_network_needs_a_hidden_layer(make):
    with pytest.raises(ValueError, match=r"sizes is \(3, 2\), but must have"):
        make((3, 2), K)


def test_recognition_starts_at_the_linear_map_in_all_layers():
    recognition = ClusterRecognition(SkipMLP((6, 5, 4)), CodedMLP((4, 7, 2 * 5), K), [2, 3])
    weight, bias = torch.randn(2, 6), torch.randn(2)
    recognition.start_at_linear(weight, bias)
    features, rows = torch.randn(K, 6), Rows.of(torch.eye(K))
    top, below = recognition.latents(recognition.trunk(features), rows)
    linear = features @ weight.mT + bias
    torch.testing.assert_close(top.mean, linear)
    torch.testing.assert_close(below.mean, nn.functional.pad(linear, (0, 1)))
    torch.testing.assert_close(top.scale, torch.full_like(top.scale, 0.2))


@pytest.mark.parametrize(
    ("trunk", "head", "message"),
    [
        (SkipMLP((6, 5, 4)), CodedMLP((4, 7, 3), K), "head returns 3 numbers"),
        (SkipMLP((6, 5, 1)), CodedMLP((1, 7, 4), K), "trunk returns 1 numbers"),
        (nn.Linear(6, 4), CodedMLP((4, 7, 4), K), "trunk is a Linear, but must have a linear skip"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(trunk, head, message):
    with pytest.raises(ValueError, match=message):
        ClusterRecognition(trunk, head, [2])
