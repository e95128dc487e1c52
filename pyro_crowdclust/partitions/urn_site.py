"""The Pyro site of the groups into which workers put the items of pages, given a partition."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.partitions.urns import ANYWHERE, PagedItems


class UrnGroups(StatisticValued):
    """The groups of all placements, ``[placement]``, with the spreads of the workers summed out.

        log p(g | z) = sum_m log sum_c share_c prod_{p of m} p(g_p | z, c)

    with the urns of every page (``urns``). At expected log shares it is the bound at the optimal
    q(c_m), and its gradient with respect to these is the expected number of workers of every
    spread.

    Parameters
    ----------
    paged
        The pages; their groups are ignored.
    labels
        z, the cluster of every item.
    spreads
        The values that c can have.
    log_shares
        How common each is among workers.
    """

    has_rsample = False

    def __init__(
        self,
        paged: PagedItems,
        labels: Int[Tensor, " item"],
        spreads: tuple[float, ...],
        log_shares: Float[Tensor, " spread"],
    ) -> None:
        self.paged, self.labels = paged, labels
        self.spreads, self.log_shares = spreads, log_shares
        super().__init__(torch.Size(), torch.Size([len(paged.item)]))

    def sample(self, sample_shape: Any = ()) -> Int[Tensor, " placement"]:
        """The groups of the items, drawn one after the other from their urns."""
        self._one_draw(sample_shape)
        pages, spreads = self.paged.pages, torch.tensor(self.spreads, dtype=torch.float64)
        number = int(pages.worker.max()) + 1
        spread = spreads[self.log_shares.softmax(0).multinomial(number, replacement=True)]
        each = spread[pages.worker].clamp(max=ANYWHERE) / pages.num_groups
        urns: dict[tuple[int, int], Tensor] = {}
        drawn = []
        clusters = self.labels[self.paged.item].tolist()
        for page, cluster in zip(pages.page.tolist(), clusters, strict=True):
            first = each[page].repeat(int(pages.num_groups[page]))
            urn = urns.setdefault((page, cluster), first)
            group = torch.multinomial(urn, 1)
            urn[group] += 1
            drawn.append(group)
        return torch.cat(drawn)

    def log_prob(self, value: Int[Tensor, " placement"]) -> Float[Tensor, ""]:
        paged, worker = self.paged.with_groups(value), self.paged.pages.worker.unique()
        number = int(worker.max()) + 1
        of_workers = paged.log_workers(self.labels.unsqueeze(0), self.spreads, number)[0, worker]
        return (of_workers + self.log_shares).logsumexp(1).sum()
