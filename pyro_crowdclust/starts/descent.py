"""Training of a classifier on views of items, by AdamW with a running mean of the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.networks.views import View

# Number of items per forward pass without a step, such as those that patterns are learned from.
ROWS_PER_PASS = 1024
_WEIGHT_DECAY = 0.05


@runtime_checkable
class SupportsLearnPatterns(Protocol):
    """A network whose first filters are learned from patches of the images, before training."""

    def learn_patterns(
        self, images: Float[Tensor, "item feature"], generator: torch.Generator
    ) -> None:
        """Learn the filters from some images."""


def descend(
    network: nn.Module,
    loss: Callable[[int, nn.Module], Float[Tensor, ""]],
    *,
    steps: int,
    learning_rate: float,
    memory: float,
    rising: float,
) -> None:
    """Train a network by AdamW with a rate that rises and falls once; keep the running mean.

    The network is in training mode meanwhile, the running mean is not.

    Parameters
    ----------
    network
        Changed in place.
    loss
        A function of the number of the step and of the running mean of the network.
    steps
        Number of steps.
    learning_rate
        Of AdamW.
    memory
        Decay of the running mean: it moves by ``1 - memory`` per step, by more in the first ones.
    rising
        Share of the steps in which the rate rises.
    """

    def moved(average: Tensor, value: Tensor, count: Tensor | int) -> Tensor:
        return running_mean(average, value, int(count), memory)

    averaged = AveragedModel(network, avg_fn=moved, use_buffers=True)
    averaged.module.eval()
    was_training = network.training
    network.train()
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=learning_rate, weight_decay=_WEIGHT_DECAY
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, steps, pct_start=rising
    )
    for step in range(steps):
        optimizer.zero_grad()
        loss(step, averaged.module).backward()
        optimizer.step()
        schedule.step()
        averaged.update_parameters(network)
    network.load_state_dict(averaged.module.state_dict())
    network.train(was_training)


def running_mean(average: Tensor, value: Tensor, count: int, memory: float) -> Tensor:
    """The running mean after ``count`` values and one more; whole numbers are not averaged.

    Examples
    --------
    >>> running_mean(torch.tensor(1.0), torch.tensor(2.0), 1, memory=0.9)
    tensor(1.5000)
    """
    if not value.is_floating_point():
        return value
    return average.lerp(value, max(1 - memory, 1 / (1 + count)))


def features_for(
    network: nn.Module, data: CrowdData, items: Int[Tensor, " item"]
) -> Float[Tensor, "item feature"]:
    """Features of some items, as rows in the precision of the network."""
    return data.rows(items).flatten(1).to(next(network.parameters()))


def learn_patterns(network: nn.Module, data: CrowdData, generator: torch.Generator) -> None:
    """Call ``learn_patterns`` of a network that has it, with some of the items."""
    if isinstance(network, SupportsLearnPatterns):
        some = torch.randint(data.num_items, (ROWS_PER_PASS,), generator=generator)
        network.learn_patterns(features_for(network, data, some), generator)


def random_views(
    view: View, features: Float[Tensor, "item feature"], generator: torch.Generator
) -> Float[Tensor, "item feature"]:
    """A view of every item, with amounts that are uniform between -1 and 1."""
    amounts = torch.rand(len(features), view.num_random, generator=generator)
    return view(features, (2 * amounts - 1).to(features.device))
