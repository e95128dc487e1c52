"""Answers about pairs, or sorted pages, where nothing else is known of the items.

Both say which priors of sizes are compared, what a fit under one of them is, and which parts of
what is said can be held out of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import PageUrns, annotators_of_looks
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.guides import PartitionGuide, SortedPartitionGuide
from pyro_crowdclust.guides.partition import affordable_chains
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.models import AnsweredPartition, SortedPartition
from pyro_crowdclust.partitions import FewClusters, ManySmall, PitmanYor

EPOCHS = 120
# At most so many chains; of sorted pages as many as place so many items, and not fewer than two.
MOST_CHAINS = 8
_PAGE_CHAINS, _PLACEMENTS = 24, 300_000


class SaidAlone(Protocol):
    """All that is known of some items.

    Attributes
    ----------
    priors
        By name, those of the sizes of clusters that are compared. The first is taken where too
        little is said to tell.
    may_be_hard
        Whether it is asked if some items are hard to recognize.
    """

    priors: ClassVar[dict[str, Any]]
    may_be_hard: ClassVar[bool]

    def recipe(
        self, prior: Any, hard_items: bool = False, most_chains: int = MOST_CHAINS
    ) -> Recipe:
        """Model, guide and options of a fit under a prior of the sizes."""

    def parts(
        self, share: float, most_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        """Shares of what is said, each held out of a fit; so many that they can tell."""

    def without(self, out: Bool[Tensor, " unit"]) -> CrowdData:
        """The data without a part; items, workers and pages keep their codes."""

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """``log p`` of a part that a fit has not heard."""

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """The same of who knows nothing of any item."""


@dataclass(frozen=True)
class PairsAlone:
    """Answers about pairs.

    Attributes
    ----------
    data
        Items and answers.
    """

    data: CrowdData

    priors: ClassVar[dict[str, Any]] = {
        "few clusters": FewClusters,
        "many small clusters": ManySmall,
        "clusters of all sizes": PitmanYor,
    }
    may_be_hard: ClassVar[bool] = True

    def recipe(
        self,
        prior: FewClusters | PitmanYor | ManySmall,
        hard_items: bool = False,
        most_chains: int = MOST_CHAINS,
    ) -> Recipe:
        model = AnsweredPartition(annotators_of_looks(self.data), prior, hard_items)
        is_tempered = len(prior.powers) > 1
        chains = affordable_chains(self.data.num_pairs, most_chains) if is_tempered else 1
        guide = PartitionGuide(model, self.data.num_items, num_chains=chains)
        return _recipe(model, guide, self.data)

    @property
    def _answers(self) -> Answers:
        assert self.data.answers is not None  # as whoever made this has seen
        return self.data.answers

    def parts(
        self, share: float, most_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        return _parts(self.data.num_pairs, 200, share, most_parts, generator)

    def without(self, out: Bool[Tensor, " unit"]) -> CrowdData:
        return self.data.with_parts(answers=self._answers.at(~out), _pairs_index=None)

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        held, guide = self._answers.at(out), result.guide
        assert isinstance(guide, PartitionGuide)  # as of the recipe
        items = torch.stack([held.left, held.right], 1)
        return guide.log_answer_probabilities(result.data, items, held.worker, held.label)

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """By the shares of the labels."""
        label = self._answers.label.nan_to_num(nan=-1.0)
        said, place, count = label.unique(return_inverse=True, return_counts=True)
        chance = ((count + 1) / (len(label) + len(said))).double().log()[place]
        return torch.cat([chance[out] for out in parts])


@dataclass(frozen=True)
class PagesAlone:
    """Sorted pages, of which whole ones are held out.

    Attributes
    ----------
    data
        Items and pages.
    """

    data: CrowdData

    priors: ClassVar[dict[str, Any]] = {
        "few clusters": FewClusters,
        "clusters of all sizes": PitmanYor,
    }
    may_be_hard: ClassVar[bool] = False

    def recipe(
        self,
        prior: FewClusters | PitmanYor,
        hard_items: bool = False,
        most_chains: int = _PAGE_CHAINS,
    ) -> Recipe:
        """With as many chains in every fit, and no item harder than another."""
        model = SortedPartition(PageUrns(self.data.num_workers), prior)
        chains = min(max(_PLACEMENTS // len(self._placements), 2), _PAGE_CHAINS)
        guide = SortedPartitionGuide(model, self.data.num_items, num_chains=chains)
        return _recipe(model, guide, self.data)

    @property
    def _placements(self) -> Placements:
        assert self.data.placements is not None  # as whoever made this has seen
        return self.data.placements

    def parts(
        self, share: float, most_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        return _parts(self._placements.num_pages, 10, share, most_parts, generator)

    def without(self, out: Bool[Tensor, " unit"]) -> CrowdData:
        return self.data.with_parts(placements=self._placements.of_pages(~out))

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """Of pages, nats a placement."""
        guide = result.guide
        assert isinstance(guide, SortedPartitionGuide)  # as of the recipe
        held_out = guide.log_page_probabilities(self._placements.of_pages(out))
        return held_out[out] / self._placements.page_sizes[out]

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """By the number of groups."""
        return torch.cat([-self._placements.num_groups[out].double().log() for out in parts])


def said_alone(data: CrowdData) -> PairsAlone | PagesAlone:
    """What is said of the items of some data: on sorted pages, or about pairs."""
    return PairsAlone(data) if data.placements is None else PagesAlone(data)


def _recipe(model: Any, guide: Any, data: CrowdData) -> Recipe:
    options = {"epochs": EPOCHS, "batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    return Recipe(model, guide, data, options)


def _parts(
    number: int, fewest: int, share: float, most_parts: int, generator: torch.Generator
) -> list[Bool[Tensor, " unit"]]:
    """As many shares of so many units as hold the fewest that can tell priors apart."""
    order = torch.rand(number, generator=generator).argsort().argsort()
    most = min(round(1 / share), number)
    part = order * most // number
    needed = math.ceil(fewest / (share * number))
    return [part == place for place in range(min(needed, most, most_parts))]
