"""Records: items of more, and smaller, clusters than components can be.

Two or three descriptions of one thing have no shape in any space. But people are asked about those
that look alike, and how alike the two of a pair are says what the pair looks like.
"""

from __future__ import annotations

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import mannwhitneyu
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.likeness import Likeness
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.interface.candidates.coordinates import as_numbers
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.starts.neighbors import nearest_neighbors
from pyro_crowdclust.training.isolation import generator_of

# So many clusters a mixture may well have, and of pairs in them that look alike such a share, or
# more, is the same.
_MAX_CLUSTERS, _SHARE_SAME = 40, 0.4
# Asked about are those that look alike if a pair of them is more alike than a random one so often.
_LOOKS_ALIKE = 0.75
_RANDOM_PAIRS = 5000
# Nearest neighbours of an item that it could be one with, though nobody was asked.
_NEAREST = 5
_NUMBERS = pd.Index(["cosine", "nearness"])


def may_be_records(data: CrowdData) -> bool:
    """Whether answers leave more clusters than a mixture has, of items that look alike.

    So they do where people were asked about pairs that look more alike than random ones, and where
    the pairs of which they said "same" leave more items apart than there are clusters in a mixture.

    Parameters
    ----------
    data
        Items with features in memory and answers about pairs.
    """
    if data.answers is None or data.features_in_memory is None:
        return False
    pairs, same = _said_same(data.answers, data.num_items)
    part = AskedPairs.of(pairs.items[same], data.num_items).part
    if not bool(same.any()) or len(part[pairs.asked].unique()) <= _MAX_CLUSTERS:
        return False
    random = torch.randint(len(pairs.asked), (_RANDOM_PAIRS, 2), generator=generator_of(0))
    random = pairs.asked[random[random[:, 0] != random[:, 1]]]
    rows = _rows(data)
    nearness, by_chance = (_likeness(rows, ends)[:, 1] for ends in (pairs.items, random))
    above = mannwhitneyu(nearness, by_chance, method="asymptotic").statistic
    return bool(above > _LOOKS_ALIKE * len(nearness) * len(by_chance))


def are_records(data: CrowdData) -> bool:
    """Whether they may be, and people mostly said that what looks alike differs.

    In few clusters, pairs that look alike are mostly the same.
    """
    if data.answers is None:
        return False
    _, same = _said_same(data.answers, data.num_items)
    # What looks alike takes all rows to say, so that it comes last.
    return float(same.double().mean()) < _SHARE_SAME and may_be_records(data)


def _said_same(answers: Answers, num_items: int) -> tuple[AskedPairs, Bool[Tensor, " pair"]]:
    """The pairs that people were asked about, and of which most said that they are the same."""
    pairs = AskedPairs.of(answers.items, num_items)
    sure = (~answers.label.isnan()).double()
    return pairs, pairs.total(answers.label.double().nan_to_num()) > pairs.total(sure) / 2


def takes_likeness_of_features(data: CrowdData) -> bool:
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
    rows = _rows(data)
    neighbors = nearest_neighbors(rows, _NEAREST) if near else None
    pairs = AskedPairs.of(data.answers.items, data.num_items, neighbors)
    likeness = Likeness(pairs.left, pairs.right, _likeness(rows, pairs.items))
    return data.with_parts(likeness=likeness, likeness_names=_NUMBERS)


def _rows(data: CrowdData) -> Float[Tensor, "item number"]:
    """All columns as numbers, in units of their deviations."""
    every = torch.arange(data.num_items)
    return as_numbers(data).latent(data.rows(every).double()).flatten(1)


def _likeness(
    rows: Float[Tensor, "item number"], ends: Int[Tensor, "pair 2"]
) -> Float[Tensor, "pair 2"]:
    """Cosine and nearness of the two rows of each pair."""
    left, right = rows[ends].unbind(1)
    cosine = torch.cosine_similarity(left, right, dim=1)
    return torch.stack([cosine, -torch.linalg.vector_norm(left - right, dim=1)], 1)
