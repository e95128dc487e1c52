"""The guide of clusters from answers alone: conjugate posteriors, and Gibbs draws of the partition.

    q = q(looks) prod_m q(alpha_m) q(beta_m) prod_ij q(y_ij | z),      z drawn

Every step of training is a sweep of Gibbs sampling: rates and looks given the partition of the step
before and what its pairs look like, the partition given the rates, item by item, and the looks of
pairs given both. The last partitions are kept, and what the rates are given each: clusters, their
probabilities and intervals of the rates are read from them, so that these leave open what the
partition leaves open. The natural step then moves q towards the draw; with steps below one that is
stochastic variational inference with local draws (Mimno, Hoffman and Blei 2012). Predictions and
the ELBO are those of q.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import GradedAnswers, summarize_workers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import ConjugateAtMean, ConjugatePosterior, FullPlate, Point
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import (
    Beta,
    Categorical,
    Dirichlet,
    PosteriorSummary,
    beta_summary,
    natural_at_mean,
)
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models.answered_partition import (
    AnsweredPartition,
    asked_pairs,
    pair_weights,
)
from pyro_crowdclust.partitions import AskedPairs, FewClusters, anneal, share_together, sweep

# Rounds of Dawid and Skene's algorithm on pairs, which is where the workers start.
_FIRST_ROUNDS = 30
# Sweeps of every partition that training could begin with.
_SETTLING = 4
# Numbers of clusters that chains are annealed with, and chains of each.
_NUMBERS, _CHAINS = [2, 3, 4, 5, 6, 8, 10, 14, 20], 2
# Before anything is known workers are right of four pairs in five; what that can say of a pair.
_COMMON, _SURE = math.log(4.0), math.log(19.0)
# The prior of the workers is learned as if so many stood for the prior that was given.
_PSEUDO_WORKERS = 8.0
# Priors are learned in every fifth step: they move slowly, and learning costs as much as a sweep.
_LEARN_EVERY = 5
# No drawn rate is 0 to rounding.
_LEAST = -100.0


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
        for name, prior in priors.items():
            eta = prior.natural_parameters
            self.register_buffer(f"given_{name}", eta.repeat(num_draws, *[1] * eta.ndim))
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
        first = pairs.total(self.model.first_looks(batch.label))
        looks = first / first.sum(1, keepdim=True)
        # Where a look stands between different and the same.
        level = torch.linspace(0, 1, self.model.num_looks, dtype=torch.float64)
        shares = looks @ level
        for _ in range(_FIRST_ROUNDS):
            self._move_workers(looks, pairs, batch)
            said = pairs.total(self._log_answers(batch))
            looks = (said + looks.mean(0).clamp_min(1e-6).log()).softmax(1)
        prior = self.model.prior
        if isinstance(prior, FewClusters):
            different, together = self._relations(pairs, batch)
            common = (pairs.num_answers * (2 * shares - 1) * _COMMON).clamp(-_SURE, _SURE)
            self._anneal(torch.stack([common, together - different]), pairs, batch, generator)
            return
        same = float((looks @ level).mean())
        candidates = prior.first_partitions(shares, same, pairs, generator)
        settled = [self._settled(labels, looks, pairs, batch) for labels in candidates]
        _, labels, states = max(settled, key=lambda one: one[0])
        self._begin(labels, states)

    def _begin(self, labels: Int[Tensor, " item"], states: dict[str, Tensor]) -> None:
        """The partition and the workers that training begins with."""
        for name, natural_parameters in states.items():
            self.posteriors[name].set_natural_parameters(natural_parameters)
        self.draws = labels.repeat(len(self.draws), 1)
        for name, posterior in self.posteriors.items():
            self._given(name).copy_(posterior.natural_parameters)
        self.steps.fill_(1)

    def _anneal(
        self,
        evidence: Float[Tensor, "kind pair"],
        pairs: AskedPairs,
        batch: Batch,
        generator: torch.Generator,
    ) -> None:
        """Begin with the best of annealed chains.

        Chains of every number of clusters are annealed by each kind of evidence, and then again by
        that of the workers to whom this led. The best has the largest bound, the one with ``q(z)
        propto p(z) exp E[log p(L | z)]``, whose normalizer annealing estimates.
        """
        prior = self.model.prior
        assert isinstance(prior, FewClusters)
        numbers = [number for number in _NUMBERS if number < pairs.num_items] or [1]
        chains = torch.tensor(numbers * _CHAINS * len(evidence))
        evidence = evidence.repeat_interleave(len(numbers) * _CHAINS, 0)
        found = anneal(evidence, pairs, chains, prior.concentration, generator)
        bounds, states, learned = [], [], []
        for together in found.together:
            for _ in range(_SETTLING):
                said = pairs.total(self._log_answers(batch)) + self._means()[0][0]
                difference = self._means()[0].diff(dim=0)
                looks = (said + together.unsqueeze(1) * difference).softmax(1)
                self._move_workers(looks, pairs, batch)
            different, same = self._relations(pairs, batch)
            learned.append(same - different)
            bounds.append(float(different.sum()) - self._divergence())
            states.append(self._worker_states())
        found = anneal(torch.stack(learned), pairs, chains, prior.concentration, generator)
        best = int((torch.tensor(bounds) + found.log_evidence).argmax())
        labels = pairs.split(found.labels[best])
        # Clusters that no pairs connect are several.
        more = len(pairs.sizes(labels)) - len(pairs.sizes(found.labels[best]))
        prior.number.fill_(int(chains[best]) + more)
        self._begin(labels, states[best])

    def _divergence(self) -> float:
        """KL of the workers from their prior."""
        return sum(
            float(self.posteriors[name].distribution().divergence(prior.distribution()))
            for name, prior in self.model.annotators.priors().items()
        )

    def _worker_states(self) -> dict[str, Tensor]:
        names = self.model.annotators.priors()
        return {name: self.posteriors[name].natural_parameters.clone() for name in names}

    def _settled(
        self,
        labels: Int[Tensor, " item"],
        looks: Float[Tensor, "pair look"],
        pairs: AskedPairs,
        batch: Batch,
    ) -> tuple[float, Int[Tensor, " item"], dict[str, Tensor]]:
        """The bound of a partition after some sweeps, it, and the workers' posteriors there."""
        for _ in range(_SETTLING):
            # Where nobody is together yet, what pairs look like is all there is.
            if bool(pairs.together(labels).any()):
                looks = self._looks(labels, pairs, batch)
            self._move_workers(looks, pairs, batch)
            different, same = self._relations(pairs, batch)
            labels, _ = sweep(labels, pairs, same - different, self.model.prior)
        different, same = self._relations(pairs, batch)
        bound = float(torch.where(pairs.together(labels), same, different).sum())
        bound += float(self.model.prior.log_prob(labels, pairs))
        return bound - self._divergence(), labels, self._worker_states()

    def _looks(
        self, labels: Int[Tensor, " item"], pairs: AskedPairs, batch: Batch
    ) -> Float[Tensor, "pair look"]:
        """q(y) of every pair."""
        said = pairs.total(self._log_answers(batch))
        return (said + self._means()[0][pairs.together(labels).long()]).softmax(1)

    def _relations(
        self, pairs: AskedPairs, batch: Batch
    ) -> tuple[Float[Tensor, " pair"], Float[Tensor, " pair"]]:
        """``log p(answers | different)`` and ``log p(answers | same)`` of every pair."""
        said = pairs.total(self._log_answers(batch))
        different, same = (torch.logsumexp(said + row, 1) for row in self._means()[0])
        return different, same

    def _log_answers(self, batch: Batch) -> Float[Tensor, "answer look"]:
        """``E_q[log p(L | y)]`` of every answer."""
        return self.model.log_answers(self._means()[1], batch.worker, batch.label)

    def _move_workers(
        self, looks: Float[Tensor, "pair look"], pairs: AskedPairs, batch: Batch
    ) -> None:
        """Give the workers the posteriors of pairs that have these looks."""
        for name, count in self._counts(looks, self._means()[1], pairs, batch).items():
            prior = self.model.priors()[name].natural_parameters
            self.posteriors[name].set_natural_parameters(prior + count)

    def _counts(
        self,
        looks: Float[Tensor, "pair look"],
        rates: dict[str, Tensor],
        pairs: AskedPairs,
        batch: Batch,
    ) -> dict[str, Tensor]:
        """Expected counts of every site of the workers: the answers are linear in all of them."""
        sites = {name: rate.detach().requires_grad_() for name, rate in rates.items()}
        with torch.enable_grad():
            answer = self.model.answer(looks[pairs.pair], sites, batch.worker)
            log_likelihood = (batch.pair_weight * answer.log_prob(batch.label)).sum()
            counts = torch.autograd.grad(log_likelihood, list(sites.values()))
        return dict(zip(sites, counts, strict=True))

    def _given(self, name: str) -> Float[Tensor, "draw *plate size"]:
        """Natural parameters of a site given each draw of the partition and of the looks."""
        return getattr(self, f"given_{name}")

    @torch.no_grad()
    def _draw(self, batch: Batch) -> None:
        """One Gibbs sweep: rates and looks of pairs, items, and what the rates are given these."""
        pairs, last = asked_pairs(batch), (int(self.steps) - 1) % len(self.draws)
        rates = {}
        for name, posterior in self.posteriors.items():
            drawn = posterior.family.sample(self._given(name)[last])
            rates[name] = posterior.family.sufficient_statistics(drawn).clamp_min(_LEAST)
        rows = rates.pop("looks")
        said = pairs.total(self.model.log_answers(rates, batch.worker, batch.label))
        different, same = (torch.logsumexp(said + row, 1) for row in rows)
        labels, choices = sweep(self.labels, pairs, same - different, self.model.prior)
        together = pairs.together(labels).long()
        look = torch.distributions.Categorical(logits=said + rows[together]).sample()
        looks = nn.functional.one_hot(look, self.model.num_looks).double()
        counts = self._counts(looks, rates, pairs, batch)
        weighed = looks * pair_weights(batch, pairs).unsqueeze(1)
        counts["looks"] = torch.zeros_like(rows).index_add(0, together, weighed)
        place = int(self.steps) % len(self.draws)
        for name, prior in self.model.priors().items():
            self._given(name)[place] = prior.natural_parameters + counts[name]
        self.draws[place] = labels
        self.steps += 1
        if int(self.steps) % _LEARN_EVERY == 0:
            self.model.prior.learn(pairs.sizes(labels), choices)
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
        said = pairs.total(self.model.log_answers(rates, batch.worker, batch.label))
        logits = looks.detach()[pairs.together(z).long()] + said
        with FullPlate("asked_pairs", pairs.num_pairs, pair_weights(batch, pairs)):
            pyro.sample("look", ConjugateAtMean(Categorical(self.model.num_looks), logits))

    @torch.no_grad()
    def log_answer_probabilities(
        self,
        data: CrowdData,
        items: Int[Tensor, "answer 2"],
        worker: Int[Tensor, " answer"],
        label: Float[Tensor, " answer"],
    ) -> Float[Tensor, " answer"]:
        """``log p(L)`` of answers that are not in the data, given those that are.

        By the look of the pair, given its answers in the data and averaged over the draws, and the
        expected rates of the worker.

        Parameters
        ----------
        data
            What the guide was trained on.
        items
            Positions of the two items of each answer.
        worker, label
            Codes of the workers, and what they said.
        """
        batch = full_batch(data)
        asked = AskedPairs.of(torch.cat([items, batch.asked_items]), data.num_items)
        said = torch.zeros(asked.num_pairs, self.model.num_looks, dtype=torch.float64)
        said = said.index_add(0, asked.pair[len(items) :], self._log_answers(batch))
        looks, rates = self._means()
        different, same = ((said + row).softmax(1) for row in looks)
        together = share_together(self.partition_draws(), asked.left, asked.right)
        look = torch.lerp(different, same, together.unsqueeze(1))[asked.pair[: len(items)]].log()
        rates = {name: log_expected(self.posteriors[name]) for name in rates}
        return torch.logsumexp(look + self.model.log_answers(rates, worker, label), 1)

    @torch.no_grad()
    def workers(self, interval: float = 0.9) -> WorkerSummary | None:
        """Posterior of every worker's rates, such as sensitivity and specificity.

        Those of two coins are of pairs that are the same or different, whatever these look like:
        with s the share of such pairs that look as they are, sensitivity alpha and specificity beta
        of looks, ``s alpha + (1 - s) (1 - beta)``. Intervals are those of Betas with the moments of
        the rates over all draws, given each of which they have Beta posteriors.
        """
        annotators = self.model.annotators
        found: WorkerSummary | None
        if isinstance(annotators, GradedAnswers):
            found = annotators.summary(self.posteriors, interval)
        else:
            found = summarize_workers(annotators, self.posteriors, interval)
        if found is None or not all(
            isinstance(p.family, Beta | Dirichlet) for p in annotators.priors().values()
        ):
            return found
        moments = {name: self._moments(name) for name in ("looks", *annotators.priors())}
        looks = moments.pop("looks")
        if set(moments) == {"sensitivity", "specificity"}:
            right, rejected = (tuple(part[..., 0] for part in one) for one in moments.values())
            moments = {
                "sensitivity": _mixed(looks, (1, 1), right, rejected),
                "specificity": _mixed(looks, (0, 0), rejected, right),
            }
        rates = {name: _over_draws(*moments[name], interval) for name in moments}
        return WorkerSummary(rates, found.weight, found.weight_sd)

    def _moments(self, name: str) -> tuple[Tensor, Tensor]:
        """Mean and variance of shares given every draw."""
        used = self._given(name)[: len(self.partition_draws())]
        counts = used + 1
        total = counts.sum(-1, keepdim=True)
        mean = counts / total
        return mean, mean * (1 - mean) / (total + 1)


def _mixed(
    looks: tuple[Tensor, Tensor],
    place: tuple[int, int],
    right: tuple[Tensor, ...],
    other: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor]:
    """Mean and variance of ``s a + (1 - s) (1 - b)`` of independent s, a and b."""
    share, spread = (part[:, *place].unsqueeze(1) for part in looks)
    wrong = 1 - other[0]
    mean = share * right[0] + (1 - share) * wrong
    square = (share**2 + spread) * (right[0] ** 2 + right[1])
    square = square + 2 * (share - share**2 - spread) * right[0] * wrong
    square = square + ((1 - share) ** 2 + spread) * (wrong**2 + other[1])
    return mean, square - mean**2


def _over_draws(mean: Tensor, variance: Tensor, interval: float) -> PosteriorSummary:
    """Of shares with these moments in every draw, Betas of the moments over all draws."""
    centre = mean.mean(0)
    spread = variance.mean(0) + mean.var(0, correction=0)
    strength = (centre * (1 - centre) / spread - 1).numpy()
    return beta_summary(strength * centre.numpy(), strength * (1 - centre).numpy(), interval)


def log_expected(posterior: ConjugatePosterior) -> Float[Tensor, "*plate size"]:
    """``log E_q[exp t]``, entry by entry: of Betas and Dirichlets the logarithm of the mean."""
    family, eta = posterior.family, posterior.natural_parameters.detach()
    steps = torch.eye(family.size, dtype=eta.dtype)
    higher = family.log_normalizer(eta.unsqueeze(-2) + steps)
    return higher - family.log_normalizer(eta).unsqueeze(-1)


__all__ = ["PartitionGuide"]
