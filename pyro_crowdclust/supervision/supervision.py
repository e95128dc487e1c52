"""Base class of supervision: how an expert's labels and links act on a mixture.

A model takes one in addition to its annotators: ``SemiCrowdsourcedMixture(..., supervision=...)``.
The library has ``ClassTable``, ``KnownClusters``, ``CertainLinks`` and ``HiddenMarkovField``; a
user-defined one derives from ``Supervision``.

The argument ``statistics`` has those of the global sites other than the mixture's, by name: the
sites of the supervision, and ``owners`` where clusters own components; z is then the component.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from pyro_crowdclust.inference.messages import Conditionals, FixedConditionals, LocalSolver
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import Coupling, OwnersEvidence
from pyro_crowdclust.supervision.field_coupling import FieldCoupling

# Maximum number of rounds of coordinate ascent in a step.
_ROUNDS = 10


@described
class Supervision(nn.Module):
    """Base class whose default methods use no labels or links; see also ``Unsupervised``.

    Parameters
    ----------
    unlabeled_weight
        omega in (0, 1]: items without a known label count as omega items in the updates of weights
        and components, so that the ELBO is the bound of a power likelihood (EM-lambda; Nigam et al.
        2000, section 5.3.1). Their own q(z) is unchanged. A value below 1 helps where the clusters
        of the features do not match the classes.

    Attributes
    ----------
    uses_labels_or_links
        Whether known labels or links change the model.
    couples_items
        Whether q(z) of an item depends on that of others, so that z cannot be summed out.
    is_between_components
        Whether messages between items depend on the distance between their components.
    names_clusters
        Whether labels are cluster numbers, so that clusters must keep their order.
    sites_of_clusters
        Names of its global sites that have a row per cluster.
    num_clusters
        The number of clusters that it was built for; None for any number.
    """

    uses_labels_or_links = True
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
        """Priors of its global sites, by name; a guide has a conjugate posterior for each."""
        return {}

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have what the supervision needs."""

    def check_minibatches(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` if minibatches with answers are impossible for these data.

        Called by ``fit`` if minibatches would contain both answers and items that it couples.
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
        """A code per item: log q(z_n) has the same offset within a group; None for one group."""
        return None

    def grouped_log_weights(
        self, log_weights: Float[Tensor, " cluster"], statistics: Mapping[str, Tensor]
    ) -> Float[Tensor, "group cluster"]:
        """``local_log_weights`` of every group; called unless ``couples_items``."""
        return log_weights.unsqueeze(0)

    def coupling(self, statistics: Mapping[str, Tensor], batch: Batch) -> Coupling | None:
        """The coupling between the z of the batch, or None."""
        return None

    def solve(
        self,
        solver: LocalSolver,
        conditionals: Conditionals,
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> LocalPosterior:
        """q of the local sites of a batch without workers' answers.

        By rounds of messages; of observed latents under a ``FieldCoupling`` by ``settle``.
        """
        coupling = self.coupling(statistics, batch)
        is_observed = (
            isinstance(conditionals, FixedConditionals) and conditionals.of_latents is None
        )
        if not (is_observed and isinstance(coupling, FieldCoupling)):
            return solver.solve(conditionals, coupling)[1]
        found = solver.solve(conditionals)[1]
        return replace(found, logits=self.settle(found.logits, coupling, batch))

    def settle(
        self, alone: Float[Tensor, "item cluster"], coupling: FieldCoupling, batch: Batch
    ) -> Float[Tensor, "item cluster"]:
        """log q(z) after coordinate ascent over the items with neighbours."""
        rows = coupling.rows
        return alone.index_copy(0, rows, coupling.settle(alone[rows], alone[rows], _ROUNDS))

    def owners_evidence(
        self, assignments: Float[Tensor, "item component"], batch: Batch
    ) -> list[OwnersEvidence]:
        """Evidence of labels and links about which components form one cluster."""
        return []

    def refresh(self, family: Any, natural_parameters: Float[Tensor, "cluster size"]) -> None:
        """Called with q(theta) before every step of training."""

    def merge(self, kept: int, emptied: int) -> None:
        """Called when a cluster takes over the items of another; posteriors are moved elsewhere."""

    def empty(self, cluster: int) -> None:
        """Called after a cluster has been emptied; posteriors are changed elsewhere."""

    def start_partition(
        self,
        partition: Float[Tensor, "item cluster"],
        points: Float[Tensor, "item dim"],
        known: Int[Tensor, " item"] | None,
    ) -> Float[Tensor, "item cluster"]:
        """The partition at which training starts, given one that ignores the labels."""
        return partition

    def expected_counts(
        self,
        responsibilities: Float[Tensor, "item cluster"],
        known: Int[Tensor, " item"] | None,
    ) -> dict[str, Tensor]:
        """Contribution of some items to the natural parameters of its global sites."""
        return {}
