"""All that ``fit`` needs, ready to look at."""

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

# A plain mixture takes all data in one step while what its components observe (of Gaussians first
# and second moments) is at most so many numbers (160 MB); beyond, it takes minibatches.
FULL_BATCH_NUMBERS = 20_000_000
# Pages of up to so many items are taken for single questions: sorting them is answering pairs.
_SMALL_PAGE = 3


@dataclass(frozen=True)
class Recipe:
    """All that ``fit`` needs, ready to look at or change before it is called.

    Attributes
    ----------
    model, guide, data
        The first three arguments of ``fit``.
    options
        Its others.
    """

    model: Model
    guide: Guide
    data: CrowdData
    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, *, num_starts: int = 1, seed: int = 0, **changes: Any) -> Fitted:
        """Fit; of several starts keep the one with the largest ELBO.

        Parameters
        ----------
        num_starts
            How many fits, with seeds from ``seed`` on.
        seed
            As of ``fit``.
        changes
            Options of ``fit`` in place of the recipe's.

        Raises
        ------
        ValueError
            As ``fit`` does, and for a number of starts below 1.
        """
        seeds = seeds_of(num_starts, seed)
        parts, options = (self.model, self.guide, self.data), self.options | changes
        if num_starts == 1:  # without rivals the ELBO of all data need not be computed
            return fit(*parts, seed=seed, **options)
        return fit_restarts(*parts, seeds=seeds, **options)[0]


def seeds_of(num_starts: int, seed: int) -> range:
    """The seeds of several starts; a ``ValueError`` if there is none."""
    check_whole("num_starts", num_starts, least=1)
    check_whole("seed", seed)
    first = int(seed)  # a narrow integer of NumPy's would overflow
    return range(first, first + int(num_starts))


def as_answered(data: CrowdData) -> CrowdData:
    """The data with pages of pairs that people sorted into groups as placements.

    Pages of two or three items are questions about pairs, however these were asked. Placements on
    pages of two at most become these: of one pair alone nothing else on its page tells whether the
    sorter looked.
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
    """Whether more is said of items than which of them belong together, in pairs or on pages."""
    return data.known is not None or data.links is not None


def labels_alone(data: CrowdData) -> bool:
    """Whether known labels are all that is said of the items."""
    others = data.answers, data.links, data.placements
    return bool(data.num_known_classes) and all(part is None for part in others)


def supervision_of(data: CrowdData, num_clusters: int) -> Supervision:
    """What suits the known labels and links of the data."""
    if data.links is not None:
        return CertainLinks.of(data, num_clusters)
    if data.num_known_classes:
        return ClassTable.of(data, num_clusters)
    return Unsupervised(refuses=False)


def takes_all(data: CrowdData, model: SemiCrowdsourcedMixture) -> bool:
    """Whether a plain mixture is fitted to all data in every step."""
    # Minibatches draw items with answers and items with neighbours in a field differently.
    tied = data.has_answers and model.supervision.couples_items
    return tied or data.num_items * model.components.family.size <= FULL_BATCH_NUMBERS


def feature_names(data: CrowdData) -> Sequence[Hashable]:
    """What the features of an item are called; numbers from 0 where they have no names."""
    return range(math.prod(feature_shape(data))) if data.columns is None else data.columns.labels()


def feature_shape(data: CrowdData) -> tuple[int, ...]:
    """Shape of the features of an item; a ``ValueError`` where no mixture could be on them."""
    if data.features is None:
        raise ValueError(
            "the data have no features to cluster by: pass features; class labels alone are for "
            "label aggregation"
        )
    shape = tuple(data.features.shape[1:])
    if not shape:
        raise ValueError("features have no second axis: pass a column, features[:, None]")
    return shape
