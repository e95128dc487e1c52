"""Known labels as nearly noise-free answers: every cluster has a distribution of classes.

    rho_k ~ Dir(a_1, ..., a_C)              y_n | z_n = k ~ Cat(rho_k),  for items with known y_n

The label's log-density is linear in z and in log rho, so all updates are conjugate, and their cost
is linear in the labels:

    q(rho_k) = Dir(a + sum_n phi_nk onehot(y_n)),   log phi_nk += E[log rho_{k, y_n}]

With a well below 1, a cluster that contains one class rejects all others, so labels attract and
repel; a class may have several clusters, and the class of each cluster is inferred. Where clusters
own components, the class depends on c_k, the cluster of the item's component.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributions import constraints

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import OwnersEvidence
from pyro_crowdclust.supervision.class_owners import ClassOwners
from pyro_crowdclust.supervision.supervision import Supervision


class KnownClass(StatisticValued):
    """``log p(y | z, rho) = sum_k z_k log rho_{k y}``; zero where y = -1, unknown.

    Parameters
    ----------
    assignments
        One-hot z or probabilities, shape ``[..., K]``.
    log_table
        log rho or its expectation, shape ``[K, C]``.
    """

    has_rsample = False

    def __init__(
        self,
        assignments: Float[Tensor, "*batch cluster"],
        log_table: Float[Tensor, "cluster class"],
    ) -> None:
        self.assignments = assignments
        self.log_table = log_table
        super().__init__(assignments.shape[:-1], torch.Size())

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(-1, self.log_table.shape[-1] - 1)

    def _expanded(self, batch_shape: torch.Size) -> KnownClass:
        shape = batch_shape + self.assignments.shape[-1:]
        return KnownClass(self.assignments.expand(shape), self.log_table)

    def sample(self, sample_shape: Any = ()) -> Int[Tensor, "*batch"]:
        self._one_draw(sample_shape)
        probabilities = self.assignments @ self.log_table.exp().to(self.assignments.dtype)
        return torch.distributions.Categorical(probabilities, validate_args=False).sample()

    def log_prob(self, value: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        # An unknown label, -1, selects the last column, which is zero.
        padded = nn.functional.pad(self.log_table, (0, 1)).to(self.assignments.dtype)
        return (self.assignments * padded.mT[value]).sum(-1)


@described
class ClassTable(Supervision):
    """Supervision by known labels, with a table of class probabilities: one row per cluster.

    Parameters
    ----------
    num_clusters
        T.
    num_classes
        C, the number of different labels.
    concentration
        Total of the prior of a row, ``sum_c a_c``; small values give clusters of one class.
    base_rates
        Shares of the classes, to which ``a`` is proportional, so that a cluster without labels
        predicts them; uniform by default.
    unlabeled_weight
        Weight of items without a label in weights and components; see ``Supervision``.

    Raises
    ------
    ValueError
        For no class, more classes than clusters, or a concentration that is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData
    >>> data = CrowdData(np.eye(4), known=["cat", None, "cat", "dog"])
    >>> table = ClassTable.of(data, num_clusters=6)
    >>> table.prior.family.standard(table.prior.natural_parameters[0]).concentration
    tensor([0.0600, 0.0400], dtype=torch.float64)
    """

    sites_of_clusters = ("class_table",)

    num_clusters: int

    def __init__(
        self,
        num_clusters: int,
        num_classes: int,
        *,
        concentration: float = 0.1,
        base_rates: Float[Tensor, " class"] | None = None,
        unlabeled_weight: float = 1.0,
    ) -> None:
        super().__init__(unlabeled_weight)
        if num_classes < 1:
            raise ValueError(
                f"num_classes is {num_classes}, but must be at least 1: pass the number of "
                "different known labels, data.num_known_classes"
            )
        if num_classes > num_clusters:
            raise ValueError(
                f"there are {num_classes} classes but only {num_clusters} clusters, and every "
                f"class needs a cluster: use at least {num_classes} clusters"
            )
        if concentration <= 0:
            raise ValueError(f"concentration is {concentration}, but must be positive")
        self.num_clusters, self.num_classes = num_clusters, num_classes
        if base_rates is None:
            base_rates = torch.ones(num_classes, dtype=torch.float64)
        family = Dirichlet(num_classes)
        eta = family.natural(concentration * base_rates.double() / base_rates.sum())
        self.prior = ConjugatePrior(family, eta, num_clusters, dims=("cluster", "known_class"))

    @classmethod
    def of(cls, data: CrowdData, num_clusters: int, **options: Any) -> ClassTable:
        """A table for the labels of some data, with their smoothed frequencies as base rates."""
        if data.known is None or not data.num_known_classes:
            raise ValueError("the data have no known labels: pass CrowdData(..., known=labels)")
        counts = torch.bincount(data.known[data.known >= 0], minlength=data.num_known_classes)
        rates = counts.double() + 1
        return cls(num_clusters, data.num_known_classes, base_rates=rates, **options)

    def priors(self) -> dict[str, ConjugatePrior]:
        return {"class_table": self.prior}

    def check(self, data: CrowdData) -> None:
        if data.known is None:
            raise ValueError("the data have no known labels: pass CrowdData(..., known=labels)")
        if data.num_known_classes > self.num_classes:
            raise ValueError(
                f"the labels have {data.num_known_classes} classes, but the class table has "
                f"{self.num_classes}: use ClassTable.of(data, {self.num_clusters})"
            )
        if data.links is not None:
            raise ValueError(
                "a class table does not use must-links and cannot-links: use HiddenMarkovField, or "
                "drop the links"
            )

    def item_sites(self, z: Tensor, statistics: Mapping[str, Tensor], batch: Batch) -> None:
        pyro.sample("known", KnownClass(z, _of_components(statistics)), obs=batch.known)

    def local_log_weights(
        self,
        log_weights: Float[Tensor, "... cluster"],
        statistics: Mapping[str, Tensor],
        batch: Batch,
    ) -> Float[Tensor, "*item cluster"]:
        if batch.known is None:
            return log_weights
        table = nn.functional.pad(_of_components(statistics), (0, 1)).to(log_weights.dtype)
        return log_weights + table.mT[batch.known]

    def groups(self, batch: Batch) -> Int[Tensor, " item"] | None:
        return None if batch.known is None else batch.known + 1

    def grouped_log_weights(
        self, log_weights: Float[Tensor, " cluster"], statistics: Mapping[str, Tensor]
    ) -> Float[Tensor, "group cluster"]:
        # Group 0 contains the items without a label.
        return log_weights + nn.functional.pad(_of_components(statistics), (1, 0)).mT

    def owners_evidence(
        self, assignments: Float[Tensor, "item component"], batch: Batch
    ) -> list[OwnersEvidence]:
        if batch.known is None:
            return []
        counts = self.expected_counts(assignments, batch.known)["class_table"]
        return [ClassOwners(self.prior, counts)]

    def expected_counts(
        self,
        responsibilities: Float[Tensor, "item cluster"],
        known: Int[Tensor, " item"] | None,
    ) -> dict[str, Tensor]:
        counts = responsibilities.new_zeros(self.num_clusters, self.num_classes)
        if known is not None:
            labelled = known >= 0
            one_hot = nn.functional.one_hot(known[labelled], self.num_classes)
            counts = responsibilities[labelled].mT @ one_hot.to(responsibilities.dtype)
        return {"class_table": counts}


def _of_components(statistics: Mapping[str, Tensor]) -> Float[Tensor, "component class"]:
    """``E[log rho]`` of the cluster of every component; the label's density is linear in it."""
    table, owners = statistics["class_table"], statistics.get("owners")
    return table if owners is None else owners @ table
