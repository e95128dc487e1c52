"""A start at another one's partition, under the prior that suits it best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.mixture import learn_prior
from pyro_crowdclust.protocols import posteriors_of


@dataclass(frozen=True)
class LearnedPriorStart:
    """Start at a partition, then learn the prior of the components before an item moves.

    With many features, a prior that expects components as wide as all data moves nearly all items
    into one of them in the first step, whatever the partition was. Here the prior and the
    components, in turn, get their optimum for the partition first, as the callback ``LearnedPrior``
    gives it to them after every epoch.

    Attributes
    ----------
    start
        The start of weights and components.
    rounds
        Number of times that both are computed.

    Examples
    --------
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> from pyro_crowdclust.starts import PartitionStart
    >>> model = SemiCrowdsourcedMixture(
    ...     DirichletWeights(2, 1.0), GaussianComponents(2, 1), Identity()
    ... )
    >>> data = CrowdData(torch.tensor([[-5.0], [-5.1], [5.0], [5.1]]).repeat(10, 1))
    >>> start = LearnedPriorStart(PartitionStart([0, 0, 1, 1] * 10))
    >>> start(model, MessagePassingGuide(model), data, torch.Generator())
    >>> prior = model.components.prior
    >>> scale, degrees = prior.family.standard(prior.natural_parameters)[2:]
    >>> bool((scale / degrees.view(-1, 1, 1) < 0.1).all())
    True
    """

    start: Callable[..., None]
    rounds: int = 20

    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Start the guide's posterior, and the model's prior.

        Raises
        ------
        ValueError
            As the start does, and if the guide has no conjugate posteriors.
        """
        self.start(model, guide, data, generator)
        posteriors = posteriors_of(guide)
        if posteriors is None:
            raise ValueError(
                "LearnedPriorStart moves the posterior of the components with their prior, and "
                f"{type(guide).__name__} has none: use another start, or another guide"
            )
        for _ in range(self.rounds):
            if not learn_prior(model, posteriors):
                return
