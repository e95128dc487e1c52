"""The guide of clusters from answers alone: conjugate posteriors, and Gibbs draws of the partition.

    q = q(looks) prod_m q(alpha_m) q(beta_m) prod_ij q(y_ij | z),      z drawn given their means

Every step of training sweeps once over the items and draws their clusters given what the answers
say under the posteriors as they are; its natural step then moves the posteriors towards the draw.
With steps below one that is stochastic variational inference with local draws (Mimno, Hoffman and
Blei 2012). The last draws are kept: clusters and their probabilities are read from them.
"""

from __future__ import annotations

from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import summarize_workers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugateAtMean, ConjugatePosterior, FullPlate, Point
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import Categorical, natural_at_mean
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models.answered_partition import (
    AnsweredPartition,
    asked_pairs,
    pair_weights,
)
from pyro_crowdclust.partitions import AskedPairs, share_together, sweep

# Rounds of Dawid and Skene's algorithm on pairs, which is where the workers start.
_FIRST_ROUNDS = 30
# The prior of the workers is learned as if so many stood for the prior that was given.
_PSEUDO_WORKERS = 2.0
# Priors are learned in every fifth step: they move slowly, and learning costs as much as a sweep.
_LEARN_EVERY = 5


@described
class PartitionGuide(nn.Module):
    """q of the workers and of how pairs look, and draws of the partition.

    Parameters
    ----------
    model
        The model whose posterior this is. The prior of its workers is learned, too.
    num_items
        N.
    num_draws
        How many of the last partitions are kept.
    """

    draws: Tensor
    steps: Tensor

    def __init__(self, model: AnsweredPartition, num_items: int, num_draws: int = 100) -> None:
        super().__init__()
        self.model = model
        priors = model.priors()
        self.posteriors: Any = nn.ModuleDict(
            {name: ConjugatePosterior(prior) for name, prior in priors.items()}
        )
        self.register_buffer("draws", torch.arange(num_items).repeat(num_draws, 1))
        self.register_buffer("steps", torch.tensor(0))
        self._first_means = {
            name: prior.family.expected_statistics(prior.natural_parameters)
            for name, prior in model.annotators.priors().items()
        }
        self._all: Batch | None = None

    @property
    def labels(self) -> Int[Tensor, " item"]:
        """The last draw."""
        return self.draws[(int(self.steps) - 1) % len(self.draws)]

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """Draws of the partition, those of the last steps."""
        return self.draws[: max(1, min(int(self.steps), len(self.draws)))]

    def _means(self) -> tuple[Tensor, dict[str, Tensor]]:
        """E[t] of the looks, and of the workers' sites."""
        means = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        return means.pop("looks"), means

    @torch.no_grad()
    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Begin with workers by Dawid and Skene's algorithm on pairs, and the prior's partition."""
        batch = self._all = full_batch(data)
        pairs = asked_pairs(batch)
        shares = pairs.total(batch.label) / pairs.total(torch.ones_like(batch.label))
        same = shares
        for _ in range(_FIRST_ROUNDS):
            self._move_workers(same, pairs, batch)
            rates = self._means()[1]
            ratio = self.model.log_answers(rates, batch, pairs)
            same = (ratio + same.mean().clamp(1e-6, 1 - 1e-6).logit()).sigmoid()
        first = self.model.prior.first_partition(shares, float(same.mean()), pairs, generator)
        together = pairs.together(first)
        if bool(together.any()):
            self._move_workers(together.double(), pairs, batch)
        self.draws.copy_(first.expand_as(self.draws))
        self.steps.fill_(1)

    def _move_workers(self, same: Float[Tensor, " pair"], pairs: AskedPairs, batch: Batch) -> None:
        """Give the workers the posteriors of pairs that are the same with these probabilities."""
        rates = {name: mean.requires_grad_() for name, mean in self._means()[1].items()}
        with torch.enable_grad():
            answer = self.model.annotators.answer(same[pairs.pair], rates, batch.worker)
            log_likelihood = (batch.pair_weight * answer.log_prob(batch.label)).sum()
            counts = torch.autograd.grad(log_likelihood, list(rates.values()))
        for name, count in zip(rates, counts, strict=True):
            prior = self.model.priors()[name].natural_parameters
            self.posteriors[name].set_natural_parameters(prior + count)

    @torch.no_grad()
    def _draw(self, batch: Batch) -> None:
        """One sweep over the items; what the priors learn from it."""
        pairs = asked_pairs(batch)
        looks, rates = self._means()
        ratio = self.model.log_answers(rates, batch, pairs)
        # log p(answers | different) and log p(answers | same), but for what both have in common.
        different, same = (torch.logaddexp(look[0] + ratio, look[1]) for look in looks.unbind())
        labels, choices = sweep(self.labels, pairs, same - different, self.model.prior)
        self.draws[int(self.steps) % len(self.draws)] = labels
        self.steps += 1
        if int(self.steps) % _LEARN_EVERY == 0:
            self.model.prior.learn(labels, choices)
            self._learn_workers()

    def _learn_workers(self) -> None:
        """Type II maximum likelihood of the workers' prior."""
        for name, prior in self.model.annotators.priors().items():
            posterior = self.posteriors[name]
            total = posterior.mean().sum(0) + _PSEUDO_WORKERS * self._first_means[name][0]
            mean = total / (prior.natural_parameters.shape[0] + _PSEUDO_WORKERS)
            learned = natural_at_mean(prior.family, mean, prior.natural_parameters[0])
            change = learned - prior.natural_parameters
            prior.set_natural_parameters(learned)
            posterior.set_natural_parameters(posterior.natural_parameters + change)

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does; a step of training draws a partition first."""
        if torch.is_grad_enabled():
            self._draw(batch if self._all is None else self._all)
        with FullPlate("relations", 2):
            looks = pyro.sample("looks", self.posteriors["looks"].distribution())
        with FullPlate("workers", self.model.annotators.num_workers):
            rates = {
                name: pyro.sample(name, self.posteriors[name].distribution()).detach()
                for name in self.model.annotators.priors()
            }
        z = pyro.sample("z", Point(self.labels, torch.zeros((), dtype=torch.float64)))
        if not batch.num_pairs:
            return
        pairs = asked_pairs(batch)
        logits = looks.detach()[pairs.together(z).long()].clone()
        logits[:, 0] += self.model.log_answers(rates, batch, pairs)
        with FullPlate("asked_pairs", pairs.num_pairs, pair_weights(batch, pairs)):
            pyro.sample("look", ConjugateAtMean(Categorical(2), logits))

    @torch.no_grad()
    def answer_probabilities(
        self, data: CrowdData, items: Int[Tensor, "answer 2"], worker: Int[Tensor, " answer"]
    ) -> Float[Tensor, " answer"]:
        """``p(L = 1)`` of answers that are not in the data, given those that are.

        By the look of the pair, given its answers in the data and averaged over the draws, and the
        worker's rates at their geometric means.

        Parameters
        ----------
        data
            What the guide was trained on.
        items
            Positions of the two items of each answer.
        worker
            Codes of the workers.
        """
        batch = full_batch(data)
        heard = asked_pairs(batch)
        looks, rates = self._means()
        asked = AskedPairs.of(torch.cat([items, batch.asked_items]), data.num_items)
        ratio = torch.zeros(asked.num_pairs, dtype=torch.float64)
        place = torch.zeros(heard.num_pairs, dtype=torch.int64)
        place[heard.pair] = asked.pair[len(items) :]
        ratio[place] = self.model.log_answers(rates, batch, heard)
        different, same = ((ratio + row[0] - row[1]).sigmoid() for row in looks)
        together = share_together(self.partition_draws(), asked.left, asked.right)
        look = torch.lerp(different, same, together)[asked.pair[: len(items)]]
        yes, no = (
            self.model.annotators.answer(look, rates, worker).log_prob(label).exp()
            for label in (torch.ones_like(look), torch.zeros_like(look))
        )
        return yes / (yes + no)

    @torch.no_grad()
    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Posterior of every worker's rates, such as sensitivity and specificity."""
        return summarize_workers(self.model.annotators, self.posteriors, interval)


__all__ = ["PartitionGuide"]
