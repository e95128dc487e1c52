"""Labels and links as a hidden Markov random field over z; Echraibi et al. 2019, section 2.

    p(z | pi) = prod_n pi_{z_n}^[N_n empty] prod_{n ~ m} exp(-lambda V(z_n, z_m)) / Gamma(V)
    V(k, l) = KL(q(theta_k) || q(theta_l)) + KL(q(theta_l) || q(theta_k))             (eq. 3)

n ~ m if both have the same label, and once more for every must-link between them. The potential is
computed from the posterior itself, so it is not part of a generative model unless it is held fixed:
here V is constant within a step and refreshed between steps. At fixed V all updates are coordinate
ascent on

    L_V(q) = E_q[log p(x, theta, pi, z)] - E_q[log q],

which leaves out the constant log Gamma(V): L_V - log Gamma(V) is the bound on the evidence. Where
clusters own components, the potential between components of one cluster is zero: with B of
``Ownership`` the potential of neighbours is ``(1 - B_kl) V_kl``, and that of a cannot-link applies
to all pairs k, l in one cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.errors import count, show, warn
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import OwnersEvidence
from pyro_crowdclust.supervision.field_coupling import (
    FieldAssignment,
    FieldCoupling,
    pairwise_divergence,
    refuse_enumerated,
    refuse_minibatches,
    tied_rows,
)
from pyro_crowdclust.supervision.supervision import Supervision

_COUPLED_BY = "a hidden Markov field"
# An emptied cluster keeps the share exp(-this) of an item, so that it can grow again.
_MINUS_LOG_SHARE = 50.0


@described
class HiddenMarkovField(Supervision):
    """Supervision by a hidden Markov random field with potentials from the posterior.

    Parameters
    ----------
    num_clusters
        T.
    num_items
        Number of items in the data: the field stores q(z) of each between steps.
    strength
        lambda >= 0. V grows with the number of items in a cluster, so that even a small lambda
        gives labels much weight.
    repel_labels
        Also let items with different labels repel each other, unlike the paper, where n ~ m joins
        equal labels only.
    rounds
        Maximum number of rounds of coordinate ascent over the items with neighbours in a step.
    unlabeled_weight
        Weight of items without neighbours in weights and components; see ``Supervision``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData
    >>> data = CrowdData(np.eye(4), known=["cat", "cat", None, "dog"])
    >>> HiddenMarkovField.of(data, num_clusters=3, strength=0.5).divergence.shape
    torch.Size([3, 3])

    Raises
    ------
    ValueError
        If ``strength`` is negative, or ``rounds`` below 1.

    Notes
    -----
    The repulsion of a cannot-link is the mean of V over pairs of different clusters, so that it has
    the units of the attraction; the paper does not specify it.
    """

    couples_items = True
    is_between_components = True

    num_clusters: int
    divergence: Tensor
    settled: Tensor

    def __init__(
        self,
        num_clusters: int,
        num_items: int,
        strength: float = 1.0,
        *,
        repel_labels: bool = False,
        rounds: int = 10,
        unlabeled_weight: float = 1.0,
    ) -> None:
        super().__init__(unlabeled_weight)
        if strength < 0 or rounds < 1:
            raise ValueError(
                f"strength is {strength} and rounds is {rounds}, but they must be at least 0 and 1"
            )
        self.num_clusters = num_clusters
        self.strength = strength
        self.repel_labels = repel_labels
        self.rounds = rounds
        self.register_buffer(
            "divergence", torch.zeros(num_clusters, num_clusters, dtype=torch.float64)
        )
        # log phi after the last step on all data, where the next one starts; NaN before the first.
        nothing = torch.full((num_items, num_clusters), torch.nan, dtype=torch.float64)
        self.register_buffer("settled", nothing)

    @classmethod
    def of(cls, data: CrowdData, num_clusters: int, **options: Any) -> HiddenMarkovField:
        """A field for some data."""
        return cls(num_clusters, data.num_items, **options)

    def check(self, data: CrowdData) -> None:
        if data.known is None and data.links is None:
            raise ValueError(
                "the data have neither known labels nor links: pass CrowdData(..., known=labels) "
                "or must_link=frame, cannot_link=frame"
            )
        if data.num_items != len(self.settled):
            raise ValueError(
                f"the data have {data.num_items} items, but the field has {len(self.settled)}: "
                f"use HiddenMarkovField.of(data, {self.num_clusters})"
            )
        if data.num_known_classes > self.num_clusters:
            raise ValueError(
                f"the labels have {data.num_known_classes} classes, but there are "
                f"{self.num_clusters} clusters: use at least {data.num_known_classes}"
            )
        if data.known is None or self.repel_labels:
            return
        counts = torch.bincount(data.known[data.known >= 0], minlength=data.num_known_classes)
        lonely = (counts == 1).nonzero().squeeze(1)
        if len(lonely):
            item = int((data.known == lonely[0]).nonzero()[0])
            warn(
                f"only one item has the label {show(data.known_ids[int(lonely[0])])} (item "
                f"{show(data.item_ids[item])}; {count(len(lonely), 'such label')}): it has no "
                "neighbour, so the label has no effect. Give another item this label, or link "
                "the item to another one; in a model that you build yourself you can also set "
                "repel_labels=True, or use a ClassTable instead of links"
            )

    def check_minibatches(self, data: CrowdData) -> None:
        labels = torch.empty(0) if data.known is None else data.known[data.known >= 0]
        is_shared = len(labels.unique()) < len(labels)
        if data.links is not None or is_shared or (self.repel_labels and len(labels) > 1):
            refuse_minibatches(_COUPLED_BY)

    def has_neighbors(self, batch: Batch) -> Bool[Tensor, " item"]:
        """Which items of the batch have neighbours anywhere in the data."""
        neighbors = batch.neighbors
        if neighbors is None:
            return torch.zeros(len(batch.items), dtype=torch.bool, device=batch.items.device)
        has = neighbors.linked
        if batch.known is not None and len(neighbors.label_counts):
            enough = neighbors.label_counts >= 2
            if self.repel_labels and len(enough) > 1:
                enough = torch.ones_like(enough)
            has = has | ((batch.known >= 0) & enough[batch.known.clamp_min(0)])
        return has

    def item_weight(self, batch: Batch) -> Float[Tensor, " item"]:
        if self.unlabeled_weight == 1 or batch.neighbors is None:
            return batch.item_weight
        weight = torch.where(self.has_neighbors(batch), 1.0, self.unlabeled_weight)
        return weight * batch.item_weight

    def _free(self, log_weights: Float[Tensor, "... cluster"], batch: Batch) -> Tensor:
        """log pi for items without neighbours, zero for others."""
        if batch.neighbors is None:
            return log_weights
        return torch.where(self.has_neighbors(batch).unsqueeze(-1), 0.0, log_weights)

    def assignment(
        self, log_weights: Float[Tensor, " cluster"], statistics: Mapping[str, Tensor], batch: Batch
    ) -> Assignment:
        return FieldAssignment(self._free(log_weights, batch), self.coupling(statistics, batch))

    def local_log_weights(
        self, log_weights: Float[Tensor, "... cluster"], statistics: Any, batch: Batch
    ) -> Float[Tensor, "*item cluster"]:
        return self._free(log_weights, batch)

    def joint_sites(self, z: Tensor, statistics: Mapping[str, Tensor], batch: Batch) -> None:
        coupling = self.coupling(statistics, batch)
        if coupling is None:
            return
        refuse_enumerated(z)
        pyro.factor("field", coupling.log_factor(z))

    def coupling(self, statistics: Mapping[str, Tensor], batch: Batch) -> FieldCoupling | None:
        if batch.neighbors is None:
            return None
        rows = tied_rows(_COUPLED_BY, self.has_neighbors(batch), batch)
        if rows is None:
            return None
        off_diagonal = self.num_clusters * (self.num_clusters - 1)
        repulsion = float(self.divergence.sum()) / max(off_diagonal, 1)
        potentials = self.divergence, self.strength, repulsion
        owners = statistics.get("owners")
        return FieldCoupling(rows, batch, *potentials, self.repel_labels, owners)

    def owners_evidence(
        self, assignments: Float[Tensor, "item component"], batch: Batch
    ) -> list[OwnersEvidence]:
        coupling = self.coupling({}, batch)
        return [] if coupling is None else [PairOwners(coupling.merge_gain(assignments))]

    def settle(
        self, alone: Float[Tensor, "item cluster"], coupling: FieldCoupling, batch: Batch
    ) -> Float[Tensor, "item cluster"]:
        """log phi with messages; a step on all data starts where the last one ended."""
        # Training stores the settled q(z); computing a result must not change it.
        remember = torch.is_grad_enabled()
        with torch.no_grad():
            rows, start = coupling.rows, alone[coupling.rows]
            whole = len(batch.items) == batch.num_items == len(self.settled)
            if whole:
                before = self.settled[batch.items[rows]].to(alone)
                start = torch.where(before.isnan(), start, before)
            logits = alone.index_copy(0, rows, coupling.settle(alone[rows], start, self.rounds))
            if whole and remember:
                self.settled.index_copy_(0, batch.items, logits.to(self.settled))
        return logits

    def refresh(self, family: Any, natural_parameters: Float[Tensor, "cluster size"]) -> None:
        self.divergence.copy_(pairwise_divergence(family, natural_parameters.detach()))

    def merge(self, kept: int, emptied: int) -> None:
        together = self.settled[:, [kept, emptied]].logsumexp(1)
        self.settled[:, kept] = together
        self.settled[:, emptied] = together - _MINUS_LOG_SHARE

    def empty(self, cluster: int) -> None:
        self.settled[:, cluster] = self.settled.logsumexp(1) - _MINUS_LOG_SHARE
