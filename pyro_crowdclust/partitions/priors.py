"""Priors of partitions: how likely cluster sizes are before anybody has answered.

All priors give the odds that an item joins a cluster of a given size rather than being alone, and
say whether it may join a cluster without any item that it was compared with. Priors with parameters
learn these from the partitions that the answers lead to.

A part is a set of items that chains of pairs connect. Clusters lie within parts, and every part has
a partition of its own, ``p(z) = prod_b p(z_b)``; parts share the parameters of the prior. For the
priors of Gibbs type below, p(z_b) is also what one partition of all items says of the part alone:
they are consistent under restriction (Pitman 1995).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.functional import hessian, jacobian

from pyro_crowdclust.families import SMALLEST_PROBABILITY
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.choices import Choices
from pyro_crowdclust.partitions.protocols import ChainStart, StartingWorkers
from pyro_crowdclust.partitions.settling import annealed, settled
from pyro_crowdclust.partitions.starts import spectral_partitions

_NEWTON_STEPS = 30
# Pseudo-counts of pairs in a cluster that were asked about, and that were not.
_ASKED, _NOT_ASKED = 1.9, 0.1
# The sum over numbers of clusters ends at this many more than there are items.
_MORE = 1000
# Powers of replicas for large clusters: at half the evidence chains move from mode to mode.
_POWERS = (1 / 2, 2 / 3, 5 / 6, 1.0)


@described
class PitmanYor(nn.Module):
    """Few clusters, some of them large: the Pitman-Yor process.

        p(z) = prod_{k=1}^{K-1} (theta + k d) / prod_{i=1}^{N-1} (theta + i)
               prod_k prod_{s=1}^{n_k - 1} (s - d)

    for every part of N items (Pitman 1995, eq. 16). d = 0 is the Dirichlet process. Discount d and
    concentration theta are point estimates, learned with ``d ~ Beta(1, 4)`` and
    ``theta ~ Gamma(1.1, .1)``.

    Parameters
    ----------
    discount
        d at the start, in [0, 1).
    concentration
        theta at the start, above 0.

    Examples
    --------
    >>> prior = PitmanYor(discount=0.0, concentration=1.0)
    >>> pairs = AskedPairs.of(torch.tensor([[0, 1]]), num_items=2)
    >>> prior.log_prob(torch.tensor([0, 0]), pairs).exp()  # one of two as likely partitions
    tensor(0.5000, dtype=torch.float64)
    """

    closure, asked, joins_strangers = 0.0, 0.0, True
    powers: tuple[float, ...] = (1.0,)
    discount: Tensor
    concentration: Tensor

    def __init__(self, discount: float = 0.1, concentration: float = 1.0) -> None:
        super().__init__()
        if not 0 <= discount < 1 or concentration <= 0:
            raise ValueError(
                f"discount is {discount} and concentration {concentration}, but the first must lie "
                "in [0, 1) and the second above 0"
            )
        self.register_buffer("discount", torch.tensor(discount, dtype=torch.float64))
        self.register_buffer("concentration", torch.tensor(concentration, dtype=torch.float64))

    def log_join(self, num_items: int) -> list[float]:
        """``log(n - d)``."""
        others = torch.arange(num_items + 1, dtype=torch.float64)
        return (others - self.discount).clamp_min(SMALLEST_PROBABILITY).log().tolist()

    def log_alone(self, num_clusters: range, num_items: int) -> list[float]:
        """``log(theta + d K)``."""
        concentration, discount = float(self.concentration), float(self.discount)
        return [math.log(concentration + discount * number) for number in num_clusters]

    @torch.no_grad()
    def learn(self, labels: Int[Tensor, " item"], pairs: AskedPairs, choices: Choices) -> None:
        """Newton steps on ``log p(z, d, theta)``, in unconstrained coordinates."""
        sizes, part = pairs.sizes_by_part(labels)
        start = torch.stack([self.discount.clamp(1e-3, 1 - 1e-3).logit(), self.concentration.log()])

        def loss(point: Tensor) -> Tensor:
            discount, concentration = point[0].sigmoid(), point[1].exp()
            # Densities of the unconstrained coordinates, whose mode is finite.
            log_prior = discount.log() + 4 * torch.log1p(-discount)
            log_prior = log_prior + 1.1 * concentration.log() - 0.1 * concentration
            return -_log_pitman_yor(sizes, part, discount, concentration) - log_prior

        for _ in range(5):
            gradient, curvature = jacobian(loss, start), hessian(loss, start)
            values, vectors = torch.linalg.eigh(curvature)
            step = vectors @ ((vectors.mT @ gradient) / values.abs().clamp_min(0.1))
            start = start - step.clamp(-1.0, 1.0)
        self.discount.copy_(start[0].sigmoid())
        self.concentration.copy_(start[1].exp())

    def start(
        self, workers: StartingWorkers, pairs: AskedPairs, generator: torch.Generator
    ) -> list[ChainStart]:
        """The best partition by the spectrum of the shares of "same"."""
        candidates = spectral_partitions(workers.shares, pairs, generator)
        return [settled(self, candidates, workers, pairs)]

    def log_prob(self, labels: Int[Tensor, " item"], pairs: AskedPairs) -> Float[Tensor, ""]:
        """The density above."""
        return _log_pitman_yor(*pairs.sizes_by_part(labels), self.discount, self.concentration)


def _log_pitman_yor(sizes: Tensor, part: Tensor, discount: Tensor, concentration: Tensor) -> Tensor:
    """``log p(z)`` of a Pitman-Yor process in every part, for clusters of these sizes."""
    number, num_items = torch.bincount(part), torch.bincount(part, sizes)
    place = torch.arange(len(sizes)) - (number.cumsum(0) - number)[part]
    others = place[place > 0].double()
    total = (concentration + discount * others).log().sum()
    total = total - torch.lgamma(concentration + num_items).sum()
    total = total + len(number) * torch.lgamma(concentration + 1)
    return total + (torch.lgamma(sizes - discount) - torch.lgamma(1 - discount)).sum()


@lru_cache(maxsize=1 << 16)
def _log_number_weight(num_clusters: int, num_items: int, concentration: float) -> float:
    """``log V_N(T)`` of ``FewClusters``."""
    most = num_items + _MORE
    numbers = torch.arange(max(num_clusters, 1), most + 1, dtype=torch.float64)
    terms = torch.lgamma(numbers + 1) - torch.lgamma(numbers - num_clusters + 1)
    of_sizes = numbers * concentration
    terms = terms + torch.lgamma(of_sizes) - torch.lgamma(of_sizes + num_items)
    terms = terms - numbers.log() - torch.log1p(numbers)
    # 1 / K (K + 1) adds up to most / (most + 1).
    return float(terms.logsumexp(0)) + math.log1p(1 / most)


# Gibbs sweeps ask for the same few windows thousands of times.
@lru_cache(maxsize=1 << 12)
def _log_alone(num_clusters: range, num_items: int, concentration: float) -> list[float]:
    """``log_alone`` of ``FewClusters``."""
    numbers = range(num_clusters.start, num_clusters.stop + 1)
    log_weights = [_log_number_weight(number, num_items, concentration) for number in numbers]
    log_a = math.log(concentration)
    return [log_a + more - as_many for as_many, more in pairwise(log_weights)]


@described
class FewClusters(nn.Module):
    """Few clusters of the same size a priori: a mixture of a finite number K of clusters.

        p(z) = V_N(T) prod_{k=1}^T Gamma(a + n_k) / Gamma(a) ,
        V_N(T) = sum_{K >= T} p(K) K! / (K - T)! Gamma(K a) / Gamma(K a + N) ,
        p(K) propto 1 / K (K + 1)

    for a part of N items in T clusters (Miller and Harrison 2018, eq. 3.2). Given K, this is the
    Pitman-Yor process with discount -a and concentration K a; K is summed out, up to a thousand
    more than there are items.

    Parameters
    ----------
    concentration
        a of every cluster, above 0.

    Examples
    --------
    >>> prior = FewClusters()
    >>> pairs = AskedPairs.of(torch.tensor([[0, 1]]), num_items=2)
    >>> prior.log_prob(torch.tensor([0, 0]), pairs).exp().round(decimals=2)
    tensor(0.7100, dtype=torch.float64)
    """

    closure, asked, joins_strangers = 0.0, 0.0, True
    powers: tuple[float, ...] = _POWERS

    def __init__(self, concentration: float = 1.0) -> None:
        super().__init__()
        if concentration <= 0:
            raise ValueError(f"concentration is {concentration}, but must be above 0")
        self.concentration = concentration

    def start(
        self, workers: StartingWorkers, pairs: AskedPairs, generator: torch.Generator
    ) -> list[ChainStart]:
        """The best of annealed chains with several numbers of clusters."""
        return annealed(self.concentration, workers, pairs, generator)

    def log_join(self, num_items: int) -> list[float]:
        """``log(n + a)``."""
        others = torch.arange(num_items + 1, dtype=torch.float64)
        return (others + self.concentration).log().tolist()

    def log_alone(self, num_clusters: range, num_items: int) -> list[float]:
        """``log a + log V_N(T + 1) - log V_N(T)``, beside T clusters."""
        return _log_alone(num_clusters, num_items, self.concentration)

    def learn(self, labels: Int[Tensor, " item"], pairs: AskedPairs, choices: Choices) -> None:
        """Do nothing: this prior has no parameters to learn."""

    def log_prob(self, labels: Int[Tensor, " item"], pairs: AskedPairs) -> Float[Tensor, ""]:
        """The density above."""
        sizes, part = pairs.sizes_by_part(labels)
        a = torch.tensor(self.concentration, dtype=torch.float64)
        of_parts = torch.stack([torch.bincount(part), torch.bincount(part, sizes).long()], 1)
        kinds, counts = torch.unique(of_parts, dim=0, return_counts=True)
        log_weights = [_log_number_weight(*kind, self.concentration) for kind in kinds.tolist()]
        log_weight = counts.double() @ torch.tensor(log_weights, dtype=torch.float64)
        return log_weight + (torch.lgamma(sizes + a) - torch.lgamma(a)).sum()


@described
class ManySmall(nn.Module):
    """Many clusters of few items, such as records of the same thing: a Markov random field.

        p(z) propto prod_k exp( sum_{s=1}^{n_k - 1} rho_s + closure u_k + asked a_k )

    rho_s are the log odds with which an item joins a cluster of s others rather than being alone.
    Of the pairs of cluster k, a_k were asked about and u_k were not. Where pairs were chosen to be
    asked because their items look similar, two items of one cluster are rarely an unasked pair. The
    odds are learned by Besag's (1975) pseudo-likelihood, ``sum_i log p(z_i | rest)``, which is also
    what ``log_prob`` returns, since the constant of p(z) is unknown. rho is one number for all
    sizes of a range, which grow like 1, 2, 3, 4 .. 5, 6 .. 7, 8 .. 11, 12 .. 15, 16 .. 22, ...

    With a fixed closure ``asked`` is 0. A closure of None is learned, so that clusters may be
    large: with s the share of pairs in one cluster that were asked about, and d that of other pairs
    in one part, the only ones that could be in one cluster,

        closure = min(0, log (1 - s) / (1 - d)) ,      asked = -closure (1 - s) / s ,
        s = (A - (N - K) + 1.9) / (P - (N - K) + 2)

    where A of the P pairs in one of the K clusters of N items were asked about; the N - K that hold
    clusters together had to be. With a closure but no ``asked``, every unasked pair would be
    evidence against its cluster; as it is, a cluster in which the average share was asked about has
    no evidence against it.

    Parameters
    ----------
    log_odds
        rho at the start, for all sizes.
    closure
        What every pair that nobody was asked about adds, by default so low that few clusters have
        any; None learns it, beginning with 0.
    """

    joins_strangers = False
    powers: tuple[float, ...]
    log_odds: Tensor
    of_unasked: Tensor
    of_asked: Tensor
    _RANGES = 24

    def __init__(self, log_odds: float = -2.0, closure: float | None = -12.0) -> None:
        super().__init__()
        self._learns_closure, self._mean = closure is None, log_odds
        # Moves of single items do not join a large cluster that is split in two.
        self.powers = _POWERS if closure is None else (1.0,)
        self.register_buffer("of_unasked", torch.tensor(closure or 0.0, dtype=torch.float64))
        self.register_buffer("of_asked", torch.tensor(0.0, dtype=torch.float64))
        start = torch.full((self._RANGES,), log_odds, dtype=torch.float64)
        self.register_buffer("log_odds", start)

    @property
    def closure(self) -> float:
        """What every pair in a cluster that nobody was asked about adds."""
        return float(self.of_unasked)

    @property
    def asked(self) -> float:
        """What every pair in a cluster that somebody was asked about adds."""
        return float(self.of_asked)

    def _range(self, sizes: Tensor) -> Int[Tensor, " size"]:
        """Which entry of ``log_odds`` is for clusters of these sizes."""
        of_size = torch.where(sizes <= 4, sizes.double() - 1, 2 * (sizes.double().log2() - 0.5))
        return of_size.floor().long().clamp(0, self._RANGES - 1)

    def log_join(self, num_items: int) -> list[float]:
        """rho of every size."""
        return self.log_odds[self._range(torch.arange(num_items + 1))].tolist()

    def log_alone(self, num_clusters: range, num_items: int) -> list[float]:
        """0: the odds are against being alone."""
        return [0.0] * len(num_clusters)

    @torch.no_grad()
    def learn(self, labels: Int[Tensor, " item"], pairs: AskedPairs, choices: Choices) -> None:
        """Newton steps on the likelihood of the choices, with a prior that smooths over ranges."""
        self._learn_closure(labels, pairs)
        if not len(choices.chosen):
            return
        offered, chosen = self._offered(choices)
        steps = torch.eye(self._RANGES, dtype=torch.float64).diff(dim=0)
        precision = 0.5 * steps.mT @ steps + 0.1 * torch.eye(self._RANGES, dtype=torch.float64)
        log_odds = self.log_odds.clone()
        for _ in range(_NEWTON_STEPS):
            shares = self._shares(offered, log_odds)
            gradient = chosen - shares.sum(0) - precision @ (log_odds - self._mean)
            curvature = torch.diag(shares.sum(0)) - shares.mT @ shares + precision
            step = torch.linalg.solve(curvature, gradient)
            step = step / step.abs().max().clamp_min(2.0) * 2.0
            log_odds = log_odds + step
            if float(step.abs().max()) < 1e-6:
                break
        self.log_odds.copy_(log_odds)

    def _learn_closure(self, labels: Int[Tensor, " item"], pairs: AskedPairs) -> None:
        if not self._learns_closure:
            return
        num_items, within = len(pairs.items_in_pairs), pairs.num_within(labels)
        asked = int(pairs.together(labels).sum())
        held_together = num_items - len(pairs.sizes(labels))
        unasked = (within - asked + _NOT_ASKED) / (within - held_together + _ASKED + _NOT_ASKED)
        # The unasked share of pairs of different clusters in one part, with one pseudo-pair.
        between = pairs.num_within(pairs.part) - within
        others = (between - (pairs.num_pairs - asked) + 1) / (between + 1)
        self.of_unasked.fill_(min(math.log(unasked / others), 0.0))
        self.of_asked.copy_(-self.of_unasked * unasked / (1 - unasked))

    def _offered(self, choices: Choices) -> tuple[Tensor, Tensor]:
        """Log odds, without rho, of all clusters of a range by item; how often each was joined."""
        number, sizes, compared, chosen = map(
            torch.as_tensor, (choices.number, choices.sizes, choices.compared, choices.chosen)
        )
        item = torch.repeat_interleave(torch.arange(len(number)), number)
        score = self.closure * (sizes - compared).double() + self.asked * compared.double()
        place = item * self._RANGES + self._range(sizes)
        offered = _log_sums(score, place, len(number) * self._RANGES)
        joined = self._range(chosen[chosen > 0])
        return offered.reshape(-1, self._RANGES), torch.bincount(
            joined, minlength=self._RANGES
        ).double()

    @staticmethod
    def _shares(offered: Tensor, log_odds: Tensor) -> Float[Tensor, "item range"]:
        """The share of every range among all that an item could do, being alone included."""
        return nn.functional.pad(offered + log_odds, (1, 0)).softmax(1)[:, 1:]

    @torch.no_grad()
    def start(
        self, workers: StartingWorkers, pairs: AskedPairs, generator: torch.Generator
    ) -> list[ChainStart]:
        """From items that are all alone, with rho from ``workers.same``."""
        same = workers.same
        self.log_odds.fill_(math.log(same / (1 - same)) if 0 < same < 1 else self._mean)
        return [settled(self, [torch.arange(pairs.num_items)], workers, pairs)]

    def log_prob(self, labels: Int[Tensor, " item"], pairs: AskedPairs) -> Float[Tensor, ""]:
        """Besag's pseudo-likelihood of the partition, ``sum_i log p(z_i | rest)``."""
        num_clusters = int(labels.max()) + 1
        item, other = torch.cat([pairs.left, pairs.right]), torch.cat([pairs.right, pairs.left])
        # Every cluster that an item could join, and how many of its items it was compared with.
        codes, asked = torch.unique(item * num_clusters + labels[other], return_counts=True)
        item, cluster = codes // num_clusters, codes % num_clusters
        is_own = labels[item] == cluster
        others = torch.bincount(labels)[cluster] - is_own.long()
        score = self.log_odds[self._range(others)] + self.closure * (others - asked).double()
        score = score + self.asked * asked.double()
        joined = _log_sums(score, item, len(labels))
        return score[is_own].sum() - torch.logaddexp(joined, torch.zeros_like(joined)).sum()


def _log_sums(
    score: Float[Tensor, " entry"], place: Int[Tensor, " entry"], number: int
) -> Float[Tensor, " number"]:
    """``log sum exp`` of the entries at every place; minus infinity where there are none.

    The highest is taken out of each sum: odds of joining a cluster of thousands exceed all floats.
    """
    highest = score.new_full((number,), -torch.inf).scatter_reduce(0, place, score, "amax")
    sums = score.new_zeros(number).index_add(0, place, (score - highest[place]).exp())
    return sums.log() + highest
