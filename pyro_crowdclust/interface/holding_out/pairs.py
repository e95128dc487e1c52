"""Splits that hold out answers about pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators.channels import attentive_channels
from pyro_crowdclust.data import Answers, Links, some_items
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.interface.chance import log_chance
from pyro_crowdclust.interface.holding_out.page_attention import page_probabilities
from pyro_crowdclust.interface.holding_out.parts import folds, has_fewer
from pyro_crowdclust.partitions import AskedPairs

# If at least this share of the items has answers, some of the held-out answers are about items with
# other answers in the fit.
_MIN_SHARE_ASKED = 0.5
# Of fewer answers than this a tenth is held out at a time, of more a quarter.
_FEW = 1000
# Fewer answers are not enough to learn from, nor to score a fit by.
MIN_ANSWERS = 20


@dataclass(frozen=True)
class PairSplit:
    """Data without the answers about some items, or about some pairs, and those answers.

    Attributes
    ----------
    data
        All items, with the answers that are not held out.
    held_out
        The held-out answers.
    item
        One of the two items of each held-out answer, a held-out item if there is one. Standard
        errors are computed by these.
    """

    data: CrowdData
    held_out: Answers
    item: Int[Tensor, " pair"]

    def sentence(self, score: float) -> str:
        """A score in words."""
        return f"held-out answers are predicted at {score:.3f} nats an answer"

    @property
    def ends(self) -> Int[Tensor, "2 pair"]:
        """The two items of every held-out answer."""
        return torch.stack([self.held_out.left, self.held_out.right])

    @cached_property
    def of_others(self) -> Bool[np.ndarray, " pair"]:
        """Which held-out answers are about an item without answers in the fit."""
        kept = self.data.needed_answers
        has_answers = torch.zeros(self.data.num_items, dtype=torch.bool)
        has_answers[kept.left] = has_answers[kept.right] = True
        return ~has_answers[self.ends].all(0).numpy()

    @property
    def chance(self) -> float:
        """Mean log-probability by how often each worker gives each label, whatever the items."""
        return float(self.by_chance.mean())

    @property
    def by_chance(self) -> Float[np.ndarray, " pair"]:
        """``log_chance`` of every held-out answer, by the answers in the fit's data."""
        return log_chance(self.data, self.held_out).numpy()

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " pair"]:
        """``log p(L)`` of every held-out answer, by q(z) and the means of the worker's rates.

        With s the probability that both items share a cluster, ``p(L) = s E[p_m(L | same)] + (1 -
        s) E[p_m(L | different)]``; for workers who lapse see ``page_probabilities``. ``workers`` is
        the summary of the guide's workers, if it is known already.
        """
        summary = result.guide.workers() if workers is None else workers
        held_out = self._by_rates(result, self.held_out, summary)
        attention, kept = summary.rates.get("attention"), self.data.answers
        if attention is None or kept is None:
            return np.log(held_out)
        return np.log(
            page_probabilities(
                kept,
                self.held_out,
                self.data.outcomes,
                (self._by_rates(result, kept, summary), held_out),
                attention.mean,
            )
        )

    def _by_rates(
        self, result: Fitted, answers: Answers, workers: WorkerSummary
    ) -> Float[np.ndarray, " pair"]:
        same = np.clip(together(result, answers), 0, 1)
        channels = attentive_channels(workers)
        assert channels is not None  # as answers are about pairs
        place = self.data.outcomes.places(answers.label).numpy()
        by_truth = channels.mean[answers.worker.numpy(), :, place]
        return (1 - same) * by_truth[:, 0] + same * by_truth[:, 1]


def together(result: Fitted, pairs: Answers | Links) -> Float[np.ndarray, " pair"]:
    """Probability that the two items of every pair share a cluster."""
    return result.same_cluster_by_position(pairs.left, pairs.right)


def pair_split(data: CrowdData, share: float, generator: torch.Generator) -> PairSplit | None:
    """Hold out answers about a share of the items; None if one part would have fewer than 20.

    An answer is held out if at least one of its items is: a share ``1 - (1 - s)^2`` of all. If at
    least half of the items have answers, say a share r, then a share r of the held-out answers is
    about pairs of items that have other answers in the fit.
    """
    answers = data.needed_answers
    return _without(data, answers, *_pairs_out(data, answers, share, generator))


def splits_of_pairs(
    data: CrowdData, generator: torch.Generator, least: int = MIN_ANSWERS
) -> list[PairSplit]:
    """Splits that hold out each part of the pairs, or of the pages, with all answers about them.

    Other answers about the same items stay in the fit. Whole pages are held out, as answers on one
    page predict each other, whatever the items are. There are ten parts of few answers, where each
    one counts, or four of many.

    Parameters
    ----------
    data
        Items and answers.
    generator
        Draws the parts.
    least
        Smallest number of answers in a part: smaller ones are left out, and so are those without
        which fewer than 20 answers would be left.
    """
    answers = data.answers
    if answers is None:
        return []
    if answers.page is None:
        of_answer = AskedPairs.of(answers.items, data.num_items).pair
    else:
        of_answer = answers.page.unique(return_inverse=True)[1]
    number = 10 if answers.num_pairs < _FEW else 4
    part = folds(of_answer, number, generator)
    found = [_without(data, answers, part == one, least=least) for one in range(number)]
    return [one for one in found if one is not None]


class HasEnds(Protocol):
    """A split whose held-out answers have two ends each, such as the two items of a pair."""

    @property
    def ends(self) -> Int[Tensor, "2 answer"]:
        """The two ends of every held-out answer."""


def ends_of(splits: Sequence[HasEnds]) -> Int[np.ndarray, "2 answer"]:
    """The two ends of every held-out answer, in the order of the splits."""
    return torch.cat([one.ends for one in splits], 1).numpy()


def _without(
    data: CrowdData,
    answers: Answers,
    out: Bool[Tensor, " pair"],
    item: Int[Tensor, " pair"] | None = None,
    least: int = MIN_ANSWERS,
) -> PairSplit | None:
    """The split that holds out some answers; None if one part has too few."""
    if has_fewer(least, out) or has_fewer(MIN_ANSWERS, ~out):
        return None
    kept = some_items(data, torch.arange(data.num_items), ~out)
    return PairSplit(kept, answers.at(out), (answers.left if item is None else item)[out])


def _pairs_out(
    data: CrowdData, answers: Answers, share: float, generator: torch.Generator
) -> tuple[Bool[Tensor, " pair"], Int[Tensor, " pair"]]:
    """Which answers are held out, and the item because of which each of them is."""
    asked = torch.zeros(data.num_items, dtype=torch.bool)
    asked[answers.left] = asked[answers.right] = True
    share_asked, of_pairs = float(asked.double().mean()), 0.0
    if share_asked >= _MIN_SHARE_ASKED:
        total = 1 - (1 - share) ** 2
        others = 1 - total * (1 - share_asked)
        share, of_pairs = 1 - math.sqrt(others), total * share_asked / others
    chosen = asked & (torch.rand(data.num_items, generator=generator) < share)
    of_left, of_right = chosen[answers.left], chosen[answers.right]
    out = of_left | of_right
    if of_pairs:
        # All answers about a pair are held out together, as they predict each other.
        pairs = AskedPairs.of(answers.items, data.num_items)
        out |= (torch.rand(pairs.num_pairs, generator=generator) < of_pairs)[pairs.pair]
    return out, torch.where(of_right & ~of_left, answers.right, answers.left)
