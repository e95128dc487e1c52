"""What data are: how they were answered, what supervises them, and what their features are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from pyro_crowdclust import CrowdData
from pyro_crowdclust.supervision import CertainLinks, ClassTable, Supervision, Unsupervised

# Pages of at most this many items are treated as questions about pairs, even if sorted.
_SMALL_PAGE = 3
# A model is chosen again once there are so many times as many answers.
_GROWTH = 2


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


def num_answers(data: CrowdData) -> int:
    """Number of answers about pairs, and of placements."""
    return data.num_pairs + (0 if data.placements is None else len(data.placements))


def are_many_more(data: CrowdData, number: int) -> bool:
    """Whether the data have twice as many answers as those with which a model was chosen."""
    return num_answers(data) >= max(_GROWTH * number, 1)


def is_supervised(data: CrowdData) -> bool:
    """Whether there are known labels or links, in addition to answers."""
    return data.known is not None or data.links is not None


def is_of_features_alone(data: CrowdData) -> bool:
    """Whether nothing supervises the clusters of the features: no answers, labels or links."""
    return not data.has_answers and not is_supervised(data)


def known_labels_alone(data: CrowdData) -> bool:
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


def feature_names(data: CrowdData) -> Sequence[Hashable]:
    """Names of the features of an item; numbers from 0 if they have no names."""
    return range(math.prod(feature_shape(data))) if data.columns is None else data.columns.labels()


def feature_shape(data: CrowdData) -> tuple[int, ...]:
    """Shape of the features of an item; raises a ``ValueError`` if a mixture cannot use them."""
    if data.features is None:
        raise ValueError(
            "the data have no features to cluster by: pass features (for class labels alone, see "
            "infer_classes). Of items that are only names, let random workers compare, sort or "
            "label some at random first, and pass their answers: cluster(None, pairs, "
            "item_ids=names), or classify(None, labels)"
        )
    shape = tuple(data.features.shape[1:])
    if not shape:
        raise ValueError("features have no second axis: pass a column, features[:, None]")
    return shape
