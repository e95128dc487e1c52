"""Groups of items that people keep together, from draws of a partition by the answers alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.annotators import GradedAnswers, TwoCoin
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.fitting import fit
from pyro_crowdclust.guides.partition import PartitionGuide
from pyro_crowdclust.models.answered_partition import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, consensus

# Right and wrong answers of workers before they are heard.
_TRUSTED = (4.0, 1.0)
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
    counts = torch.bincount(torch.cat([answers.left, answers.right]), minlength=data.num_items)
    asked = counts >= counts.sort(descending=True).values[:most_items][-1].clamp_min(1)
    items = asked.nonzero().squeeze(1)
    place = groups.scatter(0, items, torch.arange(len(items)))
    moved = replace(answers, left=place[answers.left], right=place[answers.right])
    some = data.with_parts(
        features=None,
        num_missing=0,
        item_ids=data.item_ids[items.numpy()],
        answers=moved.at((moved.left >= 0) & (moved.right >= 0)),
        _pairs_index=None,
    )
    annotators: TwoCoin | GradedAnswers = TwoCoin(some.num_workers, _TRUSTED, _TRUSTED)
    if len(some.grade_ids):
        annotators = GradedAnswers(some.num_workers, len(some.grade_ids))
    model = AnsweredPartition(annotators, FewClusters())
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
    large = (torch.bincount(labels) >= smallest).nonzero().squeeze(1)[:num_groups]
    code = torch.full((int(labels.max()) + 1,), -1).scatter(0, large, torch.arange(len(large)))
    return groups.scatter(0, items, code[labels])
