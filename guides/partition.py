"""The guide of clusters from answers alone: conjugate posteriors, and Gibbs draws of the partition.

    q = q(looks) prod_m q(alpha_m) q(beta_m) prod_ij q(y_ij | z, h),      z and h drawn

Every step of training is a sweep of Gibbs sampling, or several where answers are few: rates and
looks given the last partition and what its pairs look like, the partition given the rates, item by
item, which items are hard, if there are such, and the looks of pairs given all. Under priors that
say so this is done by several replicas, for all but the last of which the answers count less, and
which exchange their partitions (``guides.replicas``): where answers are few, a single chain is sure
of what others deny. There may be several such chains of replicas. The last partitions are kept, and
what the rates are given each: clusters, their probabilities and intervals of the rates are read
from them, so that these leave open what the partition leaves open. The natural step then moves q
towards the draw; with steps below one that is stochastic variational inference with local draws
(Mimno, Hoffman and Blei 2012). Predictions and the ELBO are those of q.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import sample_rates
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugateAtMean,
    FullPlate,
    Point,
    WorkerSummary,
    conjugate_posteriors,
    detached,
)
from pyro_crowdclust.families import Categorical, natural_at_mean
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.named_buffers import NamedBuffers
from pyro_crowdclust.guides.pair_evidence import FirstWorkers, PairEvidence
from pyro_crowdclust.guides.replicas import Replicas, run_replicas
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models.answered_partition import AnsweredPartition, pair_weights
from pyro_crowdclust.partitions import AskedPairs, Start

# The prior of the workers is learned as if so many stood for the prior that was given.
_PSEUDO_WORKERS = 30.0
# Priors are learned in every fifth step: they move slowly, and learning costs as much as a sweep.
_LEARN_EVERY = 5
# Sweeps of replicas in every step: as many as hear so many answers, and not more than one for so
# many items, of which few soon have been everywhere.
_ANSWERS, _ITEMS, _MOST_SWEEPS = 1500, 15, 4
# Chains: as many as hear so many answers in all.
_ANSWERS_OF_CHAINS = 3000


def affordable_chains(num_pairs: int, most: int) -> int:
    """As many chains as hear 3,000 answers in all, from one to so many."""
    return max(min(_ANSWERS_OF_CHAINS // max(num_pairs, 1), most), 1)


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
        How many of the last partitions of every chain are kept.
    num_chains
        Chains of replicas, each of which goes its own way.

    Examples
    --------
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> from pyro_crowdclust.models import AnsweredPartition
    >>> from pyro_crowdclust.partitions import FewClusters
    >>> said = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": list("aaa"), "label": [1, 0, 0]}
    >>> data, model = CrowdData(None, said), AnsweredPartition(TwoCoin(1), FewClusters())
    >>> guide = PartitionGuide(model, data.num_items, num_draws=20)
    >>> result = fit(model, guide, data, batch_size=None, epochs=20, progress=False)
    >>> result.guide.partition_draws().shape
    torch.Size([20, 3])
    """

    draws: Tensor
    hard_draws: Tensor
    steps: Tensor
    replica_labels: Tensor
    replica_hard: Tensor

    def __init__(
        self,
        model: AnsweredPartition,
        num_items: int,
        num_draws: int = 100,
        num_chains: int = 1,
    ) -> None:
        super().__init__()
        self.model = model
        priors = model.priors()
        self.posteriors: Any = conjugate_posteriors(priors)
        self.num_chains, num_draws = num_chains, num_draws * num_chains
        self.register_buffer("draws", torch.arange(num_items).repeat(num_draws, 1))
        self.register_buffer("hard_draws", torch.zeros(num_draws, num_items, dtype=torch.int64))
        self.register_buffer("steps", torch.tensor(0))
        number = num_chains * len(model.prior.powers)
        self.register_buffer("replica_labels", torch.arange(num_items).repeat(number, 1))
        self.register_buffer("replica_hard", torch.zeros(number, num_items, dtype=torch.int64))
        first = {name: prior.natural_parameters for name, prior in priors.items()}
        self.given = NamedBuffers(_repeated(first, num_draws))
        self.replica_given = NamedBuffers(_repeated(first, number))
        self._first_means = {
            name: prior.family.expected_statistics(prior.natural_parameters)
            for name, prior in model.annotators.priors().items()
        }
        self._all: Batch | None = None

    @property
    def _last(self) -> int:
        """The place of the last draw, of one chain after the other."""
        chain = int(self.steps) % self.num_chains
        return ((int(self.steps) - 1) * self.num_chains + chain) % len(self.draws)

    @property
    def labels(self) -> Int[Tensor, " item"]:
        """The last draw."""
        return self.draws[self._last]

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """Draws of the partition, those of the last steps."""
        return self.draws[: max(1, int(self.steps)) * self.num_chains]

    def draws_by_chain(self) -> Int[Tensor, "draw chain item"]:
        """The same, by the chain that they are of."""
        return self.partition_draws().unflatten(0, (-1, self.num_chains))

    def hard_probabilities(self) -> Float[Tensor, " item"]:
        """The share of the draws in which each item is hard to recognize."""
        return self.hard_draws[: len(self.partition_draws())].double().mean(0)

    @torch.no_grad()
    def start(self, data: CrowdData, generator: torch.Generator) -> None:
        """Begin with workers by Dawid and Skene's algorithm on pairs, and the prior's partition."""
        self._all = full_batch(data)
        workers = FirstWorkers(self.model, self.posteriors, self._all)
        self._begin(self.model.prior.start(workers, workers.pairs, generator))

    def _begin(self, starts: Sequence[Start]) -> None:
        """Where replicas begin, the best last; an update brings new ones."""
        for name, natural_parameters in starts[-1].workers.items():
            self.posteriors[name].set_natural_parameters(natural_parameters)
        per_chain = len(self.model.prior.powers)
        first = detached({name: q.natural_parameters for name, q in self.posteriors.items()})
        # The best has all answers; where there are fewer starts than replicas they repeat.
        of_chain = [starts[-1 - place % len(starts)] for place in reversed(range(per_chain))]
        begun = of_chain * self.num_chains
        labels = torch.stack([start.labels for start in begun])
        given = {
            name: torch.stack([start.workers.get(name, one) for start in begun])
            for name, one in first.items()
        }
        self._set_replicas(Replicas(labels, torch.zeros_like(labels), given))
        self.draws, self.hard_draws = (
            of_last.repeat(len(self.draws), 1)
            for of_last in (self.replica_labels[-1], self.replica_hard[-1])
        )
        self.given.set(_repeated(first, len(self.draws)))
        self.steps.fill_(1)

    def _replicas(self) -> Replicas:
        """All replicas, the last of each chain with all that the answers say."""
        return Replicas(self.replica_labels, self.replica_hard, self.replica_given.by_name())

    def _set_replicas(self, replicas: Replicas) -> None:
        self.replica_labels, self.replica_hard = replicas.labels, replicas.hard
        self.replica_given.set(replicas.given)

    def _given(self, name: str) -> Float[Tensor, "draw *plate size"]:
        """Natural parameters of a site given each draw of the partition and of the looks."""
        return self.given[name]

    @torch.no_grad()
    def _draw(self, batch: Batch) -> None:
        """Sweeps of all replicas; the last one's partition is the draw."""
        heard = PairEvidence(self.model, self.posteriors, batch)
        replicas, powers = self._replicas(), self.model.prior.powers
        most = _MOST_SWEEPS if len(powers) > 1 else 1
        asked = _ANSWERS // max(batch.num_pairs, 1)
        sweeps = max(min(asked, len(self.labels) // _ITEMS, most), 1)
        for turn in range(sweeps):
            first = (int(self.steps) * sweeps + turn) % 2
            replicas, choices = run_replicas(replicas, powers, heard, first)
        self._set_replicas(replicas)
        place = int(self.steps) * self.num_chains + torch.arange(self.num_chains)
        place, last = place % len(self.draws), slice(len(powers) - 1, None, len(powers))
        for name, given in replicas.given.items():
            self._given(name)[place] = given[last]
        self.draws[place], self.hard_draws[place] = replicas.labels[last], replicas.hard[last]
        self.steps += 1
        if int(self.steps) % _LEARN_EVERY == 0:
            self.model.prior.learn(self.labels, heard.pairs, choices)
            if self.model.likeness is not None:
                self._learn_likeness(batch, heard)
            self._learn_workers()

    def _learn_likeness(self, batch: Batch, heard: PairEvidence) -> None:
        """What pairs look like, by the last draw, teaches what their likeness says."""
        looks, rates = heard.means()
        hard = self.hard_draws[self._last]
        logits = looks[self.model.relations(self.labels, hard, heard.pairs)] + heard.said(rates)
        self.model.learn_likeness(logits.softmax(1), batch, heard.pairs)

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
        with FullPlate("relations", len(self.model.looks.natural_parameters)):
            looks = pyro.sample("looks", self.posteriors["looks"].distribution())
        rates = detached(sample_rates(self.model.annotators, self.posteriors))
        nothing = torch.zeros((), dtype=torch.float64)
        z, hard = pyro.sample("z", Point(self.labels, nothing)), self.hard_draws[self._last]
        if self.model.hard_items:
            hard = pyro.sample("hard", Point(hard, nothing))
        if not batch.num_pairs:
            return
        heard = PairEvidence(self.model, self.posteriors, batch)
        pairs = heard.pairs
        logits = looks.detach()[self.model.relations(z, hard, pairs)] + heard.said(rates)
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
        heard = full_batch(data)
        asked = AskedPairs.of(torch.cat([items, heard.asked_items]), data.num_items)
        looks, rates = PairEvidence(self.model, self.posteriors, heard).means()
        said = torch.zeros(asked.num_pairs, self.model.num_looks, dtype=torch.float64)
        answers = self.model.log_answers(rates, heard.worker, heard.label)
        said = said.index_add(0, asked.pair[len(items) :], answers)
        said = said + self.model.said_by_likeness(heard, asked)
        by_relation = torch.stack([(said + row).softmax(1) for row in looks], 1)
        shares = self._relation_shares(asked).unsqueeze(2)
        look = (shares * by_relation).sum(1)[asked.pair[: len(items)]].log()
        rates = {name: self.posteriors[name].log_expected() for name in rates}
        return torch.logsumexp(look + self.model.log_answers(rates, worker, label), 1)

    def _relation_shares(self, pairs: AskedPairs) -> Float[Tensor, "pair relation"]:
        """In how many draws pairs are of every kind; one draw is all kinds, so that none is 0."""
        number = len(self.model.looks.natural_parameters)
        counts = torch.full((pairs.num_pairs, number), 1 / number, dtype=torch.float64)
        drawn = zip(self.partition_draws(), self.hard_draws, strict=False)
        for labels, hard in drawn:
            place = self.model.relations(labels, hard, pairs).unsqueeze(1)
            counts.scatter_add_(1, place, torch.ones_like(counts[:, :1]))
        return counts / counts.sum(1, keepdim=True)

    @torch.no_grad()
    def workers(self, interval: float = 0.9) -> WorkerSummary:
        """Posterior of every worker's rates, such as sensitivity and specificity.

        Over all draws: see ``summary_of_draws`` of the annotators.
        """
        given = {name: self._given(name)[: len(self.partition_draws())] for name in self.posteriors}
        looks = given.pop("looks")
        counts = looks - self.model.looks.natural_parameters
        return self.model.by_look.summary_of_draws(self.posteriors, given, looks, counts, interval)


def _repeated(tensors: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """So many copies of each, along a first axis."""
    return {name: one.repeat(number, *[1] * one.ndim) for name, one in tensors.items()}
