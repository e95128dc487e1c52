"""``Batch``, the argument of models and guides: items, answers among them, and their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.known_labels import Neighbors
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.likeness import Likeness
from pyro_crowdclust.data.pair_answers import Sessions
from pyro_crowdclust.data.placements import Placements
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.minibatches.selection import RankPart
from pyro_crowdclust.partitions.asked_pairs import AskedPairs
from pyro_crowdclust.partitions.urns import PagedItems

# Under these a batch keeps what its weights have in common.
_ITEMS, _PAIRS = "scale of the items", "scale of the pairs"


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """Some items and the answers among them, with weights for sums over all data.

    Attributes
    ----------
    features
        Features of the items, or None if the data have none.
    items
        Positions of the items in the data.
    item_weight, pair_weight
        Inverse inclusion rates, float64.
    left, right
        The two items of each answer, as rows of this batch.
    worker, label
        Code of the worker; 1 for "same", 0 for "different". If labels, or features, are None, a
        model draws them.
    num_paired
        The items that occur in the batch's answers, or on its pages, are exactly its first
        ``num_paired`` rows.
    num_items, num_workers, num_answers
        Size of the whole data, not of the batch. Answers are those about pairs.
    answers
        Positions of the answers about pairs in the data, as rows of ``data.counted_pairs``.
    class_labels
        All class labels that workers gave to the items, a row for each item; None if the data have
        none. They have the weight of their item.
    known
        Code of every item's known label, -1 if unknown; None if the data have no known labels, and
        in batches of items with features only.
    neighbors
        Which items share known labels or links; None in the same cases.
    part
        The rows of this part in the batch that several processes share, or None.
    pages
        The sorted pages, or None if the batch has none.
    has_gaps
        Whether features of the data are missing (NaN).
    asked
        Positions in the data of the two items of each answer, if the rows stand for other items.
    page
        Code of the page of each answer about a pair, or None if pages are not known.
    likeness
        Numbers that measure how similar the items of pairs are, by positions in the data; None if
        the data have none, and in batches without answers.
    """

    features: Float[Tensor, "item ..."] | None
    items: Int[Tensor, " item"]
    item_weight: Float[Tensor, " item"]
    left: Int[Tensor, " pair"]
    right: Int[Tensor, " pair"]
    worker: Int[Tensor, " pair"]
    label: Float[Tensor, " pair"] | None
    pair_weight: Float[Tensor, " pair"]
    num_paired: int
    num_items: int
    num_workers: int
    num_answers: int
    answers: Int[Tensor, " pair"]
    class_labels: LabelMatrix | None = None
    known: Int[Tensor, " item"] | None = None
    neighbors: Neighbors | None = None
    part: RankPart | None = None
    pages: BatchPages | None = None
    has_gaps: bool = False
    asked: Int[Tensor, "pair 2"] | None = None
    page: Int[Tensor, " pair"] | None = None
    likeness: Likeness | None = None
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, which is called only at the first use of the key.

        Use it for values that depend on nothing but the batch, so that a batch of many steps, such
        as the full data, is prepared once.
        """
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def item_scale(self) -> float | Float[Tensor, " item"]:
        """The weight of the items as one number if all are equal, otherwise ``item_weight``.

        In data without answers about pairs all are equal. Pyro can sum over z in a model only if
        the scale is one number.
        """
        return self.once(_ITEMS, lambda: _common(self.item_weight))

    @property
    def pair_scale(self) -> float | Float[Tensor, " pair"]:
        """The weight of the answers as one number if all are equal, otherwise ``pair_weight``."""
        return self.once(_PAIRS, lambda: _common(self.pair_weight))

    @property
    def needed_features(self) -> Tensor:
        """The features, for models that need them; a ``ValueError`` if there are none."""
        if self.features is None:
            raise ValueError(
                "the items have no features, which the model needs. Files do not hold features: "
                "load a result with them as load(path, data=CrowdData(features, ...))"
            )
        return self.features

    @property
    def needed_label(self) -> Float[Tensor, " pair"]:
        """The labels of the answers, for guides that use them; a ``ValueError`` without labels."""
        if self.label is None:
            raise ValueError(
                "the answers of the batch have no labels, which the guide needs: run it on a batch "
                "with labels. Replicated labels are in result.to_arviz(), group "
                "posterior_predictive; the model without a guide draws labels from the prior"
            )
        return self.label

    @property
    def asked_items(self) -> Int[Tensor, "pair 2"]:
        """Positions in the data of the two items of each answer."""
        if self.asked is not None:
            return self.asked
        return torch.stack([self.items[self.left], self.items[self.right]], 1)

    @property
    def asked_pairs(self) -> AskedPairs:
        """The distinct pairs of items that the answers and ``likeness`` are about."""
        candidates = None if self.likeness is None else self.likeness.items
        return self.once(
            "asked pairs", lambda: AskedPairs.of(self.asked_items, self.num_items, candidates)
        )

    @property
    def paged_items(self) -> PagedItems | None:
        """The items on the pages, by positions in the data; None without pages."""
        if (pages := self.pages) is None:
            return None

        def make() -> PagedItems:
            items = self.items[pages.row]
            parts = pages.page, pages.group, pages.worker, pages.num_groups
            return PagedItems(self.num_items, Placements(items, *parts))

        return self.once("paged items", make)

    @property
    def sessions(self) -> Sessions | None:
        """The pages of each worker on which the answers are; None if pages are not known."""
        if (page := self.page) is None:
            return None
        return self.once("sessions", lambda: Sessions.of(page, self.worker))

    @property
    def num_pairs(self) -> int:
        """Number of answers in the batch."""
        return self.left.shape[0]

    @property
    def answered(self) -> Bool[Tensor, " item"]:
        """Whether every item has an answer about a pair, a place on a page or a known label."""
        paired = torch.arange(self.items.shape[0], device=self.items.device) < self.num_paired
        return paired if self.known is None else paired | (self.known >= 0)

    def features_of_rows(self, first: int, last: int) -> Batch:
        """Some of the items with features and known labels, without answers, pages and links."""
        rows = slice(first, last)
        return dataclasses.replace(
            self.without_answers(),
            features=None if self.features is None else self.features[rows],
            items=self.items[rows],
            item_weight=self.item_weight[rows],
            known=None if self.known is None else self.known[rows],
            class_labels=None,
            neighbors=None,
            part=None,
        )

    def without_answers(self) -> Batch:
        """The same items, without answers about pairs and without pages."""
        return dataclasses.replace(
            self,
            left=self.left[:0],
            right=self.right[:0],
            worker=self.worker[:0],
            label=None if self.label is None else self.label[:0],
            pair_weight=self.pair_weight[:0],
            answers=self.answers[:0],
            num_paired=0,
            pages=None,
            asked=None,
            page=None,
            likeness=None,
        )

    def noise(self, value: Float[Tensor, "*enumerated item size"]) -> Tensor:
        """Standard normal numbers in the shape of ``value``.

        A part of a batch gets the numbers of its items, so that several processes together draw the
        same numbers as one process.
        """
        if self.part is None:
            return torch.randn_like(value)
        shape = *value.shape[:-2], self.part.of, value.shape[-1]
        whole = torch.randn(shape, dtype=value.dtype, device=value.device)
        return whole.index_select(-2, self.part.rows.to(value.device))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Batch:
        """The same batch on another device; ``dtype`` changes the features only.

        A batch that is already there is returned unchanged.
        """
        moved: dict[str, Any] = {
            part.name: value.to(device)
            for part in dataclasses.fields(self)
            if isinstance(value := getattr(self, part.name), Tensor)
        }
        if self.features is not None:
            moved["features"] = self.features.to(device=device, dtype=dtype)
        if self.class_labels is not None:
            moved["class_labels"] = self.class_labels.to(device)
        if self.neighbors is not None:
            moved["neighbors"] = self.neighbors.to(device)
        if self.pages is not None:
            moved["pages"] = self.pages.to(device)
        if all(value is getattr(self, name) for name, value in moved.items()):
            return self
        # Read before the batch moves, since a GPU has to be waited for.
        scales = self.item_scale, self.pair_scale
        batch = dataclasses.replace(self, **moved)
        weights = batch.item_weight, batch.pair_weight
        for key, scale, weight in zip((_ITEMS, _PAIRS), scales, weights, strict=True):
            batch._kept[key] = weight if isinstance(scale, Tensor) else scale
        return batch

    def __repr__(self) -> str:
        answers = f"in {self.num_pairs} answers"
        if self.pages is not None:
            answers = f"on {self.pages.num_pages} pages"
        items = f"{len(self.items)} of {self.num_items} items"
        return f"Batch({items}, {self.num_paired} of them {answers})"


def _common(weight: Float[Tensor, " row"]) -> float | Float[Tensor, " row"]:
    """The common value of all weights as a number, or the weights if they differ."""
    if not len(weight):
        return 1.0
    first = weight[0]
    return float(first) if bool((weight == first).all()) else weight
