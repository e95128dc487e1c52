"""Groups of items that people keep together, from draws of a partition by the answers alone."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.annotators import annotators_of_looks
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.some_items import some_items, without_features
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides.partition import PartitionGuide, affordable_chains
from pyro_crowdclust.models.answered_partition import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, consensus
from pyro_crowdclust.results import Fitted
from pyro_crowdclust.starts.answers import largest_first, most_asked

_STEPS = 40


def drawn_groups(
    data: CrowdData,
    num_groups: int,
    *,
    seed: int = 0,
    most_chains: int = 6,
    smallest: int = 3,
    most_items: int = 1000,
) -> Int[Tensor, "partition item"]:
    """The largest groups of partitions into few clusters, numbered; -1 of all other items.

    They are the consensus of all draws from the posterior, in which nothing is known but the
    answers, and that of each chain; the same partition counts once. Where some people say the
    opposite of what they see a chain may stay for long where it began, so that there are several,
    to choose from. They take seconds where ``answered_groups`` takes none, and find clusters of
    which that finds pieces.

    Parameters
    ----------
    data
        Items and answers.
    num_groups
        At most so many groups are numbered, from the largest on.
    seed
        Of the draws.
    most_chains
        At most so many partitions, and one more; of many answers, which tell more, fewer.
    smallest
        Groups of fewer items are none.
    most_items
        Only the items with the most answers are grouped, as many as this.
    """
    groups = torch.full((1, data.num_items), -1)
    if data.answers is None or bool(data.answers.label.isnan().all()):
        return groups
    answers = data.answers.at(~data.answers.label.isnan())
    items = most_asked(answers, data.num_items, most_items).nonzero().squeeze(1)
    some = some_items(without_features(data.with_parts(answers=answers)), items)
    if some.answers is None:
        return groups
    guide = drawn_partitions(some, seed=seed, most_chains=most_chains).guide
    draws = [guide.partition_draws(), *guide.draws_by_chain().unbind(1)]
    labels = [consensus(some_draws) for some_draws in draws]
    each = torch.stack([largest_first(one, num_groups, smallest) for one in labels])
    return groups.repeat(len(each), 1).index_copy(1, items, each).unique(dim=0)


def drawn_partitions(data: CrowdData, *, seed: int = 0, most_chains: int = 6) -> Fitted:
    """A short fit of partitions into few clusters by the answers alone.

    Parameters
    ----------
    data
        Items without features, all of which are drawn, and answers.
    seed
        Of the draws.
    most_chains
        Of the ``PartitionGuide``; fewer for many answers.
    """
    model = AnsweredPartition(annotators_of_looks(data), FewClusters())
    chains = affordable_chains(data.num_pairs, most_chains)
    return fit(
        model,
        PartitionGuide(model, data.num_items, num_chains=chains),
        data,
        epochs=_STEPS,
        batch_size=None,
        step_size=0.2,
        dtype=torch.float64,
        seed=seed,
        progress=False,
    )
