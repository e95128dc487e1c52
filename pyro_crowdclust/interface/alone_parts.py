"""Parts of the answers that are held out, where nothing else is known of the items."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.guides import PartitionGuide, SortedPartitionGuide

# With fewer answers held out, or pages, priors could not be told apart.
_FEWEST_ANSWERS, _FEWEST_PAGES = 200, 10


@dataclass(frozen=True)
class AnsweredAlone:
    """Answers about pairs, or sorted pages, of which some are held out.

    Attributes
    ----------
    data
        Items and what is said of them.
    """

    data: CrowdData

    def parts(
        self, share: float, most_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        """Shares of the answers, or pages, each held out of a fit; so many that they can tell."""
        placements = self.data.placements
        number = self.data.num_pairs if placements is None else placements.num_pages
        order = torch.rand(number, generator=generator).argsort().argsort()
        most = min(round(1 / share), number)
        part = order * most // number
        fewest = _FEWEST_ANSWERS if placements is None else _FEWEST_PAGES
        needed = math.ceil(fewest / (share * number))
        return [part == place for place in range(min(needed, most, most_parts))]

    def without(self, out: Bool[Tensor, " unit"]) -> CrowdData:
        """The data without some of the answers; items, workers and pages keep their codes."""
        placements, answers = self.data.placements, self.data.answers
        if placements is not None:
            return self.data.with_parts(placements=placements.of_pages(~out))
        assert answers is not None  # as the model checks
        return self.data.with_parts(answers=answers.at(~out), _pairs_index=None)

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """``log p(L)`` of answers that a fit has not heard, or of pages, nats a placement."""
        placements, answers, guide = self.data.placements, self.data.answers, result.guide
        if placements is not None:
            assert isinstance(guide, SortedPartitionGuide)
            held_out = guide.log_page_probabilities(placements.of_pages(out))
            return held_out[out] / placements.page_sizes[out]
        assert answers is not None
        assert isinstance(guide, PartitionGuide)
        held = answers.at(out)
        items = torch.stack([held.left, held.right], 1)
        return guide.log_answer_probabilities(result.data, items, held.worker, held.label)

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """The same of who knows the shares of the labels only, or the number of groups."""
        placements, answers = self.data.placements, self.data.answers
        if placements is not None:
            return torch.cat([-placements.num_groups[out].double().log() for out in parts])
        assert answers is not None
        label = answers.label.nan_to_num(nan=-1.0)
        said, place, count = label.unique(return_inverse=True, return_counts=True)
        chance = ((count + 1) / (len(label) + len(said))).double().log()[place]
        return torch.cat([chance[out] for out in parts])
