"""What answers about pairs say by q of the workers and of how pairs look, and how q learns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.models.answered_partition import AnsweredPartition, asked_pairs
from pyro_crowdclust.partitions import Heard

# Rounds of Dawid and Skene's algorithm on pairs, which is where the workers start.
_FIRST_ROUNDS = 30
# Before anything is known workers are right of four pairs in five; what that can say of a pair.
_COMMON, _SURE = math.log(4.0), math.log(19.0)


class PairEvidence:
    """Answers, and the posteriors by which they are heard.

    Parameters
    ----------
    model
        The model of the answers.
    posteriors
        q of its sites, by name.
    batch
        The answers.
    """

    def __init__(self, model: AnsweredPartition, posteriors: Any, batch: Batch) -> None:
        self.model, self.posteriors, self.batch = model, posteriors, batch
        self.pairs = asked_pairs(batch)

    def means(self) -> tuple[Tensor, dict[str, Tensor]]:
        """E[t] of the looks, and of the workers' sites."""
        means = {name: posterior.mean() for name, posterior in self.posteriors.items()}
        return means.pop("looks"), means

    def said(
        self, rates: Mapping[str, Float[Tensor, "*replica worker size"]]
    ) -> Float[Tensor, "*replica pair look"]:
        """``log p(answers, x | y)`` of every pair, by statistics of the workers' sites.

        Replicas of the workers, each with rates of their own, have given the same answers.
        """
        shape, one_crowd = self._one_crowd(rates)
        each = self.model.log_answers(*one_crowd).view(math.prod(shape), self.batch.num_pairs, -1)
        said = self.pairs.total(each.transpose(0, 1)).transpose(0, 1) + self.likeness
        return said.reshape(*shape, *said.shape[1:])

    def relations(self) -> tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]:
        """``log p(answers, x | different)`` and ``log p(answers, x | same)`` of clear items."""
        rows, rates = self.means()
        said = self.said(rates)
        different, same = (torch.logsumexp(said + row, 1) for row in rows[:2])
        return different, same

    @property
    def likeness(self) -> Float[Tensor, "pair look"]:
        """``log p(x | y)`` of every pair, up to a constant."""
        return self.model.said_by_likeness(self.batch, self.pairs)

    def counts(
        self,
        looks: Float[Tensor, "*replica pair look"],
        rates: Mapping[str, Float[Tensor, "*replica worker size"]],
    ) -> dict[str, Float[Tensor, "*replica worker size"]]:
        """Expected counts of every site of the workers: the answers are linear in all of them."""
        rates = {name: rate.detach().requires_grad_() for name, rate in rates.items()}
        with torch.enable_grad():
            shape, (sites, worker, label) = self._one_crowd(rates)
            look = looks[..., self.pairs.pair, :].flatten(0, -2)
            log_likelihood = self.model.answer(look, sites, worker).log_prob(label)
            weight = self.batch.pair_weight.repeat(math.prod(shape))
            counts = torch.autograd.grad((weight * log_likelihood).sum(), list(rates.values()))
        return dict(zip(rates, counts, strict=True))

    def _one_crowd(
        self, rates: Mapping[str, Float[Tensor, "*replica worker size"]]
    ) -> tuple[torch.Size, tuple[dict[str, Tensor], Tensor, Tensor]]:
        """The shape of the replicas; rates of them all, and of each answer its worker and label."""
        shape = next(iter(rates.values())).shape[:-2]
        batch, num_workers = self.batch, self.model.annotators.num_workers

        def answers() -> tuple[Tensor, Tensor]:
            first = num_workers * torch.arange(math.prod(shape)).unsqueeze(1)
            return (batch.worker + first).flatten(), batch.needed_label.repeat(len(first))

        sites = {name: rate.flatten(0, -2) for name, rate in rates.items()}
        return shape, (sites, *batch.once(("replicas", shape), answers))

    def move_workers(self, looks: Float[Tensor, "pair look"], rates: Mapping[str, Tensor]) -> None:
        """Give the workers the posteriors of pairs that have these looks, from their ``rates``."""
        for name, count in self.counts(looks, rates).items():
            prior = self.model.priors()[name].natural_parameters
            self.posteriors[name].set_natural_parameters(prior + count)


class FirstWorkers(PairEvidence):
    """Workers by Dawid and Skene's algorithm on pairs, who then learn from partitions."""

    def __init__(self, model: AnsweredPartition, posteriors: Any, batch: Batch) -> None:
        super().__init__(model, posteriors, batch)
        first = self.pairs.total(model.first_looks(batch.label))
        asked = self.pairs.num_answers > 0
        looks = first / first.sum(1, keepdim=True).clamp_min(1.0)
        level = model.look_levels
        self.shares = looks @ level
        rates = self.means()[1]
        for _ in range(_FIRST_ROUNDS):
            self.move_workers(looks, rates)
            rates = self.means()[1]
            said = self.said(rates)
            looks = (said + looks[asked].mean(0).clamp_min(1e-6).log()).softmax(1)
        self._looks, self.same = looks, float((looks @ level)[asked].mean())
        model.learn_likeness(looks, batch, self.pairs)

    def evidence(self) -> Float[Tensor, "kind pair"]:
        """What the answers say for "same": of common workers, and of these."""
        common = self.pairs.num_answers * (2 * self.shares - 1) * _COMMON
        different, same = self.relations()
        common = common + self.likeness[:, -1]
        return torch.stack([common.clamp(-_SURE, _SURE), same - different])

    def learn(self, together: Float[Tensor, " pair"], rounds: int = 1) -> Heard:
        """Learn from pairs that are one cluster with these probabilities."""
        for _ in range(rounds):
            rows, rates = self.means()
            looks = self._looks
            # Where nobody is together yet, what pairs look like is all there is.
            if bool(together.any()):
                expected = torch.lerp(rows[0], rows[1], together.unsqueeze(1))
                looks = (self.said(rates) + expected).softmax(1)
            self.move_workers(looks, rates)
        names = self.model.annotators.priors()
        state = {name: self.posteriors[name].natural_parameters.clone() for name in names}
        return Heard(*self.relations(), self._divergence(), state)

    def _divergence(self) -> float:
        """KL of the workers from their prior."""
        return sum(
            float(self.posteriors[name].distribution().divergence(prior.distribution()))
            for name, prior in self.model.annotators.priors().items()
        )
