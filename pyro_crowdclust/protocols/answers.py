"""What a model and a guide ask of annotators, of pairs or of pages, by the same verbs."""

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
    """What answers add to the bound, as messages between the items that they are about."""

    def potential(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, ""]:
        """The terms at these q(z), whose gradient is exact."""


class OwnersEvidence(Protocol):
    """What is said of c, where clusters own components.

    It adds ``sum_{k<l} B_kl <c_k, c_l> + f(c)`` to the bound, with a convex f.
    """

    @property
    def gain(self) -> Float[Tensor, "component component"]:
        """What the bound gains if two components are one cluster, or about so much."""

    @property
    def between(self) -> Float[Tensor, "component component"]:
        """B, symmetric; the diagonal is not read."""

    def slope(
        self, owners: Float[Tensor, "component cluster"]
    ) -> Float[Tensor, "component cluster"]:
        """The gradient of f, by which f is nowhere below ``f(c) + <slope, c' - c>``."""

    def bound(self, owners: Float[Tensor, "component cluster"]) -> float:
        """What is added, but for what c has no part in."""


class AnswerSites(Protocol):
    """The verbs; ``rates`` are the statistics of the workers' global sites, by name."""

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers of this kind."""

    def in_batch(self, batch: Batch) -> bool:
        """Whether a batch has answers."""

    def sample(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        """Run the model's local sites."""

    def sample_guide(self, z: Tensor, rates: Rates, batch: Batch) -> None:
        """Run the guide's, given q(z)."""

    def coupling(
        self, rates: Rates, batch: Batch, dtype: torch.dtype, weighted: bool = False
    ) -> AnswerCoupling:
        """Messages between the items; ``weighted`` ones count by the weights of answers."""

    def merge_gain(self, rates: Rates, assignments: Tensor, batch: Batch) -> Tensor:
        """What the bound gains from the answers if two clusters were one."""

    def owners_evidence(self, rates: Rates, assignments: Tensor, batch: Batch) -> OwnersEvidence:
        """What the answers say of which components are one cluster."""

    def summarize(self, sites: WorkerSites, interval: float) -> WorkerSummary:
        """What is known of every worker, by the names that a table has for it."""

    def first_points(self, rate: float) -> dict[str, Float[Tensor, "worker ..."]]:
        """Where point estimates of rates start; a ``ValueError`` where these cannot serve."""


@runtime_checkable
class SupportsSites(Annotators, Protocol):
    """Annotators with sites of another kind than a pair's: of pages, say."""

    def sites(self, owners: Float[Tensor, "component cluster"] | None = None) -> AnswerSites:
        """The verbs of the sites; ``owners`` as of ``annotators.sites_of``."""
