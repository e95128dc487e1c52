"""Batches: some items, the answers among them, and the weight of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.known_labels import Links, Neighbors
from pyro_crowdclust.data.label_matrix import LabelMatrix
from pyro_crowdclust.data.pair_answers import Answers, Sessions
from pyro_crowdclust.minibatches.item_order import Others
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.minibatches.processes import Ranks
from pyro_crowdclust.minibatches.selection import Part, Selection


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
        `num_paired` rows.
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
        """The same batch on another device; `dtype` changes the features only.

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


def full_batch(data: CrowdData, ranks: Ranks | None = None) -> Batch:
    """All items and all answers with weight 1; items in answers come first.

    With ``ranks``, the part of it that this process has.

    Examples
    --------
    >>> pairs = {"left": [3], "right": [1], "worker": ["a"], "label": [1]}
    >>> batch = full_batch(CrowdData(torch.eye(4), pairs))
    >>> batch.items.tolist(), batch.left.tolist(), batch.right.tolist()
    ([1, 3, 0, 2], [1], [0])
    """
    ones, every = constant_weights(data.num_items, 1.0), every_answer(data)
    selection = Selection.of(data, data.annotated_items, Others(data).all(), ones, every)
    return with_supervision(data, shared_batch(data, selection, ranks or Ranks()))


def answered_batch(data: CrowdData) -> Batch | None:
    """All items with answers, known labels or links, and these, with weight 1.

    None where there are no such items.

    Examples
    --------
    >>> pairs = {"left": [3], "right": [1], "worker": ["a"], "label": [1]}
    >>> answered_batch(CrowdData(torch.eye(4), pairs)).items.tolist()
    [1, 3]
    """
    items, supervised = data.annotated_items, data.supervised_items
    if not len(items) + len(supervised):
        return None
    others = supervised[~torch.isin(supervised, items)]
    weight = constant_weights(len(items) + len(others), 1.0)
    selection = Selection.of(data, items, others, weight, every_answer(data))
    return with_supervision(data, _make_batch(data, selection))


def item_batches(
    data: CrowdData,
    batch_size: int,
    items: Int[Tensor, " item"] | None = None,
    class_labels: bool = False,
) -> Iterator[Batch]:
    """Items without answers about pairs, known labels and links, `batch_size` at a time.

    Parameters
    ----------
    data
        Where the items are.
    batch_size
        Most items in a batch.
    items
        Positions of the items; None takes all, in order.
    class_labels
        Whether the class answers about the items come along.

    Raises
    ------
    ValueError
        For a `batch_size` below 1.
    """
    check_size("batch_size", batch_size)
    if items is None:
        starts = range(0, data.num_items, batch_size)
        parts = (torch.arange(at, min(at + batch_size, data.num_items)) for at in starts)
    else:
        parts = items.split(batch_size)
    selections = (
        Selection.of(data, no_codes(), part, constant_weights(len(part), 1.0), no_codes())
        for part in parts
    )
    batches = (_make_batch(data, selection) for selection in selections)
    if class_labels:
        return batches
    return (dataclasses.replace(batch, class_labels=None) for batch in batches)


def features_batch(features: Any, num_workers: int = 0) -> Batch:
    """New items as one batch, without answers and with weight 1.

    Parameters
    ----------
    features
        As for `CrowdData`, and validated like there.
    num_workers
        Number of workers the model knows.

    Raises
    ------
    ValueError
        For features that `CrowdData` rejects.
    """
    return dataclasses.replace(full_batch(CrowdData(features)), num_workers=num_workers)


def shared_batch(data: CrowdData, selection: Selection, ranks: Ranks) -> Batch:
    """The part of a batch that this process has; all of it where there is one."""
    if ranks.count > 1:
        selection = selection.share(ranks.rank, ranks.count)
    return _make_batch(data, selection)


def _make_batch(data: CrowdData, selection: Selection) -> Batch:
    """The batch of the selected items and answers, which are read here."""
    answers = data.answers or Answers(no_codes(), no_codes(), no_codes(), constant_weights(0, 1.0))
    items, chosen, pages = selection.items, selection.answers, None
    left, right = selection.left, selection.right
    if data.placements is not None:
        scale = selection.pair_weight
        if len(chosen):
            pages = BatchPages.of(data.placements, chosen, selection.paired, scale)
        left = right = chosen = no_codes()
    return Batch(
        features=None if data.features is None else data.rows(items),
        items=items,
        item_weight=selection.item_weight,
        left=left,
        right=right,
        worker=answers.worker.index_select(0, chosen),
        label=answers.label.index_select(0, chosen),
        pair_weight=constant_weights(len(chosen), selection.pair_weight),
        num_paired=len(selection.paired),
        num_items=data.num_items,
        num_workers=data.num_workers,
        class_labels=None if data.class_labels is None else data.class_labels.of_items(items),
        part=selection.part,
        pages=pages,
        has_gaps=data.has_gaps,
        page=None if answers.page is None else answers.page.index_select(0, chosen),
    )


def with_supervision(
    data: CrowdData, batch: Batch, pair_weight: float = 1.0, message_scale: float = 1.0
) -> Batch:
    """The batch with the labels of its items and the links among them."""
    if data.known is None and data.links is None:
        return batch
    known, counts = None, no_codes()
    if data.known is not None:
        known = data.known.index_select(0, batch.items)
        counts = torch.bincount(data.known[data.known >= 0], minlength=data.num_known_classes)
    linked, links = torch.zeros(len(batch.items), dtype=torch.bool), None
    if data.links is not None:
        row_of_item = torch.full((data.num_items,), -1)
        row_of_item[batch.items] = torch.arange(len(batch.items))
        left, right = row_of_item[data.links.left], row_of_item[data.links.right]
        for rows in (left, right):
            linked[rows[rows >= 0]] = True
        inside = (left >= 0) & (right >= 0)
        links = Links(left[inside], right[inside], data.links.must[inside])
    supervised = linked if known is None else linked | (known >= 0)
    complete = int(supervised.sum()) == len(data.supervised_items)
    neighbors = Neighbors(counts, linked, links, pair_weight, message_scale, complete)
    return dataclasses.replace(batch, known=known, neighbors=neighbors)


def _common(weight: Float[Tensor, " row"]) -> float | Float[Tensor, " row"]:
    """The number that all weights are, if there is one."""
    if not len(weight):
        return 1.0
    first = weight[0]
    return float(first) if bool((weight == first).all()) else weight


def every_answer(data: CrowdData) -> Int[Tensor, " answer"]:
    """Positions of all answers: of pages where the data are sorted pages, else of pairs."""
    return torch.arange(data.num_pairs if data.placements is None else data.placements.num_pages)


def no_codes() -> Int[Tensor, " 0"]:
    """No items, answers or workers."""
    return torch.empty(0, dtype=torch.int64)


def constant_weights(count: int, value: float) -> Float[Tensor, " count"]:
    """The same weight so many times, in float64."""
    return torch.full((count,), value, dtype=torch.float64)


def check_size(name: str, size: int) -> None:
    """Raise a ``ValueError`` unless a size is at least 1."""
    if size < 1:
        raise ValueError(f"{name} is {size}, but must be at least 1")
