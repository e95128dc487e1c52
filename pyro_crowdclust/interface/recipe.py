"""Recipes: a model, a guide, data and options, ready to be fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import Guide, Model
from pyro_crowdclust.restarts import fit_restarts

# A plain mixture takes all data in one step if the observations of its components (first and second
# moments for Gaussians) are at most this many numbers (160 MB); otherwise it takes minibatches.
FULL_BATCH_NUMBERS = 20_000_000


@dataclass(frozen=True)
class Recipe:
    """Everything that ``fit`` needs; it can be inspected or changed before ``fit`` is called.

    Attributes
    ----------
    model, guide, data
        The first three arguments of ``fit``.
    options
        Its other arguments.
    """

    model: Model
    guide: Guide
    data: CrowdData
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, *, num_starts: int = 1, seed: int = 0, **changes: Any) -> Fitted:
        """Fit from one or several starts; the fit with the largest ELBO is kept.

        Parameters
        ----------
        num_starts
            Number of fits, with the seeds ``seed``, ``seed + 1``, ...
        seed
            As in ``fit``.
        changes
            Options of ``fit`` that replace those of the recipe.

        Raises
        ------
        ValueError
            As in ``fit``, and if ``num_starts`` is below 1.
        """
        seeds = seeds_of(num_starts, seed)
        parts, options = (self.model, self.guide, self.data), self.options | changes
        if num_starts == 1:  # nothing to compare: the ELBO of all data need not be computed
            return fit(*parts, seed=seed, **options)
        return fit_restarts(*parts, seeds=seeds, **options)[0]


def seeds_of(num_starts: int, seed: int) -> range:
    """The seeds of several starts; raises a ``ValueError`` if ``num_starts`` is below 1."""
    check_whole("num_starts", num_starts, least=1)
    check_whole("seed", seed)
    first = int(seed)  # small integer types of NumPy would overflow
    return range(first, first + int(num_starts))


def takes_all(data: CrowdData, model: SemiCrowdsourcedMixture) -> bool:
    """Whether a plain mixture takes all data in every step, and not minibatches."""
    # Items with answers and neighbours in a field are drawn into minibatches in different ways.
    tied = data.has_answers and model.supervision.couples_items
    return tied or data.num_items * model.components.family.size <= FULL_BATCH_NUMBERS
