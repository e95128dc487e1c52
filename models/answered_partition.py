"""Clusters from answers alone: no features, and any number of clusters.

    z ~ a prior of partitions                              which items are one cluster
    (s_1, ..., s_S) ~ Dir, one each for "same" and "different" pairs: how such pairs look
    y_ij | z_i = z_j ~ Cat(s_same),  y_ij | z_i != z_j ~ Cat(s_different)
    L_ij^m | y_ij ~ the annotators, who see only the look of the pair

With hard items, ``h_i ~ HardItems``, the look of a pair also depends on how many of its two items
are hard.

With numbers that measure how similar two items are,

    p(x_ij | y_ij = same) / p(x_ij | y_ij = different) = exp g(x_ij) ,    g a ``LikenessRegression``

The look y_ij of a pair is what all workers see: different or the same (S = 2), or one of the levels
of graded answers. Without it ten wrong answers about one pair would count like ten about ten pairs;
with it all answers about a pair together carry at most the evidence of its look,
``log s_same / s_different``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyro
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import looks_of, sample_rates
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import (
    Assignment,
    ConjugatePrior,
    FullPlate,
    StatisticValued,
)
from pyro_crowdclust.families import Dirichlet
from pyro_crowdclust.files import described
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.partitions import (
    NUM_KINDS,
    AskedPairs,
    AskedPartition,
    FewClusters,
    HardItems,
    LikenessRegression,
    ManySmall,
    PitmanYor,
    num_hard_ends,
)
from pyro_crowdclust.protocols import LookAnnotators, PairAnnotators, SupportsItems


@described
class AnsweredPartition(nn.Module):
    """A Pyro model of answers about pairs of items that have no features.

    Parameters
    ----------
    annotators
        Model of the workers: ``TwoCoin`` or any other of pairs, or ``GradedAnswers``.
    prior
        The prior of the clusters' sizes: ``FewClusters``, ``PitmanYor`` or ``ManySmall``.
    hard_items
        Whether some items may be hard to recognize, so that their pairs look different from others.
    likeness
        The model of numbers that measure how similar the items of pairs are
        (``CrowdData(likeness=)``); with None, data that have such numbers are refused.

    Raises
    ------
    ValueError
        If the annotators depend on which items they are asked about (``SupportsItems``).

    Examples
    --------
    >>> from pyro_crowdclust.annotators import TwoCoin
    >>> sorted(AnsweredPartition(TwoCoin(3), PitmanYor()).priors())
    ['looks', 'sensitivity', 'specificity']
    """

    def __init__(
        self,
        annotators: PairAnnotators | LookAnnotators,
        prior: FewClusters | PitmanYor | ManySmall,
        hard_items: bool = False,
        likeness: LikenessRegression | None = None,
    ) -> None:
        super().__init__()
        if isinstance(annotators, SupportsItems):
            raise ValueError(
                f"{type(annotators).__name__} depends on which items are asked about, and a model "
                "of answers without features does not support that: pass hard_items=True with "
                "other annotators (those without a method about())"
            )
        self.likeness = likeness
        self.annotators: PairAnnotators | LookAnnotators = annotators
        self.prior = prior
        self.hard_items = hard_items
        # For every kind of pair, whether one of its items is hard.
        kinds = [False] + [True] * (NUM_KINDS - 1 if hard_items else 0)
        of_records = not prior.joins_strangers
        # Every kind of pair has a row for different pairs and one for pairs that are the same.
        counts = torch.cat([self.by_look.look_concentration(hard, of_records) for hard in kinds])
        family = Dirichlet(self.num_looks)
        eta = family.natural(counts)
        self.looks = ConjugatePrior(family, eta, len(counts), dims=("relation", "look"))

    @property
    def by_look(self) -> LookAnnotators:
        """The annotators as ``LookAnnotators``: their answers depend on the look of a pair."""
        return looks_of(self.annotators)

    @property
    def num_looks(self) -> int:
        """S, the number of looks that a pair can have."""
        return self.by_look.num_looks

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites, by name."""
        return {"looks": self.looks, **self.annotators.priors()}

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers about pairs."""
        if data.answers is None:
            raise ValueError(
                "the data have no answers about pairs, and this model uses nothing else: "
                "pass CrowdData(None, pairs=...), or data.as_pairs() of sorted pages"
            )
        self.by_look.check(data)
        self._check_likeness(data)

    def _check_likeness(self, data: CrowdData) -> None:
        sizes = [0 if part is None else part.num_numbers for part in (self.likeness, data.likeness)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the model takes {sizes[0]} numbers per pair, but the data have {sizes[1]}: "
                "build it with likeness=LikenessRegression(data.likeness.num_numbers), or with None"
            )

    @property
    def takes_gaps(self) -> bool:
        """True: the model uses no features, so that missing ones do not matter."""
        return True

    @property
    def takes_likeness(self) -> bool:
        """True: the model learns how similarity is related to the look of a pair."""
        return True

    def answer(
        self,
        look: Float[Tensor, "answer look"],
        rates: Mapping[str, Tensor],
        worker: Int[Tensor, " answer"],
    ) -> StatisticValued:
        """Likelihood of answers about pairs with these looks."""
        return self.by_look.answer(look, rates, worker)

    def log_answers(
        self,
        rates: Mapping[str, Tensor],
        worker: Int[Tensor, " answer"],
        label: Float[Tensor, " answer"],
    ) -> Float[Tensor, "answer look"]:
        """``log p(L | y)`` of every answer under every look."""
        by_look = self.by_look
        looks = torch.eye(by_look.num_looks, dtype=torch.float64).unsqueeze(1)
        each = (look.expand(len(label), -1) for look in looks)
        return torch.stack([by_look.answer(y, rates, worker).log_prob(label) for y in each], 1)

    def first_looks(self, label: Float[Tensor, " answer"]) -> Float[Tensor, "answer look"]:
        """The look of each pair according to a single answer, for the start."""
        return self.by_look.first_looks(label)

    def relations(
        self, labels: Int[Tensor, "*draw item"], hard: Int[Tensor, "*draw item"], pairs: AskedPairs
    ) -> Int[Tensor, "*draw pair"]:
        """The row of the site ``looks`` that holds for every pair."""
        together = pairs.together(labels).long()
        return together + 2 * num_hard_ends(hard, pairs) if self.hard_items else together

    @property
    def look_levels(self) -> Float[Tensor, " look"]:
        """The place of every look on the scale from different, 0, to the same, 1."""
        return torch.linspace(0, 1, self.num_looks, dtype=torch.float64)

    def log_likeness(self, batch: Batch, pairs: AskedPairs) -> Float[Tensor, "pair look"]:
        """``log p(x | y)`` of every pair, up to a constant; 0 of pairs without numbers."""
        found = torch.zeros(pairs.num_pairs, dtype=torch.float64)
        if self.likeness is not None and batch.likeness is not None:
            place, is_there = pairs.places(batch.likeness.items)
            g = self.likeness.log_ratio(batch.likeness.values[is_there])
            found = found.index_put((place,), g)
        return found.unsqueeze(1) * self.look_levels

    def learn_likeness(
        self, looks: Float[Tensor, "pair look"], batch: Batch, pairs: AskedPairs
    ) -> None:
        """Learn g from the pairs that were asked about, given the probabilities of their looks."""
        if self.likeness is None or batch.likeness is None:
            return
        place, _ = pairs.places(batch.likeness.items)
        asked = pairs.num_answers[place] > 0
        level = looks @ self.look_levels
        self.likeness.learn(batch.likeness.values[asked], level[place[asked]])

    def forward(self, batch: Batch) -> Int[Tensor, " item"]:
        """Run the model on a batch; returns the cluster of every item of the data."""
        pairs = batch.asked_pairs
        with FullPlate("relations", len(self.looks.natural_parameters)):
            looks = pyro.sample("looks", self.looks.distribution())
        rates = sample_rates(self.annotators, self.annotators.priors())
        z = pyro.sample("z", AskedPartition(self.prior, pairs))
        hard = pyro.sample("hard", HardItems(pairs)) if self.hard_items else torch.zeros_like(z)
        if not batch.num_pairs:
            return z
        with FullPlate("asked_pairs", pairs.num_pairs, pairs.weights(batch.pair_weight)):
            look = pyro.sample("look", Assignment(looks[self.relations(z, hard, pairs)]))
            if self.likeness is not None:
                pyro.factor("likeness", (look * self.log_likeness(batch, pairs)).sum(1))
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            answer = self.answer(look[pairs.pair], rates, batch.worker)
            pyro.sample("label", answer, obs=batch.label)
        return z
