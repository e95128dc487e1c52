"""Supervision by must-links and cannot-links, as answers that are nearly always right.

    p(must-link | z_i, z_j in one cluster) = p(cannot-link | in two) = 1 - epsilon

Every link is an observation with a likelihood, so the ELBO is a bound on the evidence and can be
compared between models with different numbers of clusters; the potentials of ``HiddenMarkovField``
depend on the components. Known labels are left to another supervision, a ``ClassTable``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.pair_owners import PairOwners
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import OwnersEvidence
from pyro_crowdclust.supervision.class_table import ClassTable
from pyro_crowdclust.supervision.field_coupling import (
    FieldCoupling,
    refuse_enumerated,
    refuse_minibatches,
    tied_rows,
)
from pyro_crowdclust.supervision.supervision import Supervision
from pyro_crowdclust.supervision.unsupervised import Unsupervised


@described
class CertainLinks(Supervision):
    """Supervision by links that are wrong with probability ``error``, and optionally by labels.

    Parameters
    ----------
    num_clusters
        T.
    error
        epsilon, in (0, 1/2).
    labels
        The supervision by known labels; with None, data with known labels are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData
    >>> data = CrowdData(np.eye(4), must_link={"left": [0], "right": [2]})
    >>> round(CertainLinks.of(data, num_clusters=3).weight, 2)
    4.6

    Raises
    ------
    ValueError
        For an error that is not between 0 and 1/2.
    """

    couples_items = True

    num_clusters: int

    def __init__(
        self, num_clusters: int, error: float = 0.01, labels: ClassTable | None = None
    ) -> None:
        super().__init__(1.0 if labels is None else labels.unlabeled_weight)
        if not 0 < error < 0.5:
            raise ValueError(f"error is {error}, but must be between 0 and 1/2")
        self.num_clusters = num_clusters
        self.error = error
        self.labels = Unsupervised(refuses=False) if labels is None else labels
        self.sites_of_clusters = self.labels.sites_of_clusters

    @classmethod
    def of(cls, data: CrowdData, num_clusters: int, **options: Any) -> CertainLinks:
        """The supervision for the links and the known labels of some data."""
        labels = ClassTable.of(data, num_clusters) if data.num_known_classes else None
        return cls(num_clusters, labels=labels, **options)

    @property
    def weight(self) -> float:
        """Evidence of a link in nats, ``log((1 - epsilon) / epsilon)``."""
        return math.log((1 - self.error) / self.error)

    def priors(self) -> dict[str, ConjugatePrior]:
        return self.labels.priors()

    def check(self, data: CrowdData) -> None:
        if data.links is None:
            raise ValueError(
                "the data have no links: pass CrowdData(..., must_link=frame, cannot_link=frame)"
            )
        if isinstance(self.labels, ClassTable):
            self.labels.check(data.with_parts(links=None))
        elif data.num_known_classes:
            raise ValueError(
                "the data have known labels in addition to links, but this CertainLinks has no "
                f"class table: use CertainLinks.of(data, {self.num_clusters}), or build the data "
                "without labels"
            )

    def check_minibatches(self, data: CrowdData) -> None:
        if data.links is not None:
            refuse_minibatches("links")

    def item_weight(self, batch: Batch) -> Float[Tensor, " item"]:
        return self.labels.item_weight(batch)

    def item_sites(self, z: Tensor, statistics: Mapping[str, Tensor], batch: Batch) -> None:
        self.labels.item_sites(z, statistics, batch)

    def local_log_weights(
        self,
        log_weights: Float[Tensor, "... cluster"],
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, "*item cluster"]:
        return self.labels.local_log_weights(log_weights, statistics, batch)

    def joint_sites(self, z: Tensor, statistics: Mapping[str, Tensor], batch: Batch) -> None:
        coupling = self.coupling(statistics, batch)
        if coupling is None:
            return
        refuse_enumerated(z)
        right = coupling.num_links * math.log1p(-self.error)
        pyro.factor("links", coupling.log_factor(z) + coupling.neighbors.pair_weight * right)

    def coupling(self, statistics: Mapping[str, Tensor], batch: Batch) -> FieldCoupling | None:
        if batch.neighbors is None or batch.neighbors.links is None:
            return None
        rows = tied_rows("links", batch.neighbors.linked, batch)
        if rows is None:
            return None
        apart = 1 - torch.eye(self.num_clusters, dtype=torch.float64, device=rows.device)
        potentials = apart, self.weight, 1.0
        owners = statistics.get("owners")
        return FieldCoupling(rows, batch, *potentials, owners=owners, with_labels=False)

    def owners_evidence(
        self, assignments: Float[Tensor, "item component"], batch: Batch
    ) -> list[OwnersEvidence]:
        evidence = self.labels.owners_evidence(assignments, batch)
        coupling = self.coupling({}, batch)
        if coupling is None:
            return evidence
        return [*evidence, PairOwners(coupling.merge_gain(assignments))]

    def expected_counts(
        self,
        responsibilities: Float[Tensor, "item cluster"],
        known: Int[Tensor, " item"] | None,
    ) -> dict[str, Tensor]:
        return self.labels.expected_counts(responsibilities, known)
