"""Pair annotators as models of answers given what a pair looks like to everybody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_crowdclust.annotators.drawn_rates import DrawnShares, shares_of_relations, weight_of
from pyro_crowdclust.annotators.look_priors import concentration_of_two_looks
from pyro_crowdclust.annotators.pair_summaries import summarize_pair_workers
from pyro_crowdclust.annotators.sites import check_annotators
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.families import SupportsShares
from pyro_crowdclust.protocols import LookAnnotators, PairAnnotators, SupportsLapses


@runtime_checkable
class SupportsLooks(Protocol):
    """Annotators of pairs that can also model answers given the look of a pair."""

    def looks(self) -> LookAnnotators:
        """The same workers as ``LookAnnotators``."""


def looks_of(annotators: PairAnnotators | LookAnnotators) -> LookAnnotators:
    """An annotator model of looks: the model itself, or one made from any annotators of pairs.

    Examples
    --------
    >>> from pyro_crowdclust.annotators import GradedAnswers, TwoCoin
    >>> [looks_of(one).num_looks for one in (TwoCoin(3), GradedAnswers(3, num_grades=4))]
    [2, 4]
    """
    if isinstance(annotators, LookAnnotators):
        return annotators
    return annotators.looks() if isinstance(annotators, SupportsLooks) else PairLooks(annotators)


class PairLooks:
    """``L | y`` for annotators of pairs, where the look y is "different" or "same".

    Parameters
    ----------
    annotators
        The workers.
    """

    num_looks = 2

    def __init__(self, annotators: PairAnnotators) -> None:
        self._annotators = annotators

    @property
    def num_workers(self) -> int:
        """M."""
        return self._annotators.num_workers

    def priors(self) -> Mapping[str, ConjugatePrior]:
        """The global sites of the workers, by name."""
        return self._annotators.priors()

    def look_concentration(self, hard: bool, of_records: bool) -> Float[Tensor, "relation look"]:
        """Pseudo-pairs of both looks."""
        return concentration_of_two_looks(hard, of_records)

    def check(self, data: CrowdData) -> None:
        """Raise a ``ValueError`` unless the data have answers of these workers."""
        if isinstance(self._annotators, SupportsLapses):
            raise ValueError(
                "partitions without features cannot infer on which pages workers lapse: build the "
                "model with annotators that do not lapse, and see diagnostics.find_lapses"
            )
        check_annotators(self._annotators, data)

    def answer(
        self,
        look: Float[Tensor, "answer look"],
        rates: Mapping[str, Float[Tensor, "worker size"]],
        worker: Int[Tensor, " answer"],
    ) -> TorchDistribution:
        """Likelihood of the answers, linear in the looks and in the statistics of every site."""
        return self._annotators.answer(look[:, 1], rates, worker)

    def first_looks(self, label: Float[Tensor, " answer"]) -> Float[Tensor, "answer look"]:
        """The answers themselves; half of each look where the answer is "can't tell"."""
        like = label.nan_to_num(nan=0.5)
        return torch.stack([1 - like, like], 1)

    def summary_of_draws(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        given: Mapping[str, Float[Tensor, "draw worker size"]],
        looks: Float[Tensor, "draw relation look"],
        counts: Float[Tensor, "draw relation look"],
        interval: float,
    ) -> WorkerSummary:
        """Rates for every look over all draws; those of q if rates are not probabilities."""
        found = summarize_pair_workers(self._annotators, posteriors, interval)
        rates = {}
        for name, prior in self.priors().items():
            if not isinstance(prior.family, SupportsShares):
                return found
            shares = DrawnShares(*prior.family.share_moments(given[name]))
            rates[name] = shares.summary(interval)
        return WorkerSummary(rates, found.weight, found.weight_sd)


class CoinLooks(PairLooks):
    """The same for two coins, ``sensitivity`` and ``specificity``."""

    def summary_of_draws(
        self,
        posteriors: Mapping[str, ConjugatePosterior],
        given: Mapping[str, Float[Tensor, "draw worker size"]],
        looks: Float[Tensor, "draw relation look"],
        counts: Float[Tensor, "draw relation look"],
        interval: float,
    ) -> WorkerSummary:
        """Rates and weight over all draws, for pairs that are the same or different.

        They are averaged over what the pairs look like.
        """
        coins = (DrawnShares.of(given[name]) for name in ("sensitivity", "specificity"))
        called_same, called_different = coins
        by_look = [called_different, called_same.reversed()]
        different, same = shares_of_relations(by_look, looks, counts)
        rates = {
            "sensitivity": same.at(1).summary(interval),
            "specificity": different.at(0).summary(interval),
        }
        return WorkerSummary(rates, *weight_of(**rates))
