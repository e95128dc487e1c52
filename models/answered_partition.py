"""Clusters from answers alone: no features, and any number of clusters.

    z ~ a prior of partitions                              which items are one cluster
    (s_1, ..., s_S) ~ Dir, one of "same" and one of "different": how such pairs look
    y_ij | z_i = z_j ~ Cat(s_same),  y_ij | z_i != z_j ~ Cat(s_different)
    L_ij^m | y_ij ~ the annotators, for whom the look is what there is to see

With hard items, ``h_i ~ HardItems``, how a pair looks depends on how many of the two are hard, too.

With numbers that say how alike two items are,

    p(x_ij | y_ij = same) / p(x_ij | y_ij = different) = exp g(x_ij) ,    g a ``LikenessRegression``

y is what a pair looks like, to everybody: different or the same (S = 2), or one of the levels of
graded answers. Without it ten wrong answers about one pair would count like ten about ten pairs;
with it the answers about a pair say at most what its look says, ``log s_same / s_different``.
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
    """A Pyro model of answers about pairs of items of which nothing else is known.

    Parameters
    ----------
    annotators
        Model of the workers: ``TwoCoin`` or any other of pairs, or ``GradedAnswers``.
    prior
        What sizes clusters have: ``FewClusters``, ``PitmanYor`` or ``ManySmall``.
    hard_items
        Whether some items may be hard to recognize, so that their pairs look otherwise.
    likeness
        What numbers of pairs say (``CrowdData(likeness=)``); None refuses data that have any.

    Raises
    ------
    ValueError
        If the workers want to know which items they are asked about (``SupportsItems``).

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
                f"{type(annotators).__name__} wants to know which items it is asked about, which "
                "workers of items without features are not told: say hard_items=True, or use "
                "annotators without about()"
            )
        self.likeness = likeness
        self.annotators: PairAnnotators | LookAnnotators = annotators
        self.prior = prior
        self.hard_items = hard_items
        # Whether an item is hard, of every kind of pair.
        kinds = [False] + [True] * (NUM_KINDS - 1 if hard_items else 0)
        of_records = not prior.joins_strangers
        # Rows of pairs that are different and the same, of every kind.
        counts = torch.cat([self.by_look.look_concentration(hard, of_records) for hard in kinds])
        family = Dirichlet(self.num_looks)
        eta = family.natural(counts)
        self.looks = ConjugatePrior(family, eta, len(counts), dims=("relation", "look"))

    @property
    def by_look(self) -> LookAnnotators:
        """The annotators, for whom the look of a pair is what there is to see."""
        return looks_of(self.annotators)

    @property
    def num_looks(self) -> int:
        """S."""
        return self.by_look.num_looks

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
        self.by_look.check(data)
        self._check_likeness(data)

    def _check_likeness(self, data: CrowdData) -> None:
        sizes = [0 if part is None else part.num_numbers for part in (self.likeness, data.likeness)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"the model hears {sizes[0]} numbers of a pair, but the data have {sizes[1]}: "
                "build it with likeness=LikenessRegression(data.likeness.num_numbers), or with None"
            )

    @property
    def takes_gaps(self) -> bool:
        """True: no feature is looked at, but for what is known of pairs."""
        return True

    @property
    def takes_likeness(self) -> bool:
        """True: what numbers of pairs say is learned."""
        return True

    def answer(
        self,
        look: Float[Tensor, "answer look"],
        rates: Mapping[str, Tensor],
        worker: Int[Tensor, " answer"],
    ) -> StatisticValued:
        """Likelihood of answers about pairs of these looks."""
        return self.by_look.answer(look, rates, worker)

    def log_answers(
        self,
        rates: Mapping[str, Tensor],
        worker: Int[Tensor, " answer"],
        label: Float[Tensor, " answer"],
    ) -> Float[Tensor, "answer look"]:
        """``log p(L | y)`` of every answer under every look."""
        looks = torch.eye(self.num_looks, dtype=torch.float64).unsqueeze(1)
        each = (look.expand(len(label), -1) for look in looks)
        return torch.stack([self.answer(y, rates, worker).log_prob(label) for y in each], 1)

    def first_looks(self, label: Float[Tensor, " answer"]) -> Float[Tensor, "answer look"]:
        """What each pair looks like as one answer says."""
        return self.by_look.first_looks(label)

    def relations(
        self, labels: Int[Tensor, "*draw item"], hard: Int[Tensor, "*draw item"], pairs: AskedPairs
    ) -> Int[Tensor, "*draw pair"]:
        """Which row of the looks holds for every pair."""
        together = pairs.together(labels).long()
        return together + 2 * num_hard_ends(hard, pairs) if self.hard_items else together

    @property
    def look_levels(self) -> Float[Tensor, " look"]:
        """Where every look stands between different, 0, and the same, 1."""
        return torch.linspace(0, 1, self.num_looks, dtype=torch.float64)

    def said_by_likeness(self, batch: Batch, pairs: AskedPairs) -> Float[Tensor, "pair look"]:
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
        """Learn g from the pairs that were asked about, which look so."""
        if self.likeness is None or batch.likeness is None:
            return
        place, _ = pairs.places(batch.likeness.items)
        asked = pairs.num_answers[place] > 0
        level = looks @ self.look_levels
        self.likeness.learn(batch.likeness.values[asked], level[place[asked]])

    def forward(self, batch: Batch) -> Int[Tensor, " item"]:
        """Run the model on a batch; returns the cluster of every item of the data."""
        pairs = asked_pairs(batch)
        with FullPlate("relations", len(self.looks.natural_parameters)):
            looks = pyro.sample("looks", self.looks.distribution())
        rates = sample_rates(self.annotators, self.annotators.priors())
        z = pyro.sample("z", AskedPartition(self.prior, pairs))
        hard = pyro.sample("hard", HardItems(pairs)) if self.hard_items else torch.zeros_like(z)
        if not batch.num_pairs:
            return z
        with FullPlate("asked_pairs", pairs.num_pairs, pair_weights(batch, pairs)):
            look = pyro.sample("look", Assignment(looks[self.relations(z, hard, pairs)]))
            if self.likeness is not None:
                pyro.factor("likeness", (look * self.said_by_likeness(batch, pairs)).sum(1))
        with FullPlate("pairs", batch.num_pairs, batch.pair_weight):
            answer = self.answer(look[pairs.pair], rates, batch.worker)
            pyro.sample("label", answer, obs=batch.label)
        return z


def asked_pairs(batch: Batch) -> AskedPairs:
    """The distinct pairs of a batch's answers, and of its likeness."""
    candidates = None if batch.likeness is None else batch.likeness.items
    return batch.once(
        "asked pairs", lambda: AskedPairs.of(batch.asked_items, batch.num_items, candidates)
    )


def pair_weights(batch: Batch, pairs: AskedPairs) -> Float[Tensor, " pair"]:
    """What a distinct pair weighs: as much as its answers do on average; 1 without any."""
    asked = pairs.num_answers
    return torch.where(asked > 0, pairs.total(batch.pair_weight) / asked.clamp_min(1.0), 1.0)
