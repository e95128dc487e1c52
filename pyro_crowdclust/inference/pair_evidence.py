"""The evidence of answers about pairs under q of workers and looks, and updates of this q."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.annotators.informative import informative_workers
from pyro_crowdclust.distributions.priors import set_to_counts
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.partitions.protocols import LearnedWorkers

# Rounds of Dawid and Skene's algorithm on pairs, which is where the workers start.
_FIRST_ROUNDS = 30
# Before training workers are assumed to be right about four pairs in five: the evidence of one
# answer, and the limit of that of all answers about a pair.
_COMMON, _SURE = math.log(4.0), math.log(19.0)


class PairEvidence:
    """Answers about pairs, and the posteriors under which they are evidence about the partition.

    Parameters
    ----------
    model
        The model of the answers, such as ``AnsweredPartition``.
    posteriors
        q of its sites, by name.
    batch
        The answers.
    """

    def __init__(self, model: Any, posteriors: Any, batch: Batch) -> None:
        self.model, self.posteriors, self.batch = model, posteriors, batch
        self.pairs = batch.asked_pairs
        # log p(x | y) of every pair, up to a constant.
        self.likeness = model.log_likeness(batch, self.pairs)

    @property
    def informative(self) -> Bool[Tensor, " worker"]:
        """Whether the answers of every worker are evidence about the pairs.

        Those of a worker who nearly always says the same are not. If they were, and there are few
        others, the likeliest partition would be a single cluster, in which just these are right.
        Such a worker has rates given the partition, as all others have.
        """
        batch, number = self.batch, self.model.annotators.num_workers
        return batch.once(
            "informative workers",
            lambda: informative_workers(batch.worker, batch.needed_label, number),
        )

    @property
    def num_answers(self) -> Float[Tensor, " pair"]:
        """How many answers about each pair are evidence."""
        return self.pairs.total(self.informative[self.batch.worker].double())

    def total(self, of_answers: Float[Tensor, " answer *event"]) -> Float[Tensor, " pair *event"]:
        """Sums over the answers about each pair that are evidence."""
        if not bool(self.informative.all()):
            counts = self.informative[self.batch.worker].to(of_answers)
            of_answers = of_answers * counts.view(-1, *[1] * (of_answers.ndim - 1))
        return self.pairs.total(of_answers)

    def means(self) -> tuple[Tensor, dict[str, Tensor]]:
        """E[t] of the looks, and of the workers' sites."""
        means = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        return means.pop("looks"), means

    def log_likelihoods(
        self, rates: Mapping[str, Float[Tensor, "*replica worker size"]]
    ) -> Float[Tensor, "*replica pair look"]:
        """``log p(answers, x | y)`` of every pair, from statistics of the workers' sites.

        The answers are the same for all replicas; the workers of each replica have other rates.
        """
        shape, flattened = self._flattened(rates)
        each = self.model.log_answers(*flattened).view(math.prod(shape), self.batch.num_pairs, -1)
        found = self.total(each.transpose(0, 1)).transpose(0, 1) + self.likeness
        return found.reshape(*shape, *found.shape[1:])

    def relations(self) -> tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]:
        """``log p(answers, x | different)`` and ``log p(answers, x | same)``, if none is hard."""
        rows, rates = self.means()
        log_likelihoods = self.log_likelihoods(rates)
        different, same = (torch.logsumexp(log_likelihoods + row, 1) for row in rows[:2])
        return different, same

    def counts(
        self,
        looks: Float[Tensor, "*replica pair look"],
        rates: Mapping[str, Float[Tensor, "*replica worker size"]],
    ) -> dict[str, Float[Tensor, "*replica worker size"]]:
        """Expected counts of every site of the workers: gradients of a linear log-likelihood."""
        rates = {name: rate.detach().requires_grad_() for name, rate in rates.items()}
        with torch.enable_grad():
            shape, (sites, worker, label) = self._flattened(rates)
            look = looks[..., self.pairs.pair, :].flatten(0, -2)
            log_likelihood = self.model.answer(look, sites, worker).log_prob(label)
            weight = self.batch.pair_weight.repeat(math.prod(shape))
            counts = torch.autograd.grad((weight * log_likelihood).sum(), list(rates.values()))
        return dict(zip(rates, counts, strict=True))

    def _flattened(
        self, rates: Mapping[str, Float[Tensor, "*replica worker size"]]
    ) -> tuple[torch.Size, tuple[dict[str, Tensor], Tensor, Tensor]]:
        """The shape of the replicas; rates, workers and labels as those of a single large crowd."""
        shape = next(iter(rates.values())).shape[:-2]
        batch, num_workers = self.batch, self.model.annotators.num_workers

        def answers() -> tuple[Tensor, Tensor]:
            first = num_workers * torch.arange(math.prod(shape)).unsqueeze(1)
            return (batch.worker + first).flatten(), batch.needed_label.repeat(len(first))

        sites = {name: rate.flatten(0, -2) for name, rate in rates.items()}
        return shape, (sites, *batch.once(("replicas", shape), answers))

    def move_workers(self, looks: Float[Tensor, "pair look"], rates: Mapping[str, Tensor]) -> None:
        """Set the workers' posteriors, given the looks of the pairs and their present ``rates``."""
        set_to_counts(self.posteriors, self.model.priors(), self.counts(looks, rates))


class FirstWorkers(PairEvidence):
    """Posteriors of workers by Dawid and Skene's algorithm on pairs, updated by partitions."""

    def __init__(self, model: Any, posteriors: Any, batch: Batch) -> None:
        super().__init__(model, posteriors, batch)
        first = self.total(model.first_looks(batch.label))
        asked = self.num_answers > 0
        looks = first / first.sum(1, keepdim=True).clamp_min(1.0)
        level = model.look_levels
        self.shares = looks @ level
        rates = self.means()[1]
        for _ in range(_FIRST_ROUNDS):
            self.move_workers(looks, rates)
            rates = self.means()[1]
            log_shares = looks[asked].mean(0).clamp_min(1e-6).log()
            looks = (self.log_likelihoods(rates) + log_shares).softmax(1)
        self._looks, self.same = looks, float((looks @ level)[asked].mean())
        model.learn_likeness(looks, batch, self.pairs)
        self.likeness = model.log_likeness(batch, self.pairs)

    def evidence(self) -> Float[Tensor, "kind pair"]:
        """The evidence for "same" of every pair: with typical workers, and with these."""
        common = self.num_answers * (2 * self.shares - 1) * _COMMON
        different, same = self.relations()
        common = common + self.likeness[:, -1]
        return torch.stack([common.clamp(-_SURE, _SURE), same - different])

    def learn(self, together: Float[Tensor, " pair"], rounds: int = 1) -> LearnedWorkers:
        """Update the workers, given the probabilities that pairs are in one cluster."""
        for _ in range(rounds):
            rows, rates = self.means()
            looks = self._looks
            # While all items are apart, only the looks of the start are known.
            if bool(together.any()):
                expected = torch.lerp(rows[0], rows[1], together.unsqueeze(1))
                looks = (self.log_likelihoods(rates) + expected).softmax(1)
            self.move_workers(looks, rates)
        names = self.model.annotators.priors()
        state = {name: self.posteriors[name].natural_parameters.clone() for name in names}
        return LearnedWorkers(*self.relations(), self._divergence(), state)

    def _divergence(self) -> float:
        """The KL divergence of the workers' posterior from their prior."""
        return sum(
            float(self.posteriors[name].distribution().divergence(prior.distribution()))
            for name, prior in self.model.annotators.priors().items()
        )
