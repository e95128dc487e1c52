"""The guide of clusters from sorted pages alone: Gibbs draws of the partition, by several chains.

    q = q(shares),      z drawn

Every step of training is a sweep of Gibbs sampling in every chain: items given the spreads of the
workers (``partitions.urns``), shares of the spreads and spreads given the partition. Chains begin
at random partitions of many clusters and have sixty sweeps for themselves. Then each goes on from
one of them, drawn by ``log p(z, g)``, since many stay for long where moves of single items do not
lead away, and this happens once more. The natural step moves q(shares) towards the draw.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.drawn_rates import DrawnShares, weight_of
from pyro_crowdclust.data import CrowdData, Placements
from pyro_crowdclust.distributions import Point, WorkerSummary, conjugate_posteriors
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models.sorted_partition import SortedPartition, paged_items
from pyro_crowdclust.partitions import (
    Choices,
    PagedItems,
    sweep_pages,
)

# Sweeps until chains are compared, at first and again; spreads are as at first for some of them,
# since nobody looks careful beside clusters that are none.
_SETTLING, _FIRST = (60, 40), 20
# By how many of the last sweeps.
_COMPARED = 10
# Clusters of chains at the start, in turn; and the place of the spread of all workers.
_NUMBERS, _CAREFUL = (20, 30, 40, 10), 2
# The prior is learned in every fifth step.
_LEARN_EVERY = 5
# Rates of a worker are as if so many items of everybody's had been theirs, too.
_POOLED = 5.0


@described
class SortedPartitionGuide(nn.Module):
    """q of how common spreads are, and draws of the partition.

    Parameters
    ----------
    model
        The model whose posterior this is.
    num_items
        N.
    num_draws
        How many of the last partitions of every chain are kept.
    num_chains
        How many chains.
    """

    draws: Tensor
    rates: Tensor
    steps: Tensor
    chain_labels: Tensor
    chain_spreads: Tensor

    def __init__(
        self,
        model: SortedPartition,
        num_items: int,
        num_draws: int = 10,
        num_chains: int = 24,
    ) -> None:
        super().__init__()
        self.model = model
        self.posteriors: Any = conjugate_posteriors(model.priors())
        shape = num_draws, num_chains
        self.register_buffer("draws", torch.arange(num_items).repeat(*shape, 1))
        rates = torch.ones(*shape, model.annotators.num_workers, 2, 2, dtype=torch.float64)
        self.register_buffer("rates", rates)
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("chain_labels", self.draws[0].clone())
        spreads = torch.full((num_chains, model.annotators.num_workers), _CAREFUL)
        self.register_buffer("chain_spreads", spreads)
        self._all: Batch | None = None

    @property
    def num_chains(self) -> int:
        """How many chains."""
        return len(self.chain_labels)

    @property
    def labels(self) -> Int[Tensor, " item"]:
        """The last draw of the first chain."""
        return self.chain_labels[0]

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """Draws of the partition by all chains, those of the last steps."""
        return self.draws[: max(int(self.steps), 1)].flatten(0, 1)

    @torch.no_grad()
    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Begin where chains from random partitions have come to."""
        self._all = full_batch(data)
        paged = paged_items(self._all)
        assert paged is not None  # as the model has checked
        most = max(data.num_items // 2, 1)
        numbers = [min(_NUMBERS[i % len(_NUMBERS)], most) for i in range(self.num_chains)]
        drawn = [
            torch.randint(number, (data.num_items,), generator=generator) for number in numbers
        ]
        self.chain_labels = torch.stack([paged.connections.split(labels) for labels in drawn])
        # There may be workers by now that there were not when the guide was made.
        num_workers = self.model.annotators.num_workers
        self.chain_spreads = torch.full((self.num_chains, num_workers), _CAREFUL)
        for turn, sweeps in enumerate(_SETTLING):
            heard = torch.zeros(self.num_chains, dtype=torch.float64)
            for place in range(sweeps):
                log_joint = self._sweep(paged, moves_spreads=turn > 0 or place >= _FIRST)
                if place >= sweeps - _COMPARED:
                    heard += log_joint / _COMPARED
            chosen = heard.softmax(0).multinomial(self.num_chains, True, generator=generator)
            self.chain_labels = self.chain_labels[chosen]
            self.chain_spreads = self.chain_spreads[chosen]
        self.draws = self.chain_labels.repeat(len(self.draws), 1, 1)
        self.rates = self._rates(paged).repeat(len(self.draws), 1, 1, 1, 1)
        self.steps.fill_(1)

    def _sweep(self, paged: PagedItems, moves_spreads: bool = True) -> Float[Tensor, " chain"]:
        """A Gibbs sweep of every chain; returns ``log p(z, g)``, spreads of workers summed out.

        These are as common as the prior says.
        """
        annotators, prior, connections = self.model.annotators, self.model.prior, paged.connections
        spreads = torch.tensor(annotators.spreads, dtype=torch.float64)
        of_pages = spreads[self.chain_spreads[:, paged.pages.worker]]
        self.chain_labels = sweep_pages(self.chain_labels, paged, of_pages, prior)
        log_groups = paged.log_workers(
            self.chain_labels, annotators.spreads, annotators.num_workers
        )
        family, eta = annotators.shares.family, annotators.shares.natural_parameters
        if moves_spreads:
            counts = nn.functional.one_hot(self.chain_spreads, len(spreads)).sum(1)
            shares = family.sample(eta + counts).log().unsqueeze(1)
            # A Gumbel race: the largest is a draw with log odds these.
            race = log_groups + shares
            race = race - torch.empty_like(race).exponential_().log()
            self.chain_spreads = race.argmax(-1)
        log_prior = [prior.log_prob(one, connections) for one in self.chain_labels]
        common = (eta + 1) / (eta + 1).sum()
        heard = (log_groups + common.log()).logsumexp(-1).sum(-1)
        return heard + torch.stack(log_prior)

    def _rates(self, paged: PagedItems) -> Float[Tensor, "chain worker relation outcome"]:
        """Natural parameters of Betas of sensitivity and specificity given every partition."""
        counts = paged.pair_counts(self.chain_labels, self.model.annotators.num_workers)
        pooled = counts.sum(1, keepdim=True) + 1
        return counts + _POOLED * pooled / pooled.sum(-1, keepdim=True) - 1

    @torch.no_grad()
    def _draw(self, batch: Batch) -> None:
        paged = paged_items(batch)
        assert paged is not None  # as the model has checked
        self._sweep(paged)
        place = int(self.steps) % len(self.draws)
        self.draws[place] = self.chain_labels
        self.rates[place] = self._rates(paged)
        self.steps += 1
        if int(self.steps) % _LEARN_EVERY == 0:
            self.model.prior.learn(self.labels, paged.connections, Choices())

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does; a step of training draws a partition first."""
        if torch.is_grad_enabled():
            self._draw(batch if self._all is None else self._all)
        pyro.sample("shares", self.posteriors["shares"].distribution())
        pyro.sample("z", Point(self.labels, torch.zeros((), dtype=torch.float64)))

    def _drawn_rates(self) -> DrawnShares:
        """Of draws, workers and relations, what is wrong of pairs and what is right."""
        return DrawnShares.of(self.rates[: max(int(self.steps), 1)].flatten(0, 1))

    @torch.no_grad()
    def workers(self, interval: float = 0.9) -> WorkerSummary:
        """Posterior of every worker's sensitivity and specificity over pairs, by all draws.

        Every item of a page counts once, however many pairs it is in.
        """
        drawn = self._drawn_rates().at(1)
        of_relations = [DrawnShares(*(part[..., i] for part in drawn)) for i in range(2)]
        found = [shares.summary(interval) for shares in of_relations]
        rates = dict(zip(("sensitivity", "specificity"), found, strict=True))
        return WorkerSummary(rates, *weight_of(**rates))

    @torch.no_grad()
    def log_page_probabilities(self, pages: Placements) -> Float[Tensor, " page"]:
        """``log mean_z sum_c E[share_c] p(g | z, c)`` of pages that the guide has not seen.

        Parameters
        ----------
        pages
            Of the same items; 0 of pages without any.
        """
        paged = PagedItems(self.draws.shape[-1], pages)
        log_shares = self.posteriors["shares"].log_expected()
        of_draws = [
            paged.log_groups(some, self.model.annotators.spreads)
            for some in self.partition_draws().split(self.num_chains)
        ]
        each = (torch.cat(of_draws) + log_shares).logsumexp(2)
        return each.logsumexp(0) - math.log(len(each))
