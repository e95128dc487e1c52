"""Clusters from answers alone: no features, and any number of clusters.

    z ~ a prior of partitions                              which items are one cluster
    alpha_m, beta_m ~ Beta                                 sensitivity and specificity of worker m
    s, d ~ Beta                                            how often pairs look as they are
    y_ij | z_i = z_j ~ Bern(s),  y_ij | z_i != z_j ~ Bern(1 - d)
    L_ij^m | y_ij = 1 ~ Bern(alpha_m),  L_ij^m | y_ij = 0 ~ Bern(1 - beta_m)

y is what a pair looks like, to everybody. Without it ten wrong answers about one pair would count
like ten about ten pairs; with it the answers about a pair say at most what its look says of it,
``log s / (1 - d)`` nats for "same" and ``log d / (1 - s)`` for "different".
"""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import check_workers
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import Assignment, ConjugatePrior, FullPlate
from pyro_crowdclust.families import Beta
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.partitions import AskedPairs, AskedPartition, ManySmall, PitmanYor
from pyro_crowdclust.protocols import PairAnnotators


@described
class AnsweredPartition(nn.Module):
    """A Pyro model of answers about pairs of items of which nothing else is known.

    Parameters
    ----------
    annotators
        Model of the workers: ``TwoCoin``, or any other of pairs.
    prior
        What sizes clusters have: ``PitmanYor`` or ``ManySmall``.
    looks
        Pseudo-counts of pairs that look as they are, and of pairs that do not.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> sorted(AnsweredPartition(TwoCoin(3), PitmanYor()).priors())
    ['looks', 'sensitivity', 'specificity']
    """

    def __init__(
        self,
        annotators: PairAnnotators,
        prior: PitmanYor | ManySmall,
        looks: tuple[float, float] = (19.0, 1.0),
    ) -> None:
        super().__init__()
        self.annotators = annotators
        self.prior = prior
        right, wrong = (torch.tensor(count, dtype=torch.float64) for count in looks)
        # Rows of pairs that are different and the same, each of (looks the same, looks different).
        eta = torch.stack([Beta().natural(wrong, right), Beta().natural(right, wrong)])
        self.looks = ConjugatePrior(Beta(), eta, 2, dims=("relation",))

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name."""
        return {"looks": self.looks, **self.annotators.priors()}

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers about pairs."""
        if data.answers is None:
            raise ValueError(
                "the data have no answers about pairs, and nothing else is known of the items: "
                "pass CrowdData(None, pairs=...), or data.as_pairs() of sorted pages"
            )
        check_workers(self.annotators, data)

    def log_answers(
        self, rates: Mapping[str, Tensor], batch: Batch, pairs: AskedPairs
    ) -> Float[Tensor, " pair"]:
        """``log p(answers | looks the same) - log p(answers | looks different)`` of every pair."""
        ratio = self.annotators.log_likelihood_ratio(rates, batch.worker, batch.label)
        return pairs.total(ratio)

    def forward(self, batch: Batch) -> Int[Tensor, " item"]:
        """Run the model on a batch; returns the cluster of every item of the data."""
        pairs = asked_pairs(batch)
        with FullPlate("relations", 2):
            looks = pyro.sample("looks", self.looks.distribution())
        with FullPlate("workers", self.annotators.num_workers):
            rates = {
                name: pyro.sample(name, prior.distribution())
                for name, prior in self.annotators.priors().items()
            }
        z = pyro.sample("z", AskedPartition(self.prior, pairs))
        if not batch.num_pairs:
            return z
        with FullPlate("asked_pairs", pairs.num_pairs, pair_weights(batch, pairs)):
            look = pyro.sample("look", Assignment(looks[pairs.together(z).long()]))
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            answer = self.annotators.answer(look[pairs.pair, 0], rates, batch.worker)
            pyro.sample("label", answer, obs=batch.label)
        return z


def asked_pairs(batch: Batch) -> AskedPairs:
    """The distinct pairs of a batch's answers."""
    return batch.once("asked pairs", lambda: AskedPairs.of(batch.asked_items, batch.num_items))


def pair_weights(batch: Batch, pairs: AskedPairs) -> Float[Tensor, " pair"]:
    """What a distinct pair weighs: as much as its answers do on average."""
    weight = batch.pair_weight
    return pairs.total(weight) / pairs.total(torch.ones_like(weight))


__all__ = ["AnsweredPartition"]
