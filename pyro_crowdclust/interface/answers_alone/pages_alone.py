"""Sorted pages without features: priors that are compared, fits, and what is held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import PageUrns
from pyro_crowdclust.data import Placements
from pyro_crowdclust.guides import SortedPartitionGuide
from pyro_crowdclust.interface.answers_alone.shared import random_parts, recipe_of_draws
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.models import SortedPartition
from pyro_crowdclust.partitions import FewClusters, PitmanYor

# The largest number of chains, which is reduced to at least two if all chains have more placements
# than this.
_PAGE_CHAINS, _PLACEMENTS = 24, 300_000
# So many held-out pages are needed to distinguish priors.
_MIN_PAGES = 30


@dataclass(frozen=True)
class PagesAlone:
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
    look_alike: ClassVar[bool] = False
    tested: ClassVar[bool] = True
    variant: ClassVar[str] = ""
    assumptions: ClassVar[dict[str, bool]] = {}

    def variants(self) -> list[tuple[PagesAlone, str]]:
        return []

    def about(self, data: CrowdData) -> PagesAlone:
        return PagesAlone(data)

    def for_trials(self) -> PagesAlone:
        return self

    def for_guesses(self) -> PagesAlone:
        return self

    def recipe(self, prior: FewClusters | PitmanYor) -> Recipe:
        model = SortedPartition(PageUrns(self.data.num_workers), prior)
        chains = min(max(_PLACEMENTS // len(self._placements), 2), _PAGE_CHAINS)
        guide = SortedPartitionGuide(model, self.data.num_items, num_chains=chains)
        return recipe_of_draws(model, guide, self.data)

    @property
    def _placements(self) -> Placements:
        return self.data.needed_placements

    def parts(
        self, share: float, max_parts: int, generator: torch.Generator, begin: int = 0
    ) -> list[Bool[Tensor, " unit"]]:
        number = self._placements.num_pages
        return random_parts(number, _MIN_PAGES, share, max_parts, generator, begin)

    def without(self, out: Bool[Tensor, " unit"]) -> PagesAlone:
        return PagesAlone(self.data.with_parts(placements=self._placements.of_pages(~out)))

    def log_probability(self, result: Fitted, out: Bool[Tensor, " unit"]) -> Float[Tensor, " held"]:
        """``log p`` of each page, divided by the number of its placements."""
        held_out = result.guide.log_page_probabilities(self._placements.of_pages(out))
        return held_out[out] / self._placements.page_sizes[out].clamp_min(1)

    def by_chance(self, parts: list[Bool[Tensor, " unit"]]) -> Float[Tensor, " held"]:
        """By the number of groups."""
        return torch.cat([-self._placements.num_groups[out].double().log() for out in parts])

    def gains_of_new(self, result: Fitted) -> tuple[Float[Tensor, " new"], Float[Tensor, " new"]]:
        """Of new pages on which all items are known from others.

        It should be that of the pages that were held out when the prior was chosen.
        """
        pages, chosen = self._placements, result.chosen
        is_new = torch.from_numpy(~self.data.page_ids.isin(result.data.page_ids))
        is_known = torch.zeros(self.data.num_items, dtype=torch.bool)
        is_known[pages.item[~is_new[pages.page]]] = True
        unknown = torch.bincount(pages.page, ~is_known[pages.item], len(is_new))
        out = is_new & (unknown == 0)
        gain = self.log_probability(result, out) - self.by_chance([out])
        assert chosen is not None  # as the prior was chosen by held-out pages
        assert chosen.chance is not None
        return gain, torch.full_like(gain, chosen.held_out - chosen.chance)
