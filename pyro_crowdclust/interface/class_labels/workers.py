"""Annotators of class labels, by what is assumed about the workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import CommunityConfusion, ConfusionMatrices, TrustedWorkers
from pyro_crowdclust.protocols import ClassAnnotators


class Workers(NamedTuple):
    """Assumptions about the workers.

    Attributes
    ----------
    num_communities
        Number of communities of workers, whose confusion matrices are learned; 0: workers have a
        prior that is not learned.
    worker_weights
        The number of independent workers that each counts as; None: 1 each.
    trusted
        Codes of the workers who are always right.

    Examples
    --------
    >>> said = {"item": [0, 0, 1], "worker": list("aba"), "label": list("xxy")}
    >>> annotators = Workers(trusted=(1,)).annotators(CrowdData(None, labels=said))
    >>> type(annotators).__name__, type(annotators.others).__name__
    ('TrustedWorkers', 'CommunityConfusion')
    """

    num_communities: int = 1
    worker_weights: Sequence[float] | None = None
    trusted: tuple[int, ...] = ()

    def annotators(self, data: CrowdData) -> ClassAnnotators:
        """The confusion matrices of the workers in these data."""
        size = data.num_workers, data.num_classes
        found: ClassAnnotators = ConfusionMatrices(*size, worker_weights=self.worker_weights)
        if self.num_communities:
            found = CommunityConfusion(
                *size, self.num_communities, worker_weights=self.worker_weights
            )
        return TrustedWorkers(found, self.trusted) if self.trusted else found
