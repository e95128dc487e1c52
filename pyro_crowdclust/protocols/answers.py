"""Contracts of the answers' sites in models and guides, the same for pairs and pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.point_estimates import PointEstimate
from pyro_crowdclust.distributions.priors import ConjugatePosterior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols.annotators import Annotators
from pyro_crowdclust.protocols.guides import Coupling

Rates = Mapping[str, Float[Tensor, "worker size"]]
WorkerSites = Mapping[str, ConjugatePosterior | PointEstimate]


class AnswerCoupling(Coupling, Protocol):
    """Terms of the answers in the bound, as messages between the items that they are about."""

    def potential(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, ""]:
        """The terms at these q(z), with an exact gradient."""


class OwnersEvidence(Protocol):
    """Evidence about c, the clusters that own the components.

    It adds ``sum_{k<l} B_kl <c_k, c_l> + f(c)`` to the bound, with a convex f.
    """

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """The gain of the bound if two components are one cluster, perhaps approximate."""

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """B, symmetric; the diagonal is not used."""

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """The gradient of f, so that ``f(c') >= f(c) + <slope, c' - c>`` everywhere."""

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """The terms added to the bound, up to a constant that does not depend on c."""


class AnswerSites(Protocol):
    """Sites of answers; ``rates`` are the statistics of the workers' global sites, by name."""

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers of this kind."""

    def in_batch(self, batch: Batch) -> bool:
        """Whether a batch has answers."""

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        """Run the model's local sites."""

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        """Run the guide's local sites, given q(z)."""

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> AnswerCoupling:
        """Messages between the items; with ``weighted``, multiplied by the answers' weights."""

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        """The gain of the bound, from the answers, if two clusters were one."""

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> OwnersEvidence:
        """The evidence of the answers about which components are one cluster."""

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        """Summary of the posterior of every worker, by names of columns of a table."""

    def first_points(self, rate: float) -> dict[str, Float[Tensor, "worker ..."]]:
        """Start of point estimates of rates; a ``ValueError`` if they are not supported."""


@runtime_checkable
class SupportsSites(Annotators, Protocol):
    """Annotators with sites of another kind than those of pairs, such as of pages."""

    def sites(self, owners: Float[Tensor, "component cluster"] | None = None) -> AnswerSites:
        """The sites; ``owners`` as in ``annotators.sites_of``."""
