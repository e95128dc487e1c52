"""Distillation: a second classifier learns the predictions of a first one for all items."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.networks.evaluation import evaluating
from pyro_crowdclust.networks.opinions import OpinionPool
from pyro_crowdclust.networks.views import View
from pyro_crowdclust.starts.descent import (
    ROWS_PER_PASS,
    descend,
    features_for,
    learn_patterns,
    random_views,
)
from pyro_crowdclust.starts.ridge_teaching import RidgeTeaching
from pyro_crowdclust.starts.taught import Teacher


@dataclass(frozen=True)
class Distillation:
    """Train the first of two classifiers, then the second on the first one's predictions, by views.

        -mean_i sum_k q_ik log p_2(k | v(o_i)),   q_ik = p_1(k | o_i),
        from the second round on   q_ik ~ (p_1(k | o_i) p'_2(k | o_i))^(1/2)

    over all items i, of known cluster or not, where v is a random view and p' the running mean of
    the second classifier over its steps (Hinton, Vinyals and Dean 2015). The two form an
    ``OpinionPool``, whose output is q from the second round on. Training is by AdamW, with a rate
    that rises and falls once; the running mean is kept.

    Attributes
    ----------
    view
        How views are made, e.g. ``RandomPhoto``.
    first
        How the first classifier is trained on the known clusters.
    steps
        Number of steps.
    rounds
        Number of rounds, with equally many steps each; q is computed at the beginning of each.
    batch_size
        Items in a step.
    learning_rate
        Of AdamW.
    memory
        Decay of the running mean: it moves by ``1 - memory`` per step, by more in the first ones.

    Raises
    ------
    ValueError
        When the network is not an ``OpinionPool`` of two classifiers.
    """

    view: View
    first: Teacher = field(default_factory=RidgeTeaching)
    steps: int = 3000
    rounds: int = 2
    batch_size: int = 128
    learning_rate: float = 4e-3
    memory: float = 0.99

    def teach(
        self,
        network: nn.Module,
        data: CrowdData,
        clusters: Int[Tensor, " item"],
        generator: torch.Generator,
    ) -> None:
        """Train both members of a pool, in place."""
        if not isinstance(network, OpinionPool) or len(network.members) != 2:
            raise ValueError("distillation teaches an OpinionPool of two classifiers")
        first, second = network.members
        self.first.teach(first, data, clusters, generator)
        log_first = _log_probabilities(first, data)
        learn_patterns(second, data, generator)
        begins = {self.steps * one // self.rounds for one in range(1, self.rounds)}
        found = log_first.exp()

        def loss(step: int, average: nn.Module) -> Tensor:
            nonlocal found
            if step in begins:
                found = (log_first + _log_probabilities(average, data)).div(2).softmax(-1)
            drawn = torch.randint(data.num_items, (self.batch_size,), generator=generator)
            views = random_views(self.view, features_for(second, data, drawn), generator)
            return nn.functional.cross_entropy(second(views), found[drawn])

        descend(
            second,
            loss,
            steps=self.steps,
            learning_rate=self.learning_rate,
            memory=self.memory,
            rising=0.2,
        )


@torch.no_grad()
def _log_probabilities(network: nn.Module, data: CrowdData) -> Float[Tensor, "item cluster"]:
    """Log probabilities of a classifier for all items."""
    parts = torch.arange(data.num_items).split(ROWS_PER_PASS)
    with evaluating(network):
        found = torch.cat([network(features_for(network, data, part)) for part in parts])
    return found.log_softmax(-1)
