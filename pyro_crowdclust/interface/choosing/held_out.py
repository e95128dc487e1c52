"""What people said of items, kept out of a fit: what a user wants to know beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators.channels import attentive_channels
from pyro_crowdclust.data.known_labels import Links
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.data.some_items import some_items
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.interface.choosing.held_out_pages import PlacementSplit, placement_split
from pyro_crowdclust.interface.choosing.page_attention import heard_on_pages
from pyro_crowdclust.partitions import AskedPairs
from pyro_crowdclust.results import known_class_probabilities

# Nothing that happened was less probable.
_LEAST = 1e-6
# From this share of items with answers on, some of what is held out is about these.
_MOST = 0.5
# A tenth of fewer answers than this is held out at a time, of more a quarter.
_FEW = 1000
# The shares of the labels in all answers count as much as so many answers of a worker's own.
_OF_ALL = 4.0


@dataclass(frozen=True)
class Split:
    """Data without the answers about some items, or about some pairs, and those answers.

    Attributes
    ----------
    data
        All items, and the answers that are not held out.
    held_out
        The other answers.
    block
        One of the two items of each of them, a held-out one if either is, for errors by item.
    """

    data: CrowdData
    held_out: Answers
    block: Int[Tensor, " pair"]

    def sentence(self, score: float) -> str:
        """What a score says."""
        return f"held-out answers are predicted at {score:.3f} nats an answer"

    @property
    def ends(self) -> Int[Tensor, "2 pair"]:
        """The two items of every held-out answer."""
        return torch.stack([self.held_out.left, self.held_out.right])

    @property
    def chance(self) -> float:
        """Mean log-probability of who knows what every worker says how often, and no item."""
        return float(self.by_chance.mean())

    @property
    def by_chance(self) -> Float[np.ndarray, " pair"]:
        """``log p_m(L)`` of every held-out answer, by the shares of the labels in the fit's.

        With n_mL answers L of worker m, n_m in all, and p(L) the share of L in those of everybody,
        ``p_m(L) = (n_mL + 4 p(L)) / (n_m + 4)``.
        """
        answers = self.data.answers
        assert answers is not None  # some are kept in
        outcomes = self.data.outcomes
        kept, held_out = (outcomes.places(one.label) for one in (answers, self.held_out))
        size = self.data.num_workers, outcomes.num_outcomes
        code = answers.worker * outcomes.num_outcomes + kept
        counts = torch.bincount(code, minlength=math.prod(size)).reshape(size).double()
        of_all = counts.sum(0) + 1
        own = counts + _OF_ALL * of_all / of_all.sum()
        shares = own / own.sum(1, keepdim=True)
        return shares[self.held_out.worker, held_out].log().numpy()

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " pair"]:
        """``log p(L)`` of every held-out answer, by q(z) and the means of the worker's rates.

        With s the probability that both items share a cluster, ``p(L) = s E[p_m(L | same)] + (1 -
        s) E[p_m(L | different)]``; of workers who lapse see ``heard_on_pages``. ``workers`` is what
        the guide says of them, where it is known.
        """
        summary = result.guide.workers() if workers is None else workers
        held_out = self._by_rates(result, self.held_out, summary)
        attention, kept = summary.rates.get("attention"), self.data.answers
        if attention is None or kept is None:
            return np.log(held_out)
        return np.log(
            heard_on_pages(
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
        same = np.clip(_together(result, answers), 0, 1)
        channels = attentive_channels(workers)
        assert channels is not None  # answers are of pairs
        place = self.data.outcomes.places(answers.label).numpy()
        said = channels.mean[answers.worker.numpy(), :, place]
        return (1 - same) * said[:, 0] + same * said[:, 1]


@dataclass(frozen=True)
class KnownSplit:
    """Data without the known classes of some items, and those classes.

    Attributes
    ----------
    data
        All items; the classes that are not held out.
    block
        Positions of the others.
    classes
        Codes of their classes.
    """

    data: CrowdData
    block: Int[Tensor, " held"]
    classes: Int[Tensor, " held"]

    def sentence(self, score: float) -> str:
        """What a score says."""
        return f"classes of held-out items are predicted at {score:.3f} nats an item"

    @property
    def chance(self) -> float:
        """Mean log-probability of who knows the shares of the classes in the fit."""
        known = self.data.known
        assert known is not None  # some are kept in
        counts = torch.bincount(known[known >= 0], minlength=self.data.num_known_classes) + 1.0
        return float((counts / counts.sum())[self.classes].log().mean())

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " held"]:
        """``log p(y)`` of every held-out class, by q(z) and the class table."""
        probabilities = known_class_probabilities(result)[self.block.numpy(), self.classes.numpy()]
        return np.log(probabilities.clip(_LEAST))


@dataclass(frozen=True)
class LinkSplit:
    """Data without some of the links, and those links.

    Attributes
    ----------
    data
        All items; the links that are not held out.
    held_out
        The others.
    """

    data: CrowdData
    held_out: Links

    @property
    def block(self) -> Int[Tensor, " link"]:
        """One of the two items of every link."""
        return self.held_out.left

    def sentence(self, score: float) -> str:
        """What a score says."""
        return f"held-out links are predicted at {score:.3f} nats a link"

    @property
    def chance(self) -> float:
        """Mean log-probability of who knows the share of must-links in the fit."""
        links = self.data.links
        assert links is not None  # some are kept in
        return _by_share(links.must, self.held_out.must)

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " link"]:
        """``log s`` of every held-out must-link and ``log (1 - s)`` of every cannot-link.

        s is the probability that both items share a cluster.
        """
        same = np.clip(_together(result, self.held_out), _LEAST, 1 - _LEAST)
        return np.log(np.where(self.held_out.must.numpy(), same, 1 - same))


def _by_share(kept: Bool[Tensor, " kept"], held_out: Bool[Tensor, " held"]) -> float:
    """Mean log-probability of yes and no by the share of yes among those that are kept."""
    share = float((kept.sum() + 1) / (len(kept) + 2))
    return float(torch.where(held_out, share, 1 - share).log().mean())


def _together(result: Fitted, pairs: Answers | Links) -> Float[np.ndarray, " pair"]:
    """Probability that the two items of every pair share a cluster."""
    ids = result.data.item_ids
    left, right = (ids[end.numpy()].tolist() for end in (pairs.left, pairs.right))
    return np.asarray(result.same_cluster_probability(left, right))


HeldOut = Split | PlacementSplit | KnownSplit | LinkSplit


def split(data: CrowdData, share: float, generator: torch.Generator) -> HeldOut | None:
    """Hold out what is said of a share of the items; None if too little is left.

    An answer is held out if at least one of its items is: a share ``1 - (1 - s)^2`` of all. Where
    a share r of the items has answers, and that is at least half, so large a share of what is held
    out is about pairs of such items, of which other answers are heard. Both parts must have 20
    answers.

    Of sorted pages placements are held out (``placement_split``).

    Without answers a share of the links is held out, or known classes where there are too few
    links, and both parts must have 10.
    """
    if data.placements is not None:
        return placement_split(data, share, generator)
    answers = data.answers
    if answers is None:
        return _link_split(data, share, generator) or _known_split(data, share, generator)
    return _without(data, answers, *_pairs_out(data, answers, share, generator))


def splits_of_pairs(data: CrowdData, generator: torch.Generator) -> list[Split]:
    """Hold out every part of the pairs, or of the pages, with all answers about them, in turn.

    Of their items other answers are heard. Those on one page tell each other, whatever the items
    are. A part is a tenth of few answers, of which each counts, or a quarter of many; there is none
    where it would have fewer than 20 answers.
    """
    answers = data.answers
    if answers is None:
        return []
    if answers.page is None:
        of_answer = AskedPairs.of(
            torch.stack([answers.left, answers.right], 1), data.num_items
        ).pair
    else:
        of_answer = answers.page.unique(return_inverse=True)[1]
    parts = 10 if answers.num_pairs < _FEW else 4
    part = torch.randperm(int(of_answer.max()) + 1, generator=generator)[of_answer] % parts
    found = [_without(data, answers, part == one) for one in range(parts)]
    return [one for one in found if one is not None]


def _without(
    data: CrowdData,
    answers: Answers,
    out: Bool[Tensor, " pair"],
    block: Int[Tensor, " pair"] | None = None,
) -> Split | None:
    """The split by what is out; None if there are too few answers of either part."""
    if int(out.sum()) < 20 or int((~out).sum()) < 20:
        return None
    kept = some_items(data, torch.arange(data.num_items), ~out)
    return Split(kept, answers.at(out), (answers.left if block is None else block)[out])


def _pairs_out(
    data: CrowdData, answers: Answers, share: float, generator: torch.Generator
) -> tuple[Bool[Tensor, " pair"], Int[Tensor, " pair"]]:
    """Which answers are held out, and the item for which each of them is."""
    asked = torch.zeros(data.num_items, dtype=torch.bool)
    asked[answers.left] = asked[answers.right] = True
    share_asked, of_pairs = float(asked.double().mean()), 0.0
    if share_asked >= _MOST:
        total = 1 - (1 - share) ** 2
        others = 1 - total * (1 - share_asked)
        share, of_pairs = 1 - math.sqrt(others), total * share_asked / others
    chosen = asked & (torch.rand(data.num_items, generator=generator) < share)
    of_left, of_right = chosen[answers.left], chosen[answers.right]
    out = of_left | of_right
    if of_pairs:
        # All answers about a pair are held out together: one would tell the other.
        pairs = AskedPairs.of(torch.stack([answers.left, answers.right], 1), data.num_items)
        out |= (torch.rand(pairs.num_pairs, generator=generator) < of_pairs)[pairs.pair]
    return out, torch.where(of_right & ~of_left, answers.right, answers.left)


def _known_split(data: CrowdData, share: float, generator: torch.Generator) -> KnownSplit | None:
    if data.known is None:
        return None
    is_known = data.known >= 0
    out = is_known & (torch.rand(data.num_items, generator=generator) < share)
    if int(out.sum()) < 10 or int((is_known & ~out).sum()) < 10:
        return None
    kept = data.with_parts(known=data.known.masked_fill(out, -1))
    items = out.nonzero().squeeze(1)
    return KnownSplit(kept, items, data.known[items])


def _link_split(data: CrowdData, share: float, generator: torch.Generator) -> LinkSplit | None:
    links = data.links
    if links is None:
        return None
    out = torch.rand(links.num_links, generator=generator) < share
    if int(out.sum()) < 10 or int((~out).sum()) < 10:
        return None
    held, kept = (Links(links.left[one], links.right[one], links.must[one]) for one in (out, ~out))
    return LinkSplit(data.with_parts(links=kept), held)
