"""What people said of items, kept out of a fit: what a user wants to know beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators.channels import attentive_channels
from pyro_crowdclust.data import StoredFeatures
from pyro_crowdclust.data.known_labels import Links
from pyro_crowdclust.data.pair_answers import Answers
from pyro_crowdclust.distributions.summaries import WorkerSummary
from pyro_crowdclust.interface.candidates.rounding import first_alike, has_fine, numbers_in
from pyro_crowdclust.interface.choosing.page_attention import heard_on_pages
from pyro_crowdclust.results import class_probabilities

# Nothing that happened was less probable.
_LEAST = 1e-6


def some_items(
    data: CrowdData, items: Int[Tensor, " item"], answers: Bool[Tensor, " pair"] | None = None
) -> CrowdData:
    """Some of the items, and what is said of them and nobody else.

    Workers and pages keep their codes, also those of which nothing is left.

    Parameters
    ----------
    data
        All items and answers.
    items
        Positions of the items to keep, sorted.
    answers
        Which answers may stay; default all.
    """
    part = data.with_parts(features=data.rows(items), item_ids=data.item_ids[items.numpy()])
    place = torch.full((data.num_items,), -1).scatter(0, items, torch.arange(len(items)))
    if data.known is not None:
        part = part.with_parts(known=data.known[items])
    if data.links is not None:
        part = part.with_parts(links=data.links.among(place))
    if data.placements is not None:
        part = part.with_parts(placements=data.placements.among(place))
    if data.class_labels is not None:
        labels = data.class_labels.among(place)
        part = part.with_parts(class_labels=labels, _labels_index=None)
    if data.answers is not None:
        left, right = place[data.answers.left], place[data.answers.right]
        kept = (left >= 0) & (right >= 0)
        kept = kept if answers is None else kept & answers
        worker, label, page = data.answers.worker, data.answers.label, data.answers.page
        page = None if page is None else page[kept]
        found = Answers(left[kept], right[kept], worker[kept], label[kept], page)
        heard = found if bool(kept.any()) else None
        part = part.with_parts(answers=heard, _pairs_index=None)
    return part


def distinct_items(data: CrowdData) -> CrowdData:
    """Each row of features once, with the answers about all its copies; few possible rows as ever.

    Components that sit on copies of one row have densities without bound, and to know an item is no
    help with others if it is to know its copies. Answers between copies are left out. Where no
    column holds real numbers of fine steps, many items may well be alike, and all of them count.
    """
    if data.features is None or isinstance(data.features, StoredFeatures):
        return data
    rows = numbers_in(data).reshape(data.num_items, -1)
    of = torch.from_numpy(first_alike(rows))
    first = of.unique()
    if len(first) == data.num_items or not has_fine(data):
        return data
    if data.answers is not None:
        left, right = of[data.answers.left], of[data.answers.right]
        data = data.with_parts(answers=replace(data.answers, left=left, right=right))
        return some_items(data, first, left != right)
    return some_items(data, first)


def connected_items(
    data: CrowdData, number: int, generator: torch.Generator
) -> Int[Tensor, " item"]:
    """Positions of so many items, at most three quarters of them for their answers, sorted.

    These grow along answers from items at random, so that there are answers between them; the
    others are drawn from all that are left.

    Examples
    --------
    >>> pairs = {"left": [0, 8], "right": [9, 4], "worker": ["a", "a"], "label": [1, 1]}
    >>> items = connected_items(CrowdData(torch.eye(10), pairs), 4, torch.Generator())
    >>> bool({0, 9} <= set(items.tolist()) or {4, 8} <= set(items.tolist()))
    True
    """
    order = torch.rand(data.num_items, generator=generator)
    if data.placements is not None:
        order[data.annotated_items] -= 1
    elif data.answers is not None:
        left, right = data.answers.left, data.answers.right
        reached = torch.zeros(data.num_items, dtype=torch.bool)
        asked = torch.cat([left, right]).unique()
        wanted = min(3 * number // 4, len(asked))
        while (count := int(reached.sum())) < wanted:
            beside = torch.cat([right[reached[left]], left[reached[right]]]).unique()
            beside = beside[~reached[beside]]
            if not len(beside):
                rest = asked[~reached[asked]]
                some = 1 + wanted // 100
                beside = rest[torch.randperm(len(rest), generator=generator)[:some]]
            some = wanted - count
            reached[beside[torch.randperm(len(beside), generator=generator)[:some]]] = True
        order[reached] -= 1
    return order.argsort()[:number].sort().values


@dataclass(frozen=True)
class Split:
    """Data without the answers about some items, and those answers.

    Attributes
    ----------
    data
        All items; answers between items that are not held out.
    held_out
        The other answers.
    block
        The held-out item that each of them is about (one of the two), for errors by item.
    """

    data: CrowdData
    held_out: Answers
    block: Int[Tensor, " pair"]

    def sentence(self, score: float) -> str:
        """What a score says."""
        return f"answers about held-out items are predicted at {score:.3f} nats an answer"

    @property
    def ends(self) -> Int[Tensor, "2 pair"]:
        """The two items of every held-out answer."""
        return torch.stack([self.held_out.left, self.held_out.right])

    @property
    def chance(self) -> float:
        """Mean log-probability of who knows the shares of the labels of the fit's answers."""
        return float(self.by_chance.mean())

    @property
    def by_chance(self) -> Float[np.ndarray, " pair"]:
        """Log-probability of every held-out answer by these shares."""
        answers = self.data.answers
        assert answers is not None  # some are kept in
        outcomes = self.data.outcomes
        kept, held_out = (outcomes.places(one.label) for one in (answers, self.held_out))
        counts = torch.bincount(kept, minlength=outcomes.num_outcomes) + 1.0
        return (counts / counts.sum())[held_out].double().log().numpy()

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
        probabilities = class_probabilities(result)[self.block.numpy(), self.classes.numpy()]
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


HeldOut = Split | KnownSplit | LinkSplit


def split(data: CrowdData, share: float, generator: torch.Generator) -> HeldOut | None:
    """Hold out what is said of a share of the items; None if too little is left.

    An answer is held out if at least one of its items is, and both parts must have 20 answers.
    Without answers known classes are held out, or a share of the links where there are these
    alone, and both parts must have 10.
    """
    if data.answers is None and data.placements is None:
        return _link_split(data, share, generator) or _known_split(data, share, generator)
    answers = data.answers
    if answers is None:
        return None
    asked = torch.zeros(data.num_items, dtype=torch.bool)
    asked[answers.left] = asked[answers.right] = True
    chosen = asked & (torch.rand(data.num_items, generator=generator) < share)
    of_left, of_right = chosen[answers.left], chosen[answers.right]
    out = of_left | of_right
    if int(out.sum()) < 20 or int((~out).sum()) < 20:
        return None
    return _split_at(data, answers, out, torch.where(of_left, answers.left, answers.right))


def split_answers(data: CrowdData, share: float, generator: torch.Generator) -> Split:
    """Hold out a share of the answers, whatever others there are about the same items."""
    answers = data.answers
    assert answers is not None  # of which some can be held out
    out = torch.rand(answers.num_pairs, generator=generator) < share
    return _split_at(data, answers, out, answers.left)


def _split_at(
    data: CrowdData, answers: Answers, out: Bool[Tensor, " pair"], item: Int[Tensor, " pair"]
) -> Split:
    page = None if answers.page is None else answers.page[out]
    parts = answers.left, answers.right, answers.worker, answers.label
    left, right, worker, label = (part[out] for part in parts)
    held = Answers(left, right, worker, label, page)
    return Split(some_items(data, torch.arange(data.num_items), ~out), held, item[out])


def _known_split(data: CrowdData, share: float, generator: torch.Generator) -> KnownSplit | None:
    if data.known is None or data.links is not None:
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
    if links is None or data.known is not None:
        return None
    out = torch.rand(links.num_links, generator=generator) < share
    if int(out.sum()) < 10 or int((~out).sum()) < 10:
        return None
    held, kept = (Links(links.left[one], links.right[one], links.must[one]) for one in (out, ~out))
    return LinkSplit(data.with_parts(links=kept), held)
