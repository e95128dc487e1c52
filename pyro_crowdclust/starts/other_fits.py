"""A start at the posteriors of a fit to other items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pyro_crowdclust.data.crowd_data import CrowdData

# The sites whose natural parameters grow with the number of items.
_COUNT_SITES = "weights", "components"


@dataclass(frozen=True, eq=False)
class FittedStart:
    """Start at the posteriors and learned priors of a fit of the same model to some of the items.

    The counts, ``eta - eta0`` of weights and components, are scaled to the number of items;
    everything else is copied. A few steps on all items are then enough.

    Attributes
    ----------
    model, guide
        Of the other fit (``result.model``, ``result.guide``).
    num_items
        Number of items in the other fit.

    Examples
    --------
    >>> from pyro_crowdclust.emissions import Identity
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.guides import MessagePassingGuide
    >>> from pyro_crowdclust.mixture import (
    ...     DirichletWeights,
    ...     GaussianComponents,
    ... )
    >>> from pyro_crowdclust.models import SemiCrowdsourcedMixture
    >>> model = SemiCrowdsourcedMixture(
    ...     DirichletWeights(2, 1.0), GaussianComponents(2, 1), Identity()
    ... )
    >>> x = torch.tensor([[-5.0], [5.0]]).repeat(200, 1)
    >>> options = {"batch_size": None, "step_size": 1.0, "progress": False}
    >>> few = fit(model, MessagePassingGuide(model), CrowdData(x[:40]), epochs=9, **options)
    >>> start = FittedStart(few.model, few.guide, 40)
    >>> every = fit(
    ...     model, MessagePassingGuide(model), CrowdData(x), epochs=1, initialize=start, **options
    ... )
    >>> every.guide.posteriors["weights"].standard().concentration.round().tolist()
    [201.0, 201.0]
    """

    model: Any
    guide: Any
    num_items: int

    @torch.no_grad()
    def __call__(self, model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        """Copy priors and posteriors, with counts scaled to these data."""
        learned = self.model.priors()
        for name, prior in model.priors().items():
            eta0 = learned[name].natural_parameters
            prior.set_natural_parameters(eta0)
            change = self.guide.posteriors[name].natural_parameters - eta0
            if name in _COUNT_SITES:
                change = change * (data.num_items / self.num_items)
            guide.posteriors[name].set_natural_parameters(eta0 + change)
