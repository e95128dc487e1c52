"""The sorted pages of a batch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.placements import Placements


@dataclass(frozen=True, eq=False)
class BatchPages:
    """The pages of a batch: their workers, and the group of every item on them.

    Attributes
    ----------
    row
        The item of every placement, as a row of the batch.
    page
        The page of every placement, numbered within the batch; sorted.
    group
        The group of every placement, numbered within the page.
    worker, num_groups, weight
        For every page: code of the worker, number of groups, and inverse inclusion rate (float64).
    """

    row: Int[Tensor, " placement"]
    page: Int[Tensor, " placement"]
    group: Int[Tensor, " placement"]
    worker: Int[Tensor, " page"]
    num_groups: Int[Tensor, " page"]
    weight: Float[Tensor, " page"]

    @classmethod
    def of(
        cls,
        placements: Placements,
        chosen: Int[Tensor, " page"],
        items: Int[Tensor, " item"],
        weight: float = 1.0,
    ) -> BatchPages:
        """The ``chosen`` pages, whose items are among the sorted ``items``."""
        sizes = placements.page_sizes
        ends = sizes.cumsum(0)
        held_sizes = sizes[chosen]
        page = torch.arange(len(chosen)).repeat_interleave(held_sizes)
        # The placements of a page are consecutive, in the data as in the batch.
        shift = (ends - sizes)[chosen] - (held_sizes.cumsum(0) - held_sizes)
        held = torch.arange(len(page)) + shift[page]
        return cls(
            torch.searchsorted(items, placements.item[held]),
            page,
            placements.group[held],
            placements.worker[chosen],
            placements.num_groups[chosen],
            torch.full((len(chosen),), weight, dtype=torch.float64),
        )

    @property
    def num_pages(self) -> int:
        """The number of pages."""
        return len(self.worker)

    @property
    def num_placements(self) -> int:
        """The number of placements on all pages."""
        return len(self.row)

    @cached_property
    def most_groups(self) -> int:
        """The largest number of groups on a page."""
        return int(self.num_groups.max())

    @cached_property
    def cell(self) -> Int[Tensor, " placement"]:
        """The index of every placement's group in a flattened table of pages and groups."""
        return torch.add(self.group, self.page, alpha=self.most_groups)

    @property
    def placement_weight(self) -> Float[Tensor, " placement"]:
        """Inverse inclusion rate of every placement, that of its page."""
        return self.weight.index_select(0, self.page)

    def counts(self, assignments: Float[Tensor, "row cluster"]) -> Tensor:
        """Expected items of every cluster in every group, ``[page, cluster, group]``."""
        size = self.num_pages * self.most_groups
        total = assignments.new_zeros(size, assignments.shape[-1])
        total = total.index_add(0, self.cell, assignments.index_select(0, self.row))
        return total.view(self.num_pages, self.most_groups, -1).mT

    def to(self, device: torch.device | str | None) -> BatchPages:
        """The same pages on another device; unchanged if they are already there."""
        if device is None or self.row.device == torch.device(device):
            return self
        parts = {
            part.name: getattr(self, part.name).to(device) for part in dataclasses.fields(self)
        }
        return BatchPages(**parts)
