"""Recipes: a model, a guide, data and options, ready to be fitted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.protocols import Guide, Model
from pyro_crowdclust.restarts import fit_restarts
from pyro_crowdclust.supervision import CertainLinks, ClassTable, Supervision, Unsupervised

# A plain mixture takes all data in one step if the observations of its components (first and second
# moments for Gaussians) are at most this many numbers (160 MB); otherwise it takes minibatches.
FULL_BATCH_NUMBERS = 20_000_000
# Pages of at most this many items are treated as questions about pairs, even if sorted.
_SMALL_PAGE = 3


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


def as_answered(data: CrowdData) -> CrowdData:
    """The data in the form in which answers were given: as placements, or as answers about pairs.

    Pairs on pages that people sorted into groups become placements. Pages of two or three items are
    treated as questions about pairs, though, and placements on pages of at most two items become
    pairs: a page of one pair has nothing else that shows whether the sorter looked.
    """
    pages = data.placements
    if pages is not None:
        return data.as_pairs() if pages.num_pairs and pages.page_sizes.max() <= 2 else data
    if data.answers is None or not data.has_pages:
        return data
    pairs_per_page = data.num_pairs / len(data.page_ids)
    is_large = pairs_per_page > _SMALL_PAGE * (_SMALL_PAGE - 1) / 2
    return data.as_placements() if is_large and data.is_sorted else data


def is_supervised(data: CrowdData) -> bool:
    """Whether there are known labels or links, in addition to answers."""
    return data.known is not None or data.links is not None


def labels_alone(data: CrowdData) -> bool:
    """Whether known labels are the only supervision: there are no links and no answers."""
    others = data.answers, data.links, data.placements
    return bool(data.num_known_classes) and all(part is None for part in others)


def supervision_of(data: CrowdData, num_clusters: int) -> Supervision:
    """The kind of supervision that suits the known labels and links of the data."""
    if data.links is not None:
        return CertainLinks.of(data, num_clusters)
    if data.num_known_classes:
        return ClassTable.of(data, num_clusters)
    return Unsupervised(refuses=False)


def takes_all(data: CrowdData, model: SemiCrowdsourcedMixture) -> bool:
    """Whether a plain mixture takes all data in every step, and not minibatches."""
    # Items with answers and neighbours in a field are drawn into minibatches in different ways.
    tied = data.has_answers and model.supervision.couples_items
    return tied or data.num_items * model.components.family.size <= FULL_BATCH_NUMBERS


def feature_names(data: CrowdData) -> Sequence[Hashable]:
    """Names of the features of an item; numbers from 0 if they have no names."""
    return range(math.prod(feature_shape(data))) if data.columns is None else data.columns.labels()


def feature_shape(data: CrowdData) -> tuple[int, ...]:
    """Shape of the features of an item; raises a ``ValueError`` if a mixture cannot use them."""
    if data.features is None:
        raise ValueError(
            "the data have no features to cluster by: pass features (for class labels alone, see "
            "infer_classes). Of items that are only names, let random workers compare, sort or "
            "label some at random first: docs/asking.md, 'From names only'"
        )
    shape = tuple(data.features.shape[1:])
    if not shape:
        raise ValueError("features have no second axis: pass a column, features[:, None]")
    return shape
