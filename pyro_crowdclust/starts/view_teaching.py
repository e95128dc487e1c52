"""Teaching by views: a classifier learns known clusters, and its own predictions for the rest."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.networks.views import View
from pyro_crowdclust.starts.descent import descend, features_for, learn_patterns, random_views


@dataclass(frozen=True)
class ViewTeaching:
    """Train a classifier on views of items, both those of known cluster and others.

        - mean_i log p(c_i | v(o_i)) - mean_j sum_k q_jk log p(k | v(o_j)),   q_jk ~ p'(k | o_j)^h

    over items i of known cluster c_i and others j, where p' is the running mean of the network over
    its steps (Tarvainen and Valpola 2017), v a random view, and h above 1 sharpens the predictions
    (Berthelot et al. 2019). Training is by AdamW, with a rate that rises and falls once; the
    running mean is kept.

    Attributes
    ----------
    view
        How views are made, e.g. ``RandomPhoto``.
    steps
        Number of steps.
    batch_size
        Number of items of known cluster per step, and of other items.
    alone
        Share of the steps at the beginning that use only items of known cluster.
    sharpness
        h.
    learning_rate
        Of AdamW.
    memory
        Decay of the running mean: it moves by ``1 - memory`` per step, by more in the first ones.
    """

    view: View
    steps: int = 1000
    batch_size: int = 96
    alone: float = 0.4
    sharpness: float = 2.0
    learning_rate: float = 3e-3
    memory: float = 0.998

    def teach(
        self,
        network: nn.Module,
        data: CrowdData,
        clusters: Int[Tensor, " item"],
        generator: torch.Generator,
    ) -> None:
        """Train a network from features to logits, in place."""
        learn_patterns(network, data, generator)
        known, others = (which.nonzero().squeeze(1) for which in (clusters >= 0, clusters < 0))

        def loss(step: int, average: nn.Module) -> Tensor:
            drawn = self._some(known, generator)
            views = random_views(self.view, features_for(network, data, drawn), generator)
            logits = network(views)
            known_loss = nn.functional.cross_entropy(logits, clusters[drawn].to(logits.device))
            if not len(others) or step < self.alone * self.steps:
                return known_loss
            features = features_for(network, data, self._some(others, generator))
            with torch.no_grad():
                found = (self.sharpness * average(features).log_softmax(-1)).softmax(-1)
            logits = network(random_views(self.view, features, generator))
            return known_loss + nn.functional.cross_entropy(logits, found)

        descend(
            network,
            loss,
            steps=self.steps,
            learning_rate=self.learning_rate,
            memory=self.memory,
            rising=0.3,
        )

    def _some(self, items: Int[Tensor, " item"], generator: torch.Generator) -> Tensor:
        return items[torch.randint(len(items), (self.batch_size,), generator=generator)]
