"""Groups of items that people keep together, from draws of a partition by the answers alone."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.annotators import PageUrns, annotators_of_looks
from pyro_crowdclust.data import CrowdData, some_items, without_features
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides.partition import PartitionGuide, affordable_chains
from pyro_crowdclust.guides.sorted_partition import SortedPartitionGuide
from pyro_crowdclust.models.answered_partition import AnsweredPartition
from pyro_crowdclust.models.sorted_partition import SortedPartition
from pyro_crowdclust.partitions import FewClusters, consensus
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.starts.answers import answer_counts, largest_first, most_asked
from pyro_crowdclust.training import whole

_STEPS = 40
# Of sorted pages, whose chains have gone far before the first step.
_PAGE_STEPS, _PAGE_CHAINS = 10, 4


def drawn_groups(
    data: CrowdData,
    num_groups: int,
    *,
    seed: int = 0,
    max_chains: int = 6,
    smallest: int = 3,
    max_items: int = 1000,
) -> Int[Tensor, "partition item"]:
    """The largest groups of partitions into few clusters, numbered; -1 of all other items.

    They are the consensus of all draws from the posterior, in which nothing is known but the
    answers, and, of answers about pairs, that of each chain; the same partition counts once. Where
    some people say the opposite of what they see a chain may stay for long where it began, so that
    there are several, to choose from. They take seconds where ``answered_groups`` takes none, and
    find clusters of which that finds pieces.

    Parameters
    ----------
    data
        Items and answers, or sorted pages.
    num_groups
        At most so many groups are numbered, from the largest on.
    seed
        Of the draws.
    max_chains
        At most so many partitions, and one more; of many answers, which tell more, fewer.
    smallest
        Groups of fewer items are none.
    max_items
        Only the items with the most answers are grouped, as many as this.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: half of the draws say nothing.
    """
    groups = torch.full((1, data.num_items), -1)
    data = _told(data)
    if not data.has_answers:
        return groups
    items = most_asked(answer_counts(data), max_items).nonzero().squeeze(1)
    some = some_items(without_features(data), items)
    if not some.has_answers:
        return groups
    if some.placements is not None:
        draws = [_drawn_on_pages(some, seed)]
    else:
        guide = drawn_partitions(some, seed=seed, max_chains=max_chains).guide
        draws = [guide.partition_draws(), *guide.draws_by_chain().unbind(1)]
    labels = [consensus(some_draws) for some_draws in draws]
    each = torch.stack([largest_first(one, num_groups, smallest) for one in labels])
    return groups.repeat(len(each), 1).index_copy(1, items, each).unique(dim=0)


def _told(data: CrowdData) -> CrowdData:
    """Pages that share no items as pairs, and of pairs those of which anybody could tell."""
    data = data.with_unshared_pages_as_pairs()
    if data.answers is None:
        return data
    told = ~data.answers.label.isnan()
    return data.with_answers(data.answers.at(told) if bool(told.any()) else None)


def _drawn_on_pages(data: CrowdData, seed: int) -> Int[Tensor, "draw item"]:
    """Draws by the placements alone, of all chains, which begin anew from each other."""
    model = SortedPartition(PageUrns(data.num_workers), FewClusters())
    guide = SortedPartitionGuide(model, data.num_items, num_chains=_PAGE_CHAINS)
    return _short_fit(model, guide, data, _PAGE_STEPS, seed).guide.partition_draws()


def drawn_partitions(data: CrowdData, *, seed: int = 0, max_chains: int = 6) -> Fitted:
    """A short fit of partitions into few clusters by the answers alone.

    Parameters
    ----------
    data
        Items without features, all of which are drawn, and answers.
    seed
        Of the draws.
    max_chains
        Of the ``PartitionGuide``; fewer for many answers.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C: half of the draws say nothing.
    """
    model = AnsweredPartition(annotators_of_looks(data), FewClusters())
    chains = affordable_chains(data.num_pairs, max_chains)
    guide = PartitionGuide(model, data.num_items, num_chains=chains)
    return _short_fit(model, guide, data, _STEPS, seed)


def _short_fit(model: Any, guide: Any, data: CrowdData, epochs: int, seed: int) -> Fitted:
    """All answers in every step; Ctrl-C ends it, and what it was to be a part of."""
    options: dict[str, Any] = {"batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    return whole(fit(model, guide, data, epochs=epochs, seed=seed, progress=False, **options))
