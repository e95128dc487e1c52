"""The guide of ``SortedPartition``: Gibbs draws of the partition from sorted pages, by chains.

    q = q(shares),      z drawn

Every step of training is a sweep of Gibbs sampling in every chain: clusters of the items given the
spreads of the workers (``partitions.urns``), then shares of the spreads and spreads given the
partition. Chains begin at random partitions into many clusters and make sixty sweeps. Then the
states are resampled: each chain goes on from the state of one of the chains, drawn with
probabilities in proportion to ``p(z, g)``, since moves of single items cannot lead away from many
of the states. After forty more sweeps they are resampled again. The natural step moves q(shares)
towards the draw.
"""

from __future__ import annotations

import math

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import DrawnShares, weight_of
from pyro_crowdclust.data import CrowdData, Placements
from pyro_crowdclust.distributions import Point, WorkerSummary
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.gibbs import GibbsGuide
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.models import SortedPartition
from pyro_crowdclust.partitions import (
    Choices,
    PagedItems,
    draw_categories,
    sweep_pages,
)

# Sweeps before the first and the second resampling of chains. Spreads are fixed in the first 20
# sweeps: while the clusters are still wrong, all workers would seem careless.
_SETTLING, _FIXED_SWEEPS = (60, 40), 20
# Chains are compared by the mean of log p(z, g) over this number of last sweeps.
_COMPARED = 10
# Numbers of clusters at the start of the chains, in turn, and the index of the spread of workers.
_NUMBERS, _CAREFUL = (20, 30, 40, 10), 2
# The prior is learned in every fifth step.
_LEARN_EVERY = 5
# The pooled rates of all workers count as this many items of every worker.
_POOLED = 5.0


@described
class SortedPartitionGuide(GibbsGuide):
    """q of the shares of spreads among workers, and posterior draws of the partition.

    Parameters
    ----------
    model
        The model whose posterior this approximates.
    num_items
        N, the number of items.
    num_draws
        The number of last partitions that are kept of every chain.
    num_chains
        The number of chains.
    """

    model: SortedPartition
    draws: Tensor
    rates: Tensor
    chain_labels: Tensor
    chain_spreads: Tensor

    def __init__(
        self,
        model: SortedPartition,
        num_items: int,
        num_draws: int = 10,
        num_chains: int = 24,
    ) -> None:
        super().__init__(model)
        shape = num_draws, num_chains
        self.register_buffer("draws", torch.arange(num_items).repeat(*shape, 1))
        rates = torch.ones(*shape, model.annotators.num_workers, 2, 2, dtype=torch.float64)
        self.register_buffer("rates", rates)
        self.register_buffer("chain_labels", self.draws[0].clone())
        spreads = torch.full((num_chains, model.annotators.num_workers), _CAREFUL)
        self.register_buffer("chain_spreads", spreads)

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return len(self.chain_labels)

    @property
    def labels(self) -> Int[Tensor, " item"]:
        """The last draw of the first chain."""
        return self.chain_labels[0]

    def random_pairs(self, data: CrowdData) -> None:
        """None: people were asked about pages."""

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """Draws of the partition by all chains, those of the last steps."""
        return self.draws[: max(int(self.steps), 1)].flatten(0, 1)

    def _start(self, batch: Batch, generator: torch.Generator) -> None:
        """Run chains from random partitions until they have settled, and begin there."""
        paged = batch.paged_items
        assert paged is not None  # as the model has checked
        max_clusters = max(batch.num_items // 2, 1)
        numbers = [min(_NUMBERS[i % len(_NUMBERS)], max_clusters) for i in range(self.num_chains)]
        drawn = [
            torch.randint(number, (batch.num_items,), generator=generator) for number in numbers
        ]
        self.chain_labels = torch.stack([paged.connections.split(labels) for labels in drawn])
        # An update may have brought workers since the guide was made.
        num_workers = self.model.annotators.num_workers
        self.chain_spreads = torch.full((self.num_chains, num_workers), _CAREFUL)
        for turn, sweeps in enumerate(_SETTLING):
            mean_log_joint = torch.zeros(self.num_chains, dtype=torch.float64)
            for place in range(sweeps):
                log_groups = self._sweep(paged, moves_spreads=turn > 0 or place >= _FIXED_SWEEPS)
                if log_groups is not None and place >= sweeps - _COMPARED:
                    mean_log_joint += self._log_joint(paged, log_groups) / _COMPARED
            weights = mean_log_joint.softmax(0)
            chosen = weights.multinomial(self.num_chains, True, generator=generator)
            self.chain_labels = self.chain_labels[chosen]
            self.chain_spreads = self.chain_spreads[chosen]
        self.draws = self.chain_labels.repeat(len(self.draws), 1, 1)
        self.rates = self._rates(paged).repeat(len(self.draws), 1, 1, 1, 1)
        self.steps.fill_(1)

    def _sweep(
        self, paged: PagedItems, moves_spreads: bool = True
    ) -> Float[Tensor, "chain worker spread"] | None:
        """A Gibbs sweep of every chain; returns ``log p(g | z, c)`` if the spreads are drawn."""
        annotators, prior = self.model.annotators, self.model.prior
        spreads = torch.tensor(annotators.spreads, dtype=torch.float64)
        of_pages = spreads[self.chain_spreads[:, paged.pages.worker]]
        self.chain_labels = sweep_pages(self.chain_labels, paged, of_pages, prior)
        if not moves_spreads:
            return None
        log_groups = paged.log_workers(
            self.chain_labels, annotators.spreads, annotators.num_workers
        )
        family, eta = annotators.shares.family, annotators.shares.natural_parameters
        counts = nn.functional.one_hot(self.chain_spreads, len(spreads)).sum(1)
        shares = family.sample(eta + counts).log().unsqueeze(1)
        self.chain_spreads = draw_categories(log_groups + shares)
        return log_groups

    def _log_joint(
        self, paged: PagedItems, log_groups: Float[Tensor, "chain worker spread"]
    ) -> Float[Tensor, " chain"]:
        """``log p(z, g)``, spreads of workers summed out, whose shares follow from the prior."""
        prior, eta = self.model.prior, self.model.annotators.shares.natural_parameters
        log_prior = [prior.log_prob(one, paged.connections) for one in self.chain_labels]
        common = (eta + 1) / (eta + 1).sum()
        log_likelihood = (log_groups + common.log()).logsumexp(-1).sum(-1)
        return log_likelihood + torch.stack(log_prior)

    def _rates(self, paged: PagedItems) -> Float[Tensor, "chain worker relation outcome"]:
        """Natural parameters of Beta posteriors of sensitivity and specificity, per partition."""
        counts = paged.pair_counts(self.chain_labels, self.model.annotators.num_workers)
        pooled = counts.sum(1, keepdim=True) + 1
        return counts + _POOLED * pooled / pooled.sum(-1, keepdim=True) - 1

    def _draw(self, batch: Batch) -> None:
        paged = batch.paged_items
        assert paged is not None  # as the model has checked
        self._sweep(paged)
        place = int(self.steps) % len(self.draws)
        self.draws[place] = self.chain_labels
        self.rates[place] = self._rates(paged)
        self.steps += 1
        if int(self.steps) % _LEARN_EVERY == 0:
            self.model.prior.learn(self.labels, paged.connections, Choices())

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does, at the last draw of the partition."""
        pyro.sample("shares", self.posteriors["shares"].distribution())
        pyro.sample("z", Point(self.labels, torch.zeros((), dtype=torch.float64)))

    def _drawn_rates(self) -> DrawnShares:
        """Shares of wrong and right pairs for every draw, worker and relation."""
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
            Pages of the same items; a page without items has log probability 0.
        """
        paged = PagedItems(self.draws.shape[-1], pages)
        log_shares = self.posteriors["shares"].log_expected()
        of_draws = [
            paged.log_groups(some, self.model.annotators.spreads)
            for some in self.partition_draws().split(self.num_chains)
        ]
        each = (torch.cat(of_draws) + log_shares).logsumexp(2)
        return each.logsumexp(0) - math.log(len(each))
