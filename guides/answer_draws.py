"""Groups of items that workers keep together, from posterior draws of the partition.

The posterior uses the answers alone, not the features.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.annotators import PageUrns, annotators_of_looks
from pyro_crowdclust.data import CrowdData, some_items, without_features
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides.partition import PartitionGuide, affordable_chains
from pyro_crowdclust.guides.sorted_partition import SortedPartitionGuide
from pyro_crowdclust.models import AnsweredPartition, SortedPartition
from pyro_crowdclust.partitions import FewClusters, consensus
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.starts import largest_first, most_asked
from pyro_crowdclust.training import uninterrupted

_STEPS = 40
# Sorted pages need fewer steps, since the start of the guide already runs its chains.
_PAGE_STEPS, _PAGE_CHAINS = 10, 4
# Groups with fewer items are not numbered.
_MIN_ITEMS = 3


def drawn_groups(
    data: CrowdData,
    num_groups: int,
    *,
    seed: int = 0,
    max_chains: int = 6,
    max_items: int = 1000,
    draw: Callable[[CrowdData], Fitted] | None = None,
) -> Int[Tensor, "partition item"]:
    """The numbers of each item's group in a few partitions by the answers; -1 in small groups.

    A partition is the consensus of all draws from a posterior that uses the answers alone; for
    answers about pairs, the consensus of every single chain is a further one. Equal partitions are
    listed once. There are several to choose from because a chain can stay near its start for a long
    time, for example if some workers answer the opposite of what they see. The draws take seconds,
    unlike those of ``answered_groups``, but find whole clusters where that finds pieces of them.

    Parameters
    ----------
    data
        Items and answers, or sorted pages.
    num_groups
        At most this many groups are numbered, from the largest on; none of fewer than three items.
    seed
        The seed of the draws.
    max_chains
        There are at most ``max_chains + 1`` partitions; fewer if there are many answers, since
        these determine the partition better.
    max_items
        At most this many items (``most_asked``) are grouped.
    draw
        Draws partitions from answers about pairs; default ``drawn_partitions``, with this seed and
        as many chains.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, since a part of the draws cannot be used.
    """
    groups = torch.full((1, data.num_items), -1)
    data = _informative(data)
    if not data.has_answers:
        return groups
    items = most_asked(data, max_items).nonzero().squeeze(1)
    some = some_items(without_features(data), items)
    if not some.has_answers:
        return groups
    if some.placements is not None:
        draws = [_drawn_on_pages(some, seed)]
    else:
        draw = draw or partial(drawn_partitions, seed=seed, max_chains=max_chains)
        guide = draw(some).guide
        draws = [guide.partition_draws(), *guide.draws_by_chain().unbind(1)]
    labels = [consensus(some_draws) for some_draws in draws]
    each = torch.stack([largest_first(one, num_groups, _MIN_ITEMS) for one in labels])
    return groups.repeat(len(each), 1).index_copy(1, items, each).unique(dim=0)


def _informative(data: CrowdData) -> CrowdData:
    """The data with unshared pages as pairs, and without the answers "cannot tell"."""
    data = data.with_unshared_pages_as_pairs()
    if data.answers is None:
        return data
    is_decided = ~data.answers.label.isnan()
    return data.with_answers(data.answers.at(is_decided) if bool(is_decided.any()) else None)


def _drawn_on_pages(data: CrowdData, seed: int) -> Int[Tensor, "draw item"]:
    """Draws of all chains by the placements alone."""
    model = SortedPartition(PageUrns(data.num_workers), FewClusters())
    guide = SortedPartitionGuide(model, data.num_items, num_chains=_PAGE_CHAINS)
    return _short_fit(model, guide, data, _PAGE_STEPS, seed).guide.partition_draws()


def drawn_partitions(data: CrowdData, *, seed: int = 0, max_chains: int = 6) -> Fitted:
    """A short fit of partitions into few clusters by the answers alone.

    Parameters
    ----------
    data
        Items without features, and answers; clusters of all items are drawn.
    seed
        The seed of the draws.
    max_chains
        The largest number of chains of the ``PartitionGuide``; many answers have fewer.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C, since a part of the draws cannot be used.
    """
    model = AnsweredPartition(annotators_of_looks(data), FewClusters())
    chains = affordable_chains(data.num_pairs, max_chains)
    guide = PartitionGuide(model, data.num_items, num_chains=chains)
    return _short_fit(model, guide, data, _STEPS, seed)


def _short_fit(model: Any, guide: Any, data: CrowdData, epochs: int, seed: int) -> Fitted:
    """A fit with all answers in every step; Ctrl-C raises instead of returning part of a fit."""
    options: dict[str, Any] = {"batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    return uninterrupted(
        fit(model, guide, data, epochs=epochs, seed=seed, progress=False, **options)
    )
