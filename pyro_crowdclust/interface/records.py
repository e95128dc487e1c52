"""Records: items of more, and smaller, clusters than components can be.

Two or three descriptions of one thing have no shape in any space. But people are asked about those
that look alike, and how alike the two of a pair are says what the pair looks like.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.likeness import Likeness
from pyro_crowdclust.interface.candidates.coordinates import as_numbers
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.training.isolation import generator_of

# So many clusters a mixture may well have, and of pairs in them that look alike such a share, or
# more, is the same.
_MOST_CLUSTERS, _SHARE_SAME = 40, 0.4
# Asked about are those that look alike if a pair of them is more alike than a random one so often.
_LOOKS_ALIKE = 0.75
_RANDOM_PAIRS = 5000
# Nearest neighbours of an item that it could be one with, though nobody was asked.
_NEAREST = 5
_NUMBERS = pd.Index(["cosine", "nearness"])


def are_records(data: CrowdData) -> bool:
    """Whether answers speak of many clusters, too small to have a shape.

    So they do where people were asked about pairs that look more alike than random ones, and mostly
    said that they differ, and where the pairs of which they said "same" leave more items apart than
    there are clusters in a mixture. In few clusters, pairs that look alike are mostly the same.

    Parameters
    ----------
    data
        Items with features in memory and answers about pairs.
    """
    answers = data.answers
    if answers is None or data.features_in_memory is None:
        return False
    pairs = AskedPairs.of(torch.stack([answers.left, answers.right], 1), data.num_items)
    told = ~answers.label.isnan()
    share = _mean_by(pairs.pair[told], answers.label[told], pairs.num_pairs)
    same = share > 0.5
    if not 0 < float(same.double().mean()) < _SHARE_SAME:
        return False
    ends = torch.stack([pairs.left, pairs.right], 1)
    asked, place = ends.unique(return_inverse=True)
    left, right = place[same].mT.numpy()
    graph = coo_array((np.ones(len(left)), (left, right)), (len(asked), len(asked)))
    if connected_components(graph)[0] <= _MOST_CLUSTERS:
        return False
    random = asked[torch.randint(len(asked), (_RANDOM_PAIRS, 2), generator=generator_of(0))]
    random = random[random[:, 0] != random[:, 1]]
    nearness = _likeness(data, torch.cat([ends, random]))[:, 1].numpy()
    return _share_above(nearness[: len(ends)], nearness[len(ends) :]) > _LOOKS_ALIKE


def _mean_by(
    group: Int[Tensor, " answer"], value: Float[Tensor, " answer"], number: int
) -> Float[Tensor, " group"]:
    """The mean of every group; of none it is 0."""
    total = torch.zeros(number, dtype=torch.float64).index_add(0, group, value.double())
    return total / group.bincount(minlength=number).clamp_min(1)


def _share_above(one: Float[np.ndarray, " one"], other: Float[np.ndarray, " other"]) -> float:
    """How often a number of one sample is above one of the other (Mann and Whitney 1947)."""
    ranks = rankdata(np.concatenate([one, other]))[: len(one)]
    return float((ranks.mean() - (len(one) + 1) / 2) / len(other))


def hears_features(data: CrowdData) -> bool:
    """Whether features are to say how alike items are: there are some, and nothing else says so."""
    of_features = data.likeness is None or data.likeness_names.equals(_NUMBERS)
    return data.features is not None and data.answers is not None and of_features


def with_likeness(data: CrowdData, *, near: bool = False) -> CrowdData:
    """The data with how alike the items are of the pairs that people were asked about.

    Numbers of a pair are the cosine of the two rows and the distance of one from the other, less
    than 0, in units of the columns' deviations; of categories every level is a column.

    Parameters
    ----------
    data
        Items with features in memory, and answers.
    near
        Whether pairs of nearest neighbours are candidates, too, that nobody was asked about.
    """
    assert data.answers is not None  # as whoever calls has seen
    ends = torch.stack([data.answers.left, data.answers.right], 1)
    pairs = AskedPairs.of(ends, data.num_items, _near_pairs(data) if near else None)
    ends = torch.stack([pairs.left, pairs.right], 1)
    likeness = Likeness(pairs.left, pairs.right, _likeness(data, ends))
    return data.with_parts(likeness=likeness, likeness_names=_NUMBERS)


def _rows(data: CrowdData) -> Float[Tensor, "item number"]:
    every = torch.arange(data.num_items)
    return as_numbers(data).latent(data.rows(every).double()).flatten(1)


def _likeness(data: CrowdData, ends: Int[Tensor, "pair 2"]) -> Float[Tensor, "pair number"]:
    """Cosine and nearness of the two rows of each pair."""
    left, right = _rows(data)[ends].unbind(1)
    cosine = torch.cosine_similarity(left, right, dim=1)
    return torch.stack([cosine, -torch.linalg.vector_norm(left - right, dim=1)], 1)


def _near_pairs(data: CrowdData) -> Int[Tensor, "pair 2"]:
    """Every item beside its nearest neighbours."""
    rows = _rows(data).numpy()
    number = min(_NEAREST, data.num_items - 1)
    near = NearestNeighbors(n_neighbors=number).fit(rows).kneighbors(return_distance=False)
    return torch.stack(
        [torch.arange(len(rows)).repeat_interleave(number), torch.from_numpy(near).flatten()], 1
    )
