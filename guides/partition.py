"""The guide of ``AnsweredPartition``: conjugate posteriors, and Gibbs draws of the partition.

    q = q(looks) prod_m q(alpha_m) q(beta_m) prod_ij q(y_ij | z, h),      z and h drawn

Every step of training is a sweep of Gibbs sampling, or several if there are few answers. A sweep
draws the workers' rates and the look probabilities given the last partition and looks; then the
partition given the rates, item by item; then which items are hard, if the model has hard items; and
last the looks of the pairs.

Under priors with several ``powers``, several replicas of the chain are run, and the answers count
less in all but the last one; they exchange their partitions (``inference.replicas``). With few
answers, single chains would each be certain of different partitions. There can be several such
chains of replicas.

The last partitions are kept, with the posterior of the rates given each. Clusters, probabilities
and intervals of rates are computed from all of them and so include the uncertainty about the
partition. The natural step moves q towards the last draw; with step sizes below one this is
stochastic variational inference with local draws (Mimno, Hoffman and Blei 2012). Predictions and
the ELBO are those of q.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyro
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.annotators import sample_rates
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    ConjugateAtMean,
    FullPlate,
    Point,
    WorkerSummary,
    detached,
)
from pyro_crowdclust.families import Categorical, natural_at_mean
from pyro_crowdclust.files import described
from pyro_crowdclust.guides.gibbs import GibbsGuide
from pyro_crowdclust.guides.named_buffers import NamedBuffers
from pyro_crowdclust.inference import FirstWorkers, PairEvidence, Replicas, run_replicas
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import AskedPairs, ChainStart, closes_triangles

# The prior that was given counts as this many workers when the prior of workers is learned.
_PSEUDO_WORKERS = 30.0
# Priors are learned in every fifth step: they change slowly, and learning costs as much as a sweep.
_LEARN_EVERY = 5
# A step of replicas processes about _ANSWERS answers in its sweeps, with at most one sweep per
# _ITEMS items, since few items soon have been in all clusters.
_ANSWERS, _ITEMS, _MAX_SWEEPS = 1500, 15, 4
# Answers in all chains together.
_ANSWERS_OF_CHAINS = 3000


def affordable_chains(num_pairs: int, max_chains: int) -> int:
    """The number of chains with about 3,000 answers in all, from 1 to ``max_chains``."""
    return max(min(_ANSWERS_OF_CHAINS // max(num_pairs, 1), max_chains), 1)


@described
class PartitionGuide(GibbsGuide):
    """q of the workers and of the looks of pairs, and posterior draws of the partition.

    Parameters
    ----------
    model
        The model whose posterior this approximates. The prior of its workers is learned, too.
    num_items
        N, the number of items.
    num_draws
        The number of last partitions that are kept of every chain.
    num_chains
        The number of independent chains of replicas.

    Examples
    --------
    >>> from pyro_crowdclust import fit
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> from pyro_crowdclust.models import AnsweredPartition
    >>> from pyro_crowdclust.partitions import FewClusters
    >>> answers = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": list("aaa"), "label": [1, 0, 0]}
    >>> data, model = CrowdData(None, answers), AnsweredPartition(TwoCoin(1), FewClusters())
    >>> guide = PartitionGuide(model, data.num_items, num_draws=20)
    >>> result = fit(model, guide, data, batch_size=None, epochs=20, progress=False)
    >>> result.guide.partition_draws().shape
    torch.Size([20, 3])
    """

    model: AnsweredPartition
    draws: Tensor
    hard_draws: Tensor
    replica_labels: Tensor
    replica_hard: Tensor

    def __init__(
        self,
        model: AnsweredPartition,
        num_items: int,
        num_draws: int = 100,
        num_chains: int = 1,
    ) -> None:
        super().__init__(model)
        priors = model.priors()
        self.num_chains, num_draws = num_chains, num_draws * num_chains
        self.register_buffer("draws", torch.arange(num_items).repeat(num_draws, 1))
        self.register_buffer("hard_draws", torch.zeros(num_draws, num_items, dtype=torch.int64))
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

    @property
    def _last(self) -> int:
        """The index of the last draw; the chains take turns in providing it."""
        chain = int(self.steps) % self.num_chains
        return ((int(self.steps) - 1) * self.num_chains + chain) % len(self.draws)

    @property
    def labels(self) -> Int[Tensor, " item"]:
        """The last draw."""
        return self.draws[self._last]

    def partition_draws(self) -> Int[Tensor, "draw item"]:
        """Draws of the partition, those of the last steps."""
        return self.draws[: max(1, int(self.steps)) * self.num_chains]

    def random_pairs(self, data: CrowdData) -> AskedPairs | None:
        """The pairs that people were asked about, unless these look similar or are candidates."""
        is_random = self.model.prior.joins_strangers and data.likeness is None
        if data.answers is None or data.answers.page is not None or not is_random:
            return None
        pairs = AskedPairs.of(data.answers.items, data.num_items)
        return None if closes_triangles(pairs) else pairs

    def draws_by_chain(self) -> Int[Tensor, "draw chain item"]:
        """The same draws, with an axis of chains."""
        return self.partition_draws().unflatten(0, (-1, self.num_chains))

    def _start(self, batch: Batch, generator: torch.Generator) -> None:
        """Begin with workers by Dawid and Skene's algorithm on pairs, and starts of the prior."""
        workers = FirstWorkers(self.model, self.posteriors, batch)
        self._begin(self.model.prior.start(workers, workers.pairs, generator))

    def _begin(self, starts: Sequence[ChainStart]) -> None:
        """Set the replicas to these starts, which are ordered with the best last."""
        for name, natural_parameters in starts[-1].workers.items():
            self.posteriors[name].set_natural_parameters(natural_parameters)
        per_chain = len(self.model.prior.powers)
        first = detached({name: q.natural_parameters for name, q in self.posteriors.items()})
        # The best start is for the last replica, the posterior; fewer starts than replicas repeat.
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
        """The states of all replicas; the last of each chain has the full likelihood."""
        return Replicas(self.replica_labels, self.replica_hard, self.replica_given.by_name())

    def _set_replicas(self, replicas: Replicas) -> None:
        self.replica_labels, self.replica_hard = replicas.labels, replicas.hard
        self.replica_given.set(replicas.given)

    def _given(self, name: str) -> Float[Tensor, "draw *plate size"]:
        """Natural parameters of a site given each draw of the partition and of the looks."""
        return self.given[name]

    def _draw(self, batch: Batch) -> None:
        """Sweeps of all replicas; the partition of the last replica of each chain is a draw."""
        evidence = PairEvidence(self.model, self.posteriors, batch)
        replicas, powers = self._replicas(), self.model.prior.powers
        max_sweeps = _MAX_SWEEPS if len(powers) > 1 else 1
        # Candidates take as long as answers.
        by_answers = _ANSWERS // max(batch.num_pairs, evidence.pairs.num_pairs, 1)
        sweeps = max(min(by_answers, len(self.labels) // _ITEMS, max_sweeps), 1)
        for turn in range(sweeps):
            first = (int(self.steps) * sweeps + turn) % 2
            replicas, choices = run_replicas(replicas, powers, evidence, first)
        self._set_replicas(replicas)
        place = int(self.steps) * self.num_chains + torch.arange(self.num_chains)
        place, last = place % len(self.draws), slice(len(powers) - 1, None, len(powers))
        for name, given in replicas.given.items():
            self._given(name)[place] = given[last]
        self.draws[place], self.hard_draws[place] = replicas.labels[last], replicas.hard[last]
        self.steps += 1
        if int(self.steps) % _LEARN_EVERY == 0:
            self.model.prior.learn(self.labels, evidence.pairs, choices)
            if self.model.likeness is not None:
                self._learn_likeness(batch, evidence)
            self._learn_workers(evidence.informative)

    def _learn_likeness(self, batch: Batch, evidence: PairEvidence) -> None:
        """Fit the model's regression on likeness to the looks of pairs under the last draw."""
        looks, rates = evidence.means()
        relations = self.model.relations(self.labels, self.hard_draws[self._last], evidence.pairs)
        logits = looks[relations] + evidence.log_likelihoods(rates)
        self.model.learn_likeness(logits.softmax(1), batch, evidence.pairs)

    def _learn_workers(self, informative: Bool[Tensor, " worker"]) -> None:
        """Learn the workers' prior by type II maximum likelihood, from the informative ones."""
        for name, prior in self.model.annotators.priors().items():
            posterior = self.posteriors[name]
            known = posterior.mean()[informative]
            total = known.sum(0) + _PSEUDO_WORKERS * self._first_means[name][0]
            mean = total / (len(known) + _PSEUDO_WORKERS)
            learned = natural_at_mean(prior.family, mean, prior.natural_parameters[0])
            change = learned - prior.natural_parameters
            prior.set_natural_parameters(learned)
            posterior.set_natural_parameters(posterior.natural_parameters + change)

    def forward(self, batch: Batch) -> None:
        """Run the guide on a batch, as Pyro does, at the last draw of the partition."""
        with FullPlate("relations", len(self.model.looks.natural_parameters)):
            looks = pyro.sample("looks", self.posteriors["looks"].distribution())
        rates = detached(sample_rates(self.model.annotators, self.posteriors))
        nothing = torch.zeros((), dtype=torch.float64)
        z, hard = pyro.sample("z", Point(self.labels, nothing)), self.hard_draws[self._last]
        if self.model.hard_items:
            hard = pyro.sample("hard", Point(hard, nothing))
        if not batch.num_pairs:
            return
        evidence = PairEvidence(self.model, self.posteriors, batch)
        pairs = evidence.pairs
        log_looks = looks.detach()[self.model.relations(z, hard, pairs)]
        logits = log_looks + evidence.log_likelihoods(rates)
        with FullPlate("asked_pairs", pairs.num_pairs, pairs.weights(batch.pair_weight)):
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

        The look of the pair is averaged over the draws, given the pair's answers in the data; the
        worker has the expected rates.

        Parameters
        ----------
        data
            What the guide was trained on.
        items
            Positions of the two items of each answer.
        worker, label
            Codes of the workers, and their answers.
        """
        batch = full_batch(data)
        asked = AskedPairs.of(torch.cat([items, batch.asked_items]), data.num_items)
        of_answers = PairEvidence(self.model, self.posteriors, batch)
        looks, rates = of_answers.means()
        evidence = torch.zeros(asked.num_pairs, self.model.num_looks, dtype=torch.float64)
        answers = self.model.log_answers(rates, batch.worker, batch.label)
        answers = answers * of_answers.informative[batch.worker, None]
        evidence = evidence.index_add(0, asked.pair[len(items) :], answers)
        evidence = evidence + self.model.log_likeness(batch, asked)
        by_relation = torch.stack([(evidence + row).softmax(1) for row in looks], 1)
        shares = self._relation_shares(asked).unsqueeze(2)
        look = (shares * by_relation).sum(1)[asked.pair[: len(items)]].log()
        rates = {name: self.posteriors[name].log_expected() for name in rates}
        return torch.logsumexp(look + self.model.log_answers(rates, worker, label), 1)

    def _relation_shares(self, pairs: AskedPairs) -> Float[Tensor, "pair relation"]:
        """The shares of draws with every relation of a pair, smoothed by one uniform draw."""
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

        The summary is over all draws; see ``summary_of_draws`` of the annotators.
        """
        given = {name: self._given(name)[: len(self.partition_draws())] for name in self.posteriors}
        looks = given.pop("looks")
        counts = looks - self.model.looks.natural_parameters
        return self.model.by_look.summary_of_draws(self.posteriors, given, looks, counts, interval)


def _repeated(tensors: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """Copies of every tensor along a new first axis."""
    return {name: one.repeat(number, *[1] * one.ndim) for name, one in tensors.items()}
