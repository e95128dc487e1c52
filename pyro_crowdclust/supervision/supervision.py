"""What an expert's labels and links do to a mixture: the verbs of a supervision object.

A model is given one beside its annotators: ``SemiCrowdsourcedMixture(..., supervision=...)``. The
library's are ``ClassTable``, ``KnownClusters``, ``CertainLinks`` and ``HiddenMarkovField``; one of
your own derives from ``Supervision``.

``statistics`` are those of the global sites beside the mixture's, by name: its own, and ``owners``
where clusters own components, of which z is then one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from pyro.distributions import TorchDistribution
from torch import Tensor, nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.inference.messages import Conditionals, LocalSolver
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import Coupling, OwnersEvidence


@described
class Supervision(nn.Module):
    """The defaults of every supervision, which say nothing; ``Unsupervised`` is none at all.

    Parameters
    ----------
    unlabeled_weight
        omega in (0, 1]: items without a known label count as omega items in all that is shared
        (weights, components), which makes the bound one of a power likelihood (EM-lambda; Nigam et
        al. 2000, section 5.3.1). Their own q(z) is unchanged. Below 1 it helps where clusters do
        not follow the classes.

    Attributes
    ----------
    hears_experts
        Whether labels or links have a say.
    couples_items
        Whether q(z) of an item depends on that of others, so that z cannot be summed out.
    is_between_components
        Whether what items tell each other hangs on how far their components are apart.
    names_clusters
        Whether labels are numbers of clusters, which must then keep their order.
    sites_of_clusters
        Which of its global sites have a row per cluster.
    num_clusters
        The number of clusters that it was made for; None fits any.
    """

    hears_experts = True
    couples_items = False
    is_between_components = False
    names_clusters = False
    sites_of_clusters: tuple[str, ...] = ()
    num_clusters: int | None = None

    def __init__(self, unlabeled_weight: float = 1.0) -> None:
        super().__init__()
        if not 0 < unlabeled_weight <= 1:
            raise ValueError(f"unlabeled_weight is {unlabeled_weight}, but must be in (0, 1]")
        self.unlabeled_weight = unlabeled_weight

    def priors(self) -> dict[str, ConjugatePrior]:
        """Global sites of its own, by name; a guide has a conjugate posterior for each."""
        return {}

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data hold what is needed."""

    def check_minibatches(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if no minibatch may hold answers and some of the items it ties.

        Asked by ``fit`` where one would.
        """

    def item_weight(self, batch: Batch) -> Float[Tensor, " item"]:
        """Weight of every item in the bound: the inverse inclusion rate, times omega."""
        if self.unlabeled_weight == 1 or batch.known is None:
            return batch.item_weight
        return torch.where(batch.known >= 0, 1.0, self.unlabeled_weight) * batch.item_weight

    def assignment(
        self,
        log_weights: Float[Tensor, "*item cluster"],
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> TorchDistribution:
        """The model's distribution of z, inside the plate of the items."""
        return Assignment(log_weights)

    def item_sites(self, z: Tensor, statistics: Mapping[str, Tensor], batch: Batch) -> None:
        """Sites of the model that belong to single items, inside their plate."""

    def joint_sites(self, z: Tensor, statistics: Mapping[str, Tensor], batch: Batch) -> None:
        """Sites of the model that couple items, outside of all plates."""

    def local_log_weights(
        self,
        log_weights: Float[Tensor, "... cluster"],
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, "*item cluster"]:
        """All terms of log q(z_n) that need neither features nor other items.

        ``log_weights`` are those of the mixture, or log q(z given o) of every item.
        """
        return log_weights

    def groups(self, batch: Batch) -> Int[Tensor, " item"] | None:
        """A code per item, such that log q(z_n) is offset alike in a group; None for one group."""
        return None

    def grouped_log_weights(
        self, log_weights: Float[Tensor, " cluster"], statistics: Mapping[str, Tensor]
    ) -> Float[Tensor, "group cluster"]:
        """``local_log_weights`` of every group; asked unless ``couples_items``."""
        return log_weights.unsqueeze(0)

    def coupling(self, statistics: Mapping[str, Tensor], batch: Batch) -> Coupling | None:
        """What couples the z of the batch, or None."""
        return None

    def solve(
        self,
        solver: LocalSolver,
        conditionals: Conditionals,
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> LocalPosterior:
        """q of the local sites of a batch without workers' answers."""
        return solver.solve(conditionals, self.coupling(statistics, batch))[1]

    def owners_evidence(
        self, assignments: Float[Tensor, "item component"], batch: Batch
    ) -> list[OwnersEvidence]:
        """What labels and links say of which components are one cluster."""
        return []

    def set_epoch(self, epoch: float) -> None:
        """Told how far training is."""

    def refresh(self, family: Any, natural_parameters: Float[Tensor, "cluster size"]) -> None:
        """Told of q(theta) before every step of training."""

    def merge(self, kept: int, emptied: int) -> None:
        """Told that one cluster now also holds what another held, posteriors aside."""

    def empty(self, cluster: int) -> None:
        """Told that a cluster holds nothing now, posteriors aside."""

    def start_partition(
        self,
        partition: Float[Tensor, "item cluster"],
        points: Float[Tensor, "item dim"],
        known: Int[Tensor, " item"] | None,
    ) -> Float[Tensor, "item cluster"]:
        """The partition that training starts at, given one that does not know the labels."""
        return partition

    def expected_counts(
        self,
        responsibilities: Float[Tensor, "item cluster"],
        known: Int[Tensor, " item"] | None,
    ) -> dict[str, Tensor]:
        """What some items add to the natural parameters of its own global sites."""
        return {}
