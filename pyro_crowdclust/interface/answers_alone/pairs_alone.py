"""Answers about pairs without features: priors that are compared, fits, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import annotators_of_looks
from pyro_crowdclust.annotators.halved_grades import halves_of_grades
from pyro_crowdclust.data import Outcomes
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.guides.partition import affordable_chains
from pyro_crowdclust.interface.answers_alone.records import (
    lists_candidates,
    takes_likeness_of_features,
    with_likeness,
)
from pyro_crowdclust.interface.answers_alone.shared import random_parts, recipe_of_draws
from pyro_crowdclust.interface.chance import log_chance
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import (
    AskedPairs,
    FewClusters,
    LikenessRegression,
    ManySmall,
    PitmanYor,
    closes_triangles,
    share_tested,
)
from pyro_crowdclust.results.updating import with_new_workers

# Largest number of chains of a fit, and of a fit that is only compared.
_CHAINS, _TRIAL_CHAINS = 8, 2
# So many held-out answers, or else pages, are needed to distinguish priors.
_MIN_PAIRS, _MIN_PAGES = 300, 30
# Held-out answers test the clusters if others say something about at least this share of them.
_TESTED = 0.5
# With fewer grades, they are halves already.
_MIN_GRADES = 3
# By chance, the crowd's shares of the labels count as so many answers of a worker, or as all.
_STRENGTHS = 4.0, 1e9
# What held-out answers are likelier with.
_NEAR = "nearest neighbours that nobody was asked about may share a cluster"
_HARD = "some items are hard to recognize"


@dataclass(frozen=True)
class PairsAlone:
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
    are_guesses
        Whether nothing supports the clusters. There are up to eight times as many chains then, as
        a single one is sure of what others contradict.
    """

    data: CrowdData
    hard_items: bool = False
    near_items: bool = False
    halves: bool = False
    max_chains: int = _CHAINS
    are_guesses: bool = False

    priors: ClassVar[dict[str, Any]] = {
        "few clusters": FewClusters,
        "many small clusters": ManySmall,
        "many clusters of all sizes": partial(ManySmall, closure=None),
        "clusters of all sizes": PitmanYor,
    }

    @property
    def look_alike(self) -> bool:
        if self.data.needed_answers.page is not None:
            return False
        return closes_triangles(self._pairs) or lists_candidates(self.data)

    @property
    def tested(self) -> bool:
        on_pages = self.data.needed_answers.page is not None
        return share_tested(self._pairs, by_thirds=not on_pages) >= _TESTED

    @property
    def _pairs(self) -> AskedPairs:
        return AskedPairs.of(self.data.needed_answers.items, self.data.num_items)

    @property
    def variant(self) -> str:
        hard = ", halves of grades" * self.halves + ", hard items" * self.hard_items
        return hard + ", near items" * self.near_items

    @property
    def assumptions(self) -> dict[str, bool]:
        names = "hard_items", "near_items", "halves"
        return {name: getattr(self, name) for name in names}

    def variants(self) -> list[tuple[PairsAlone, str]]:
        found = []
        if takes_likeness_of_features(self.data) and not self.near_items:
            found.append((replace(self, near_items=True).about(self.data), _NEAR))
        if not self.hard_items:
            found.append((replace(self, hard_items=True), _HARD))
        return found

    def with_halves(self) -> PairsAlone | None:
        return replace(self, halves=True) if len(self.data.grade_ids) >= _MIN_GRADES else None

    def about(self, data: CrowdData) -> PairsAlone:
        if takes_likeness_of_features(data):
            data = with_likeness(data, near=self.near_items)
        return replace(self, data=data)

    def for_trials(self) -> PairsAlone:
        return replace(self, max_chains=_TRIAL_CHAINS)

    def for_guesses(self) -> PairsAlone:
        return replace(self, are_guesses=True)

    def recipe(self, prior: FewClusters | PitmanYor | ManySmall) -> Recipe:
        likeness = self.data.likeness
        model = AnsweredPartition(
            annotators_of_looks(self.data, halves=self.halves),
            prior,
            self.hard_items,
            None if likeness is None else LikenessRegression(likeness.num_numbers),
        )
        is_tempered = len(prior.powers) > 1
        number = self.data.num_pairs // (_CHAINS if self.are_guesses else 1)
        chains = affordable_chains(number, self.max_chains) if is_tempered else 1
        guide = PartitionGuide(model, self.data.num_items, num_chains=chains)
        return recipe_of_draws(model, guide, self.data)

    def parts(
        self, share: float, max_parts: int, generator: torch.Generator, begin: int = 0
    ) -> list[Bool[Tensor, " unit"]]:
        if not self.data.is_sorted:
            number = self.data.num_pairs
            return random_parts(number, _MIN_PAIRS, share, max_parts, generator, begin)
        number = len(self.data.page_ids)
        fewest = max(_MIN_PAIRS * number // self.data.num_pairs, _MIN_PAGES)
        pages = random_parts(number, fewest, share, max_parts, generator, begin)
        return [out[self.data.needed_answers.needed_page] for out in pages]

    def without(self, out: Bool[Tensor, " unit"]) -> PairsAlone:
        kept = self.data.with_answers(self.data.needed_answers.at(~out))
        return replace(self, data=kept)

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        held, guide = self.data.needed_answers.at(out), result.guide
        found = guide.log_answer_probabilities(result.data, held.items, held.worker, held.label)
        return self._by_unit(found, out)

    def log_half(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"] | None:
        number = len(self.data.grade_ids)
        if number < _MIN_GRADES:
            return None
        held, half = self.data.needed_answers.at(out), halves_of_grades(number)
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

    def gains_of_new(self, result: Fitted) -> tuple[Float[Tensor, " new"], Float[Tensor, " new"]]:
        """Of new answers about pairs that the fit could put into one cluster.

        It should be ``sum_L p(L) (log p(L) - log p_0(L))``, however hard the questions are.
        """
        answers, known = self.data.needed_answers, result.data.num_items
        # Rows of the fit are first; which of them count may have changed (``repeated_pairs``).
        is_new = self.data.counted_rows >= result.data.num_all_pairs
        seen = self.without(is_new)
        can_join = seen._could_join(answers.items, result.model.prior.joins_strangers)
        out = is_new & can_join & (answers.items < known).all(1)
        workers = result.data.worker_ids, seen.data.worker_ids
        guide = with_new_workers(result.model, result.guide, *workers)[1]
        held, outcomes = answers.at(out), self.data.outcomes
        labels = outcomes.labels(torch.arange(outcomes.num_outcomes))
        said = [replace(held, label=label.expand(held.num_pairs)) for label in labels]
        log_p = [
            guide.log_answer_probabilities(seen.data, one.items, one.worker, one.label)
            for one in said
        ]
        by_chance = (
            [log_chance(seen.data, one, strength) for one in said] for strength in _STRENGTHS
        )
        found, *chances = (torch.stack(one, 1) for one in (log_p, *by_chance))
        own = outcomes.places(held.label).unsqueeze(1)
        chance = max(chances, key=lambda one: float(one.gather(1, own).mean()))
        gains = found - chance
        of_each = gains.gather(1, own).squeeze(1), (found.exp() * gains).sum(1)
        return self._by_unit(of_each[0], out), self._by_unit(of_each[1], out)

    def _could_join(
        self, items: Int[Tensor, "answer 2"], strangers: bool
    ) -> Bool[Tensor, " answer"]:
        """Whether a fit to the answers could put two items into one cluster.

        Also ``strangers``, whom a chain of pairs connects, or only items that were compared.
        """
        likeness = None if self.data.likeness is None else self.data.likeness.items
        known = AskedPairs.of(self.data.needed_answers.items, self.data.num_items, likeness)
        left, right = known.part[items].unbind(1)
        return left == right if strangers else known.places(items)[1]

    def _log_chance(self, out: Bool[Tensor, " unit"], strength: float) -> Float[Tensor, " held"]:
        return log_chance(self.without(out).data, self.data.needed_answers.at(out), strength)

    def _by_unit(
        self, log_p: Float[Tensor, " held"], out: Bool[Tensor, " unit"]
    ) -> Float[Tensor, " scored"]:
        """``log p`` of each held-out answer, or, if pages are sorted, its mean on each page."""
        if not self.data.is_sorted:
            return log_p
        page = self.data.needed_answers.needed_page[out]
        _, page, size = page.unique(return_inverse=True, return_counts=True)
        return log_p.new_zeros(len(size)).index_add(0, page, log_p) / size
