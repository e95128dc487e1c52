"""The two kinds of answers without features: answers about pairs, and sorted pages.

Each defines which priors of cluster sizes are compared, the fit under a prior, and which parts of
the answers can be held out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import PageUrns, annotators_of_looks
from pyro_crowdclust.annotators.halved_grades import halves_of_grades
from pyro_crowdclust.data import Answers, Outcomes, Placements, some_items
from pyro_crowdclust.guides import PartitionGuide, SortedPartitionGuide
from pyro_crowdclust.guides.partition import affordable_chains
from pyro_crowdclust.interface.answers_only.records import (
    lists_candidates,
    takes_likeness_of_features,
    with_likeness,
)
from pyro_crowdclust.interface.chance import log_chance
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.models import AnsweredPartition, SortedPartition
from pyro_crowdclust.partitions import (
    AskedPairs,
    FewClusters,
    LikenessRegression,
    ManySmall,
    PitmanYor,
    closes_triangles,
    share_tested,
)

EPOCHS = 120
# Largest number of chains of a fit, and of a fit that is only compared. For sorted pages: the
# largest number of chains, which is reduced to at least two if all chains have more placements than
# this.
_CHAINS, _TRIAL_CHAINS = 8, 2
_PAGE_CHAINS, _PLACEMENTS = 24, 300_000
# This many held-out answers or pages are needed to distinguish priors.
_MIN_PAIRS, _MIN_PAGES = 300, 30
# Held-out answers test the clusters if others say something about at least this share of them.
_TESTED = 0.5
# With fewer grades, they are halves already.
_MIN_GRADES = 3
# By chance, the crowd's shares of the labels count as so many answers of a worker, or as all.
_STRENGTHS = 4.0, 1e9


class KindOfAnswers(Protocol):
    """Answers of one kind about some items, without features.

    Attributes
    ----------
    priors
        The priors of cluster sizes that are compared, by name. The first is used if there are too
        few answers to decide.
    """

    priors: ClassVar[dict[str, Any]]

    @property
    def data(self) -> CrowdData:
        """Items and answers."""

    @property
    def hard_items(self) -> bool:
        """Whether some items may be hard to recognize."""

    @property
    def look_alike(self) -> bool:
        """Whether people seem to have been asked about pairs because their items look similar."""

    @property
    def tested(self) -> bool:
        """Whether other answers say something about most of them, so that they can be predicted."""

    @property
    def near_items(self) -> bool:
        """Whether nearest neighbours that nobody was asked about may share a cluster."""

    def with_hard_items(self) -> KindOfAnswers | None:
        """The same with items that may be hard to recognize; None if there is no such variant."""

    def with_near_items(self) -> KindOfAnswers | None:
        """The same where nearest neighbours that nobody was asked about may share a cluster.

        None if there is no such variant.
        """

    @property
    def halves(self) -> bool:
        """Whether grades say no more than in which half of their scale they are."""

    def with_halves(self) -> KindOfAnswers | None:
        """The same where only the halves of grades count; None if answers are no grades."""

    def log_half(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"] | None:
        """``log p`` of the half in which each held-out grade is; None if answers are no grades."""

    def for_trials(self) -> KindOfAnswers:
        """The same, for fits that are only compared with each other."""

    def about(self, data: CrowdData) -> KindOfAnswers:
        """The same for these data."""

    def recipe(self, prior: Any) -> Recipe:
        """Model, guide and options of a fit under a prior of cluster sizes."""

    def parts(
        self, share: float, max_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        """Parts of the answers to hold out, as many as are needed to distinguish priors."""

    def without(self, out: Bool[Tensor, " unit"]) -> KindOfAnswers:
        """The answers without a part; items, workers and pages keep their codes."""

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """``log p`` of the answers in a part that was held out of a fit."""

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """``log p`` of the answers in all parts, by chance: without knowledge of the items."""


@dataclass(frozen=True)
class PairsOnly:
    """Answers about pairs.

    If pages are sorted, their pairs follow from each other, so that whole pages are held out.

    Attributes
    ----------
    data
        Items and answers.
    hard_items
        Whether some items may be hard to recognize.
    near_items
        Whether nearest neighbours by the features that nobody was asked about may share a cluster.
    halves
        Whether grades say no more than in which half of their scale they are.
    max_chains
        Largest number of chains of a fit.
    """

    data: CrowdData
    hard_items: bool = False
    near_items: bool = False
    halves: bool = False
    max_chains: int = _CHAINS

    priors: ClassVar[dict[str, Any]] = {
        "few clusters": FewClusters,
        "many small clusters": ManySmall,
        "many clusters of all sizes": partial(ManySmall, closure=None),
        "clusters of all sizes": PitmanYor,
    }

    @property
    def look_alike(self) -> bool:
        if self._answers.page is not None:
            return False
        return closes_triangles(self._pairs) or lists_candidates(self.data)

    @property
    def tested(self) -> bool:
        on_pages = self._answers.page is not None
        return share_tested(self._pairs, by_thirds=not on_pages) >= _TESTED

    @property
    def _pairs(self) -> AskedPairs:
        return AskedPairs.of(self._answers.items, self.data.num_items)

    def with_hard_items(self) -> PairsOnly:
        return replace(self, hard_items=True)

    def with_near_items(self) -> PairsOnly | None:
        if not takes_likeness_of_features(self.data):
            return None
        return replace(self, near_items=True).about(self.data)

    def with_halves(self) -> PairsOnly | None:
        return replace(self, halves=True) if len(self.data.grade_ids) >= _MIN_GRADES else None

    def about(self, data: CrowdData) -> PairsOnly:
        if takes_likeness_of_features(data):
            data = with_likeness(data, near=self.near_items)
        return replace(self, data=data)

    def for_trials(self) -> PairsOnly:
        return replace(self, max_chains=_TRIAL_CHAINS)

    def recipe(self, prior: FewClusters | PitmanYor | ManySmall) -> Recipe:
        likeness = self.data.likeness
        model = AnsweredPartition(
            annotators_of_looks(self.data, halves=self.halves),
            prior,
            self.hard_items,
            None if likeness is None else LikenessRegression(likeness.num_numbers),
        )
        is_tempered = len(prior.powers) > 1
        chains = affordable_chains(self.data.num_pairs, self.max_chains) if is_tempered else 1
        guide = PartitionGuide(model, self.data.num_items, num_chains=chains)
        return _recipe(model, guide, self.data)

    @property
    def _answers(self) -> Answers:
        assert self.data.answers is not None  # as the caller has checked
        return self.data.answers

    @property
    def _page(self) -> Int[Tensor, " answer"]:
        assert self._answers.page is not None  # as there are sorted pages
        return self._answers.page

    def parts(
        self, share: float, max_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        if not self.data.is_sorted:
            return _parts(self.data.num_pairs, _MIN_PAIRS, share, max_parts, generator)
        number = len(self.data.page_ids)
        fewest = max(_MIN_PAIRS * number // self.data.num_pairs, _MIN_PAGES)
        pages = _parts(number, fewest, share, max_parts, generator)
        return [out[self._page] for out in pages]

    def without(self, out: Bool[Tensor, " unit"]) -> PairsOnly:
        kept = self.data.with_answers(self._answers.at(~out))
        return replace(self, data=kept)

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        held, guide = self._answers.at(out), result.guide
        found = guide.log_answer_probabilities(result.data, held.items, held.worker, held.label)
        return self._by_unit(found, out)

    def log_half(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"] | None:
        number = len(self.data.grade_ids)
        if number < _MIN_GRADES:
            return None
        held, half = self._answers.at(out), halves_of_grades(number)
        outcomes = Outcomes(number, number + 1)
        own = half[outcomes.places(held.label)]
        found = torch.full((held.num_pairs, len(half)), -torch.inf, dtype=torch.float64)
        for place, label in enumerate(outcomes.labels(torch.arange(len(half)))):
            is_own = own == half[place]
            of_half = held.at(is_own)
            found[is_own, place] = result.guide.log_answer_probabilities(
                result.data, of_half.items, of_half.worker, label.expand(of_half.num_pairs)
            )
        return self._by_unit(found.logsumexp(1), out)

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """By how often each worker, or the whole crowd, gives each label (``log_chance``).

        The likelier of the two: from few answers, shares of single workers are mostly noise, than
        which guesses may seem to be predicted better.
        """
        found = [
            torch.cat([self._by_unit(self._log_chance(out, strength), out) for out in parts])
            for strength in _STRENGTHS
        ]
        return max(found, key=lambda chance: float(chance.mean()))

    def _log_chance(self, out: Bool[Tensor, " unit"], strength: float) -> Float[Tensor, " held"]:
        return log_chance(self.without(out).data, self._answers.at(out), strength)

    def _by_unit(
        self, log_p: Float[Tensor, " held"], out: Bool[Tensor, " unit"]
    ) -> Float[Tensor, " scored"]:
        """``log p`` of each held-out answer, or, if pages are sorted, its mean on each page."""
        if not self.data.is_sorted:
            return log_p
        _, page, size = self._page[out].unique(return_inverse=True, return_counts=True)
        return log_p.new_zeros(len(size)).index_add(0, page, log_p) / size


@dataclass(frozen=True)
class PagesOnly:
    """Sorted pages; whole pages are held out.

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
    hard_items: ClassVar[bool] = False
    near_items: ClassVar[bool] = False
    halves: ClassVar[bool] = False
    look_alike: ClassVar[bool] = False
    tested: ClassVar[bool] = True

    def with_hard_items(self) -> None:
        return None

    def with_near_items(self) -> None:
        return None

    def with_halves(self) -> None:
        return None

    def log_half(self, result: Fitted, out: Bool[Tensor, " unit"]) -> None:
        return None

    def about(self, data: CrowdData) -> PagesOnly:
        return PagesOnly(data)

    def for_trials(self) -> PagesOnly:
        return self

    def recipe(self, prior: FewClusters | PitmanYor) -> Recipe:
        model = SortedPartition(PageUrns(self.data.num_workers), prior)
        chains = min(max(_PLACEMENTS // len(self._placements), 2), _PAGE_CHAINS)
        guide = SortedPartitionGuide(model, self.data.num_items, num_chains=chains)
        return _recipe(model, guide, self.data)

    @property
    def _placements(self) -> Placements:
        assert self.data.placements is not None  # as the caller has checked
        return self.data.placements

    def parts(
        self, share: float, max_parts: int, generator: torch.Generator
    ) -> list[Bool[Tensor, " unit"]]:
        return _parts(self._placements.num_pages, _MIN_PAGES, share, max_parts, generator)

    def without(self, out: Bool[Tensor, " unit"]) -> PagesOnly:
        return PagesOnly(self.data.with_parts(placements=self._placements.of_pages(~out)))

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """``log p`` of each page, divided by the number of its placements."""
        held_out = result.guide.log_page_probabilities(self._placements.of_pages(out))
        return held_out[out] / self._placements.page_sizes[out].clamp_min(1)

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """By the number of groups."""
        return torch.cat([-self._placements.num_groups[out].double().log() for out in parts])


def kind_of_answers(data: CrowdData) -> PairsOnly | PagesOnly:
    """The answers of some data: sorted pages if there are placements, otherwise pairs."""
    if data.placements is not None:
        return PagesOnly(data)
    return PairsOnly(data).about(data)


def items_with_answers(data: CrowdData) -> CrowdData:
    """The data with only the items that have answers or likeness.

    About others there is nothing to predict, and they do not change how likely the answers are.
    """
    items = data.annotated_items
    if data.likeness is not None:
        items = torch.cat([items, data.likeness.items.flatten()]).unique()
    return some_items(data, items)


def _recipe(model: Any, guide: Any, data: CrowdData) -> Recipe:
    options = {"epochs": EPOCHS, "batch_size": None, "step_size": 0.2, "dtype": torch.float64}
    return Recipe(model, guide, data, options)


def _parts(
    number: int, fewest: int, share: float, max_parts: int, generator: torch.Generator
) -> list[Bool[Tensor, " unit"]]:
    """Random parts of the units, as many as together have ``fewest`` units."""
    order = torch.rand(number, generator=generator).argsort().argsort()
    num_parts = min(round(1 / share), number)
    part = order * num_parts // number
    needed = math.ceil(fewest / (share * number))
    return [part == place for place in range(min(needed, num_parts, max_parts))]
