"""Batches: some items, the answers among them, and the weight of each."""

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
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.minibatches.selection import Part


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """Some items, the answers among them, and the weight of each.

    Attributes
    ----------
    features
        Features of the items, or None where the data has none.
    items
        Positions of the items in the data.
    item_weight, pair_weight
        Inverse inclusion rates, float64.
    left, right
        The two items of each answer, as rows of this batch.
    worker, label
        Code of the worker; 1 for "same", 0 for "different". Without labels, and without features,
        a model draws them.
    num_paired
        The items that occur in the batch's answers, or on its pages, are exactly its first
        ``num_paired`` rows.
    num_items, num_workers
        Size of the whole data, not of the batch.
    class_labels
        All class answers about the items, a row for each; None where the data have none. They have
        the weight of their item.
    known
        Code of every item's known label, -1 where unknown; None where the data have no labels, and
        in batches of items by their features alone.
    neighbors
        Which items share labels or links; None likewise.
    part
        Which rows these are of the batch that several processes share, or None.
    pages
        The sorted pages, or None where the batch has none.
    has_gaps
        Whether features of the data are missing (NaN).
    asked
        Positions in the data of the two items of each answer, where the rows stand for others.
    page
        Code of the page of each answer about a pair, or None where pages are not known.
    likeness
        How alike the items of pairs are, by their positions in the data; None where the data have
        no likeness, and in batches without answers.
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
    class_labels: LabelMatrix | None = None
    known: Int[Tensor, " item"] | None = None
    neighbors: Neighbors | None = None
    part: Part | None = None
    pages: BatchPages | None = None
    has_gaps: bool = False
    asked: Int[Tensor, "pair 2"] | None = None
    page: Int[Tensor, " pair"] | None = None
    likeness: Likeness | None = None
    _kept: dict[Hashable, Any] = field(default_factory=dict, init=False)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of ``make()``, which is called for the first use of the key only.

        For what a model computes from the batch and nothing else, so that a batch that serves
        many steps, such as the full data, is prepared once.
        """
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @property
    def item_scale(self) -> float | Float[Tensor, " item"]:
        """The one number that all items weigh, or their ``item_weight`` where these differ.

        They weigh the same in data without answers about pairs. Pyro sums over z in a model only
        under a number.
        """
        return self.once("scale of the items", lambda: _common(self.item_weight))

    @property
    def pair_scale(self) -> float | Float[Tensor, " pair"]:
        """The one number that all answers weigh, or their ``pair_weight`` where these differ."""
        return self.once("scale of the pairs", lambda: _common(self.pair_weight))

    @property
    def needed_features(self) -> Tensor:
        """The features, where the model cannot do without; a ``ValueError`` if there are none."""
        if self.features is None:
            raise ValueError(
                "these items have no features, which the model is of; a result that was loaded has "
                "none: give them to it as load(path, data=CrowdData(features, ...))"
            )
        return self.features

    @property
    def needed_label(self) -> Float[Tensor, " pair"]:
        """What was answered, where a guide hears it; a ``ValueError`` without labels."""
        if self.label is None:
            raise ValueError(
                "these answers have no labels, which the guide hears: run it on the batch with its "
                "labels. Labels drawn anew, given these, are in result.to_arviz(), group "
                "posterior_predictive; the model alone, without a guide, draws them from the prior"
            )
        return self.label

    @property
    def asked_items(self) -> Int[Tensor, "pair 2"]:
        """Positions in the data of the two items of each answer."""
        if self.asked is not None:
            return self.asked
        return torch.stack([self.items[self.left], self.items[self.right]], 1)

    @property
    def sessions(self) -> Sessions | None:
        """The pages of each worker that the answers lie on, where pages are known."""
        if (page := self.page) is None:
            return None
        return self.once("sessions", lambda: Sessions.of(page, self.worker))

    @property
    def num_pairs(self) -> int:
        """Number of answers in the batch."""
        return self.left.shape[0]

    @property
    def answered(self) -> Bool[Tensor, " item"]:
        """Whether people said something of every item: an answer about a pair, or its label."""
        paired = torch.arange(self.items.shape[0], device=self.items.device) < self.num_paired
        return paired if self.known is None else paired | (self.known >= 0)

    def features_of_rows(self, first: int, last: int) -> Batch:
        """Some of the items with what is known of each, without answers, pages and links."""
        rows = slice(first, last)
        return dataclasses.replace(
            self,
            features=None if self.features is None else self.features[rows],
            items=self.items[rows],
            item_weight=self.item_weight[rows],
            known=None if self.known is None else self.known[rows],
            left=self.left[:0],
            right=self.right[:0],
            worker=self.worker[:0],
            label=None if self.label is None else self.label[:0],
            pair_weight=self.pair_weight[:0],
            num_paired=0,
            class_labels=None,
            neighbors=None,
            part=None,
            pages=None,
            asked=None,
            page=None,
            likeness=None,
        )

    def noise(self, value: Float[Tensor, "*enumerated item size"]) -> Tensor:
        """Standard normal numbers in the shape of ``value``.

        A part of a batch gets those of its own items, so that several processes draw together
        what one would.
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

        A batch that is there already is returned itself.
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
        return dataclasses.replace(self, **moved)

    def __repr__(self) -> str:
        said = f"in {self.num_pairs} answers"
        if self.pages is not None:
            said = f"on {self.pages.num_pages} pages"
        items = f"{len(self.items)} of {self.num_items} items"
        return f"Batch({items}, {self.num_paired} of them {said})"


def _common(weight: Float[Tensor, " row"]) -> float | Float[Tensor, " row"]:
    """The number that all weights are, if there is one."""
    if not len(weight):
        return 1.0
    first = weight[0]
    return float(first) if bool((weight == first).all()) else weight
