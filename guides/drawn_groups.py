"""Groups of items that people keep together, from draws of a partition by the answers alone."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.annotators import annotators_of_looks
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.data.some_items import some_items
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides.partition import PartitionGuide
from pyro_crowdclust.models.answered_partition import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, consensus
from pyro_crowdclust.starts.answers import largest_first, most_asked

_STEPS = 40


def drawn_groups(
    data: CrowdData,
    num_groups: int,
    *,
    seed: int = 0,
    smallest: int = 3,
    most_items: int = 1000,
) -> Int[Tensor, " item"]:
    """The largest groups of a partition into few clusters, numbered; -1 of all other items.

    The consensus of draws from its posterior, in which nothing is known but the answers. It takes
    seconds where ``answered_groups`` takes none, and finds clusters of which that finds pieces.

    Parameters
    ----------
    data
        Items and answers.
    num_groups
        At most so many groups are numbered, from the largest on.
    seed
        Of the draws.
    smallest
        Groups of fewer items are none.
    most_items
        Only the items with the most answers are grouped, as many as this.
    """
    groups = torch.full((data.num_items,), -1)
    if data.answers is None or bool(data.answers.label.isnan().all()):
        return groups
    answers = data.answers.at(~data.answers.label.isnan())
    items = most_asked(answers, data.num_items, most_items).nonzero().squeeze(1)
    alone = data.with_parts(features=None, num_missing=0, answers=answers, _pairs_index=None)
    some = some_items(alone, items)
    if some.answers is None:
        return groups
    model = AnsweredPartition(annotators_of_looks(some), FewClusters())
    guide = PartitionGuide(model, some.num_items)
    found = fit(
        model,
        guide,
        some,
        epochs=_STEPS,
        batch_size=None,
        step_size=0.2,
        dtype=torch.float64,
        seed=seed,
        progress=False,
    )
    labels = consensus(found.guide.partition_draws())
    return groups.scatter(0, items, largest_first(labels, num_groups, smallest))
