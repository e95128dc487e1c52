"""Steps that teach: the running mean that remains, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pyro_crowdclust.starts.descent import descend, running_mean


@pytest.mark.parametrize(("memory", "expected"), [(1.0, 2.5), (0.0, 4.0), (0.5, 3.125)])
def test_the_running_mean_is_the_mean_until_it_forgets(memory, expected):
    average = torch.tensor(1.0)
    for count, value in enumerate((2.0, 3.0, 4.0), start=1):
        average = running_mean(average, torch.tensor(value), count, memory)
    assert float(average) == pytest.approx(expected)


def test_the_loss_falls_and_the_mean_of_all_steps_remains():
    network = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(network.weight, 3.0)
    seen, averages = [], []

    def loss(step: int, average: nn.Module) -> Tensor:
        assert step == len(seen)
        seen.append(network.weight.item())
        averages.append(average.weight.item())
        return (network.weight - 1).square().sum()

    settings = {"learning_rate": 0.2, "weight_decay": 0.0, "memory": 1.0, "rising": 0.2}
    descend(network, loss, steps=40, **settings)
    assert abs(seen[-1] - 1) < 0.5 < seen[0] - 1
    for step in range(1, 40):
        assert averages[step] == pytest.approx(sum(seen[1 : step + 1]) / step)
    assert network.weight.item() == pytest.approx(averages[-1], abs=0.05)
