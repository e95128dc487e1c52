"""Steps that teach: the running mean that remains, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pyro_crowdclust.starts import descent
from pyro_crowdclust.starts.descent import descend, random_views, running_mean


@pytest.mark.parametrize(("memory", "expected"), [(1.0, 2.5), (0.0, 4.0), (0.5, 3.125)])
def test_the_running_mean_is_the_mean_until_it_forgets(memory, expected):
    average = torch.tensor(1.0)
    for count, value in enumerate((2.0, 3.0, 4.0), start=1):
        average = running_mean(average, torch.tensor(value), count, memory)
    assert float(average) == pytest.approx(expected)


def test_the_loss_falls_and_the_mean_of_all_steps_remains(monkeypatch):
    monkeypatch.setattr(descent, "_WEIGHT_DECAY", 0.0)
    network = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(network.weight, 3.0)
    seen, averages = [], []

    def loss(step: int, average: nn.Module) -> Tensor:
        assert step == len(seen)
        seen.append(network.weight.item())
        averages.append(average.weight.item())
        return (network.weight - 1).square().sum()

    settings = {"learning_rate": 0.2, "memory": 1.0, "rising": 0.2}
    descend(network, loss, steps=40, **settings)
    assert abs(seen[-1] - 1) < 0.5 < seen[0] - 1
    for step in range(1, 40):
        assert averages[step] == pytest.approx(sum(seen[1 : step + 1]) / step)
    assert network.weight.item() == pytest.approx(averages[-1], abs=0.05)


@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_in_its_training_mode_and_the_mean_is_not(training):
    network = nn.Sequential(nn.Linear(1, 1), nn.Dropout()).train(training)

    def loss(step: int, average: nn.Module) -> Tensor:
        modes.append((network.training, average.training))
        return network[0].weight.square().sum()

    modes: list[tuple[bool, bool]] = []
    settings = {"learning_rate": 0.1, "memory": 0.9, "rising": 0.5}
    descend(network, loss, steps=3, **settings)
    assert modes == [(True, False)] * 3
    assert network.training == training


class Amounts:
    """Moves every feature by its amount."""

    num_random = 2

    def __call__(self, features: Tensor, amounts: Tensor) -> Tensor:
        return features + amounts


def test_amounts_are_between_minus_one_and_one():
    amounts = random_views(Amounts(), torch.zeros(1000, 2), torch.Generator().manual_seed(0))
    assert amounts.shape == (1000, 2)
    assert -1 <= float(amounts.min()) < -0.95
    assert 0.95 < float(amounts.max()) <= 1
    assert abs(float(amounts.mean())) < 0.05
