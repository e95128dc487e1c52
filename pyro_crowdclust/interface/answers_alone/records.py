"""Records: items in many clusters that are too small for components of a mixture.

Two or three descriptions of one thing do not form a shape in any space of features. But people are
asked about pairs that look similar, and the features then serve to measure how similar they are.
"""

from __future__ import annotations

import math

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data import Answers, Likeness
from pyro_crowdclust.interface.candidates.coordinates import columns_as_numbers
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.starts.neighbors import nearest_neighbors
from pyro_crowdclust.training.isolation import generator_of

# A mixture can have this many clusters, and among its pairs that look similar at least this share
# is in one cluster.
_MAX_CLUSTERS, _SHARE_SAME = 40, 0.4
# A user's list of candidates has this share of the pairs that people were asked about, and of all
# pairs of its items at most this share.
_LISTED, _SELECTED = 0.9, 0.5
# People were asked about similar pairs if these are more similar than random pairs this often.
_MIN_SIMILAR = 0.75
_RANDOM_PAIRS = 5000
# Number of nearest neighbours that may share an item's cluster though nobody was asked.
_NEAREST = 5
_NUMBERS = pd.Index(["cosine", "nearness"])


def may_be_records(data: CrowdData) -> bool:
    """Whether the items may be records: in more clusters than a mixture can have.

    They may be if people were asked about pairs that are more similar than random ones, and if the
    pairs that most people called "same" join the items to more groups than a mixture has clusters.

    Parameters
    ----------
    data
        Items with features in memory, and answers about pairs.
    """
    if data.answers is None or data.features_in_memory is None:
        return False
    pairs, same = _called_same(data.answers, data.num_items)
    part = AskedPairs.of(pairs.items[same], data.num_items).part
    if not bool(same.any()) or len(part[pairs.items_in_pairs].unique()) <= _MAX_CLUSTERS:
        return False
    items = pairs.items_in_pairs
    random = torch.randint(len(items), (_RANDOM_PAIRS, 2), generator=generator_of(0))
    random = items[random[random[:, 0] != random[:, 1]]]
    from scipy.stats import mannwhitneyu  # late: loading it takes a while

    rows = _rows(data)
    nearness, by_chance = (_likeness(rows, ends)[:, 1] for ends in (pairs.items, random))
    above = mannwhitneyu(nearness, by_chance, method="asymptotic").statistic
    return bool(above > _MIN_SIMILAR * len(nearness) * len(by_chance))


def are_records(data: CrowdData) -> bool:
    """Whether the items may be records, and people mostly called similar pairs different.

    With few clusters, pairs that look similar are mostly the same.
    """
    if data.answers is None:
        return False
    _, same = _called_same(data.answers, data.num_items)
    # Comes last, as it has to read all rows.
    return float(same.double().mean()) < _SHARE_SAME and may_be_records(data)


def lists_candidates(data: CrowdData) -> bool:
    """Whether the user's likeness is of pairs that may be records of one thing, and mostly are not.

    These are candidates if only some of all pairs are listed, among them nearly all pairs that
    people were asked about, and others. With few clusters, pairs that were listed because they look
    similar are mostly the same.
    """
    if data.answers is None or data.likeness is None or takes_likeness_of_features(data):
        return False
    pairs, same = _called_same(data.answers, data.num_items)
    listed = AskedPairs.of(data.likeness.items, data.num_items)
    num_asked = int(listed.places(pairs.items)[1].sum())
    is_selected = listed.num_pairs < _SELECTED * math.comb(len(listed.items_in_pairs), 2)
    of_candidates = _LISTED * pairs.num_pairs <= num_asked < listed.num_pairs
    return is_selected and of_candidates and float(same.double().mean()) < _SHARE_SAME


def _called_same(answers: Answers, num_items: int) -> tuple[AskedPairs, Bool[Tensor, " pair"]]:
    """The pairs that people were asked about, and which of these most people called the same."""
    pairs = AskedPairs.of(answers.items, num_items)
    sure = (~answers.label.isnan()).double()
    return pairs, pairs.total(answers.label.double().nan_to_num()) > pairs.total(sure) / 2


def takes_likeness_of_features(data: CrowdData) -> bool:
    """Whether features measure how similar items are: there are some, and no other likeness."""
    of_features = data.likeness is None or data.likeness_names.equals(_NUMBERS)
    return data.features is not None and data.answers is not None and of_features


def with_likeness(data: CrowdData, *, near: bool = False) -> CrowdData:
    """The data with the similarity of all pairs that people were asked about.

    It has two numbers: the cosine of the two rows, and minus their distance, in units of the
    columns' standard deviations; categories are one-hot encoded.

    Parameters
    ----------
    data
        Items with features in memory, and answers.
    near
        Whether pairs of nearest neighbours are added that nobody was asked about.
    """
    rows = _rows(data)
    neighbors = nearest_neighbors(rows, _NEAREST) if near else None
    pairs = AskedPairs.of(data.needed_answers.items, data.num_items, neighbors)
    likeness = Likeness(pairs.left, pairs.right, _likeness(rows, pairs.items))
    return data.with_parts(likeness=likeness, likeness_names=_NUMBERS)


def _rows(data: CrowdData) -> Float[Tensor, "item number"]:
    """All columns as numbers, in units of their standard deviations."""
    every = torch.arange(data.num_items)
    return columns_as_numbers(data).latent(data.rows(every).double()).flatten(1)


def _likeness(
    rows: Float[Tensor, "item number"], ends: Int[Tensor, "pair 2"]
) -> Float[Tensor, "pair 2"]:
    """Cosine and negative distance of the two rows of each pair."""
    left, right = rows[ends].unbind(1)
    cosine = torch.cosine_similarity(left, right, dim=1)
    return torch.stack([cosine, -torch.linalg.vector_norm(left - right, dim=1)], 1)
