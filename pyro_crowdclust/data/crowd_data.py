"""The container for items, their features and what people answered about them.

All input is checked once, here, so that the rest of the library need not check it again. The
library numbers items, workers and pages 0, 1, 2, ...; its results use the user's own ids.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.data import Dataset

from pyro_crowdclust.data.class_labels import ClassLabels, warn_about_repeated_labels
from pyro_crowdclust.data.columns import Columns
from pyro_crowdclust.data.copied_pages import warn_about_copies
from pyro_crowdclust.data.known_labels import Links, warn_about_contradictions
from pyro_crowdclust.data.likeness import Likeness
from pyro_crowdclust.data.pair_answers import Answers, Outcomes, warn_about_repeats
from pyro_crowdclust.data.placements import NotSorted, Placements, pairs_of, sort_pairs
from pyro_crowdclust.data.reading import read_parts
from pyro_crowdclust.data.repeated_pairs import counted
from pyro_crowdclust.data.stored_features import StoredFeatures
from pyro_crowdclust.data.tables import to_index, unknown
from pyro_crowdclust.data.words import (
    answers_in_words,
    class_labels_in_words,
    features_in_words,
    known_in_words,
)
from pyro_crowdclust.data.written_tables import labels_table, pairs_table, placements_table
from pyro_crowdclust.errors import count, needed, show


@dataclass(frozen=True, eq=False, init=False, repr=False)
class CrowdData:
    """Items with features, pairwise answers about them, or both; validated, not to be changed.

    Tables, arrays and tensors are copied, so that you may change yours afterwards; files, memory
    maps and datasets are not. Do not write into the tensors of this object.

    Parameters
    ----------
    features
        Numbers of shape ``[N, ...]``, one row per item: a NumPy array or memory map, a torch
        tensor, a list of rows, a sparse matrix or array of scipy (of 10^8 numbers at most, zeros
        included), a pandas data frame (its index becomes the item ids), a table of another library
        that has ``to_pandas``, such as polars, a map-style ``torch.utils.data.Dataset``, or other
        ``StoredFeatures``. None where there are no features; ``item_ids``, ``pairs`` or ``labels``
        then define the items.
    pairs
        Answers: a data frame, or whatever ``pandas.DataFrame`` accepts, with the columns ``left``,
        ``right`` (item ids; positions 0 to N-1 where the items have no ids), ``worker`` (any
        hashable id), ``label`` (1, True, "same" or "yes"; 0, False, "different" or "no") and
        optionally ``page`` (the task in which the answer was given). Other columns are ignored. A
        row whose label is missing is skipped, with a warning, unless there are ``grades``.
    grades
        If the labels of ``pairs`` are grades: all of them, at least two, from "different" to
        "same". A label that is missing or is not among them means "can't tell". A whole number
        instead of the grades means that labels are probabilities of "same"; these are rounded to
        that many levels from 0 to 1.
    placements
        Pages that workers sorted into groups, instead of ``pairs``: a table with the columns
        ``page`` (any hashable id), ``item``, ``worker`` (one for every page) and ``group`` (any
        hashable name; it means something only on its own page). A row without a group is skipped.
    known
        Known labels, one per item, integers or names; None, NaN and -1 mean unknown. A list or an
        array is in the order of the items. The index of a series and the keys of a mapping are
        always read as item ids; items without an entry are unknown.
    must_link, cannot_link
        Items that must, or cannot, share a cluster: tables with the columns ``left``, ``right``,
        or lists of pairs of ids.
    labels
        Class answers: a table with the columns ``item``, ``worker`` and ``label`` (any hashable
        class). A worker with the same id as in ``pairs`` is the same worker. Items need not have
        an answer. A row whose label is missing is skipped.
    classes
        Every class that an item can have, in the desired order. None uses the classes in
        ``labels``, sorted; or, if the column is an ordered categorical one, its categories.
    likeness
        How similar the items of pairs are, for clusters from answers alone: a table with the
        columns ``left``, ``right``, and others with numbers that grow or fall with the similarity.
        It may list pairs that nobody was asked about, which may then share a cluster, too.
    item_ids
        One unique id per item.
    kinds
        What columns of a table hold, by name: "real", "count", "binary" or "category"; the kinds of
        other columns are recognized from their values. To read new items as a fit read its own,
        pass the ``columns`` of the data of the fit.

    Attributes
    ----------
    features
        The features in their own dtype: do not write into them.
    columns
        What the columns of a table hold; None for other features, which are real numbers.
    num_missing
        How many features are missing.
    answers
        The answers about pairs that count, in positions and codes, or None where there are none:
        all, except of several of one worker about a pair (``data.repeated_pairs``).
    placements
        The sorted pages in positions and codes, or None where there are none.
    known, known_ids
        Code of every item's label, -1 where unknown, and the label of each code; None and empty
        where no label is known.
    links
        The must-links and cannot-links in positions, or None.
    likeness, likeness_names
        Numbers of pairs in positions, or None, and the names of these numbers.
    num_contradictions
        The number of contradictions among links and known labels.
    grade_ids
        The grades, from "different" to "same"; empty where labels of pairs are yes or no.
    class_labels
        The class answers in positions and codes, or None where there are none.
    item_ids, worker_ids, page_ids, class_ids
        The user's ids in order of position or code. Workers, pages and classes are sorted, or in
        order of first appearance where their ids cannot be sorted. Empty where there are none.

    Raises
    ------
    ValueError
        For features that are dates, names, infinite or empty; ids that are missing, repeated or too
        few; an empty table or a missing column; an item that is unknown or paired with itself; a
        label of a pair that is not 0 or 1, or a label of an item that is not among the classes; an
        item twice on a page, or a page of several workers. The message names the row and says what
        to do.

    Warns
    -----
    UserWarning
        Where rows look like copies, as more than a tenth of them, or twenty consecutive ones,
        repeat earlier ones (same items, worker, label and page), or pages earlier ones (same items,
        worker and groups). They are kept, but of pairs without pages only as many count as are
        independent (``data.repeated_pairs``). Answers that contradict each other are data and pass
        silently. Where links and labels cannot all be true; these are kept, too, and counted. Where
        a class is in no answer. Where a row has no label, or no group. Without features and
        ``item_ids``, where an id occurs once and all others often.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = {"left": ["ant", "bee"], "right": ["bee", "cat"], "worker": [7, 7], "label": [1, 0]}
    >>> data = CrowdData(np.eye(3), pairs, item_ids=["ant", "bee", "cat"])
    >>> data
    CrowdData(3 items, features 3 binary, 2 answers by 1 worker on 3 items)
    >>> data.answers.right
    tensor([1, 2])
    >>> data.item_positions(["cat"])
    tensor([2])
    """

    features: np.ndarray | Tensor | StoredFeatures | None
    columns: Columns | None
    num_missing: int
    answers: Answers | None
    placements: Placements | None
    item_ids: pd.Index
    worker_ids: pd.Index
    page_ids: pd.Index
    known: Int[Tensor, " item"] | None
    known_ids: pd.Index
    links: Links | None
    likeness: Likeness | None
    likeness_names: pd.Index
    num_contradictions: int
    grade_ids: pd.Index
    class_ids: pd.Index
    class_labels: ClassLabels | None
    _all_answers: Answers | None
    _counts: Bool[Tensor, " row"] | None
    _pairs_index: pd.Index | None
    _labels_index: pd.Index | None

    def __init__(
        self,
        features: np.ndarray
        | Tensor
        | pd.DataFrame
        | Dataset
        | StoredFeatures
        | list
        | tuple
        | None,
        pairs: Any | None = None,
        *,
        placements: Any | None = None,
        grades: Iterable[Hashable] | int | None = None,
        known: Any | None = None,
        must_link: Any | None = None,
        cannot_link: Any | None = None,
        labels: Any | None = None,
        classes: Iterable[Hashable] | None = None,
        likeness: Any | None = None,
        item_ids: Iterable[Hashable] | None = None,
        kinds: Mapping[Hashable, str] | Columns | None = None,
    ) -> None:
        parts = read_parts(
            features,
            pairs,
            placements=placements,
            grades=grades,
            known=known,
            must_link=must_link,
            cannot_link=cannot_link,
            labels=labels,
            classes=classes,
            likeness=likeness,
            item_ids=item_ids,
            kinds=kinds,
        )
        # A frozen dataclass is written once, here.
        self.__dict__.update(parts)
        if self.answers is not None and self._pairs_index is not None:
            warn_about_repeats(self.answers, self._pairs_index)
            self.__dict__.update(counted(self.answers))
        if self.placements is not None:
            warn_about_copies(self.placements, self.page_ids)
        if self.class_labels is not None and self._labels_index is not None:
            warn_about_repeated_labels(self.class_labels, self._labels_index)
        warn_about_contradictions(self.num_contradictions)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def feature_names(self) -> pd.Index | None:
        """Names of the columns of a table, or None."""
        return None if self.columns is None else self.columns.names

    @property
    def features_in_memory(self) -> np.ndarray | Tensor | None:
        """The features if they are in memory; None if they are in storage or there are none."""
        return None if isinstance(self.features, StoredFeatures) else self.features

    @property
    def num_features(self) -> int:
        """How many numbers, such as pixels, describe an item; 0 without features."""
        return 0 if self.features is None else math.prod(self.features.shape[1:])

    @property
    def has_gaps(self) -> bool:
        """Whether any feature is missing."""
        return self.num_missing > 0

    @property
    def num_workers(self) -> int:
        """Number of workers."""
        return len(self.worker_ids)

    @property
    def num_known_classes(self) -> int:
        """Number of different labels in ``known``."""
        return len(self.known_ids)

    @property
    def outcomes(self) -> Outcomes:
        """The possible answers about a pair: yes and no, or the grades and "can't tell"."""
        number = len(self.grade_ids)
        return Outcomes(number, number + 1) if number else Outcomes(2, 2)

    @property
    def num_pairs(self) -> int:
        """Number of answers that count."""
        return 0 if self.answers is None else self.answers.num_pairs

    @property
    def num_all_pairs(self) -> int:
        """Number of all answers about pairs, the rows of ``pairs``."""
        return 0 if self.all_answers is None else self.all_answers.num_pairs

    @property
    def num_labels(self) -> int:
        """Number of class answers."""
        return 0 if self.class_labels is None else len(self.class_labels)

    @property
    def num_classes(self) -> int:
        """Number of classes; 0 where there are no class answers."""
        return len(self.class_ids)

    @property
    def supervised_items(self) -> Int[Tensor, " supervised"]:
        """Sorted positions of the items with a known label or a link."""
        if self.known is None and self.links is None:
            return torch.empty(0, dtype=torch.int64)
        supervised = torch.zeros(self.num_items, dtype=torch.bool)
        if self.known is not None:
            supervised |= self.known >= 0
        if self.links is not None:
            supervised[self.links.left] = True
            supervised[self.links.right] = True
        return supervised.nonzero().squeeze(1)

    @property
    def has_pages(self) -> bool:
        """Whether every answer names the task in which it was given."""
        return len(self.page_ids) > 0

    @property
    def has_answers(self) -> bool:
        """Whether there are answers about which items belong together: pairs or sorted pages."""
        return self.answers is not None or self.placements is not None

    @property
    def needed_answers(self) -> Answers:
        """``answers``, where there are some; a ``ValueError`` without any."""
        return needed(self.answers, "answers about pairs", "pairs")

    @property
    def needed_placements(self) -> Placements:
        """``placements``, where there are some; a ``ValueError`` without any."""
        return needed(self.placements, "sorted pages", "placements")

    @property
    def needed_known(self) -> Int[Tensor, " item"]:
        """``known``, where labels are known; a ``ValueError`` where none is."""
        return needed(self.known, "known labels", "known")

    @property
    def needed_class_labels(self) -> ClassLabels:
        """``class_labels``, where there are some; a ``ValueError`` without any."""
        return needed(self.class_labels, "class labels", "labels")

    @property
    def answers_per_worker(self) -> Int[np.ndarray, " worker"]:
        """How many answers about pairs that count, or placements on pages, each worker gave."""
        worker = torch.empty(0, dtype=torch.int64)
        if self.answers is not None:
            worker = self.answers.worker
        elif self.placements is not None:
            worker = self.placements.worker[self.placements.page]
        return np.bincount(worker.numpy(), minlength=self.num_workers)

    @cached_property
    def _sorting(self) -> Placements | NotSorted:
        """The answers as placements, or why there are none; computed once, as pairs may be many."""
        if self.placements is not None:
            return self.placements
        if self.answers is None:
            return NotSorted("there are no answers")
        if len(self.grade_ids):
            return NotSorted("the answers are grades")
        try:
            return sort_pairs(self.answers, self.page_ids)
        except NotSorted as reason:
            return reason.with_traceback(None)

    @property
    def is_sorted(self) -> bool:
        """Whether all answers are pages that workers sorted into groups.

        True of placements. True of pairs that have pages if one worker answered all pairs of each
        page and the answers are transitive: if a and b are the same, and b and c, so are a and c.
        """
        return isinstance(self._sorting, Placements)

    def as_placements(self) -> CrowdData:
        """The same data with pages of pairs as placements: n for a page of n items.

        Raises
        ------
        NotSorted
            A ``ValueError`` that names the first page that is not sorted, and says why.

        Examples
        --------
        >>> page = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": [7] * 3, "label": [1, 0, 0]}
        >>> data = CrowdData(np.eye(3), page | {"page": [0] * 3})
        >>> data.as_placements()
        CrowdData(3 items, features 3 binary, 3 placements by 1 worker on 3 items in 1 page)
        """
        if isinstance(self._sorting, NotSorted):
            raise NotSorted(f"the answers are not sorted pages: {self._sorting}")
        return self.with_answers(None).with_parts(placements=self._sorting)

    def as_pairs(self) -> CrowdData:
        """The same data with placements as answers about all pairs of every page."""
        if self.placements is None:
            return self
        return self.with_answers(pairs_of(self.placements)).with_parts(placements=None)

    def with_unshared_pages_as_pairs(self) -> CrowdData:
        """The same data, with sorted pages as pairs where they share no items.

        An item that is on one page only is no evidence of whether the worker sorted it with care.
        """
        pages = self.placements
        return self if pages is None or pages.share_items else self.as_pairs()

    def with_parts(self, **parts: Any) -> CrowdData:
        """The same data with other values of some fields, which are used without any check."""
        kept = {name: self.__dict__[name] for name in self.__dataclass_fields__}
        return CrowdData.of_parts(**kept | parts)

    def with_answers(self, answers: Answers | None) -> CrowdData:
        """The same data with other answers about pairs, all of which count, numbered from 0."""
        index = None if answers is None else pd.RangeIndex(answers.num_pairs)
        every = {"_all_answers": None, "_counts": None, "_pairs_index": index}
        return self.with_parts(answers=answers, **every)

    def without_pairs(self, is_out: Bool[Tensor, " row"]) -> CrowdData:
        """The same data without some rows of ``pairs``; of all others the same ones count."""
        every, index, counts, kept = self.all_answers, self._pairs_index, self._counts, ~is_out
        assert every is not None  # as there are rows
        assert index is not None
        every, index = every.at(kept), index[kept.numpy()]
        if counts is None:
            return self.with_parts(answers=every, _pairs_index=index)
        counts = counts[kept]
        parts = {"_all_answers": every, "_counts": counts, "_pairs_index": index}
        return self.with_parts(answers=every.at(counts), **parts)

    def with_class_labels(self, labels: ClassLabels) -> CrowdData:
        """The same data with other class labels, whose rows are numbered from 0."""
        return self.with_parts(class_labels=labels, _labels_index=pd.RangeIndex(len(labels)))

    @classmethod
    def of_parts(cls, **parts: Any) -> CrowdData:
        """Data with these values of all fields, which are used as they are, without any check."""
        data = object.__new__(cls)
        data.__dict__.update(parts)
        return data

    @property
    def annotated_items(self) -> Int[Tensor, " annotated"]:
        """Sorted positions of the items in at least one answer or on at least one page."""
        if self.placements is not None:
            return self.placements.item.unique()
        if self.answers is None:
            return torch.empty(0, dtype=torch.int64)
        return torch.cat([self.answers.left, self.answers.right]).unique()

    @property
    def all_answers(self) -> Answers | None:
        """The answers in the rows of ``pairs``, also those that do not count, or None."""
        return self.answers if self._all_answers is None else self._all_answers

    @property
    def pairs(self) -> pd.DataFrame | None:
        """All answers, also those that do not count, with the user's ids and row index, or None."""
        if self.all_answers is None:
            return None
        return pairs_table(
            self.all_answers,
            items=self.item_ids,
            workers=self.worker_ids,
            pages=self.page_ids,
            grades=self.grade_ids,
            index=self._pairs_index,
        )

    @property
    def counted_pairs(self) -> pd.DataFrame | None:
        """The rows of ``pairs`` that count, which are those of ``answers``; None without any."""
        pairs = self.pairs
        return pairs if pairs is None or self._counts is None else pairs[self._counts.numpy()]

    @property
    def counted_rows(self) -> Int[Tensor, " pair"]:
        """The positions among all rows of ``pairs`` of those that count."""
        counts = self._counts
        return torch.arange(self.num_pairs) if counts is None else counts.nonzero().squeeze(1)

    @property
    def pages(self) -> pd.DataFrame | None:
        """The placements as a table with the user's own ids, page after page, or None."""
        if self.placements is None:
            return None
        ids = {"items": self.item_ids, "workers": self.worker_ids, "pages": self.page_ids}
        return placements_table(self.placements, **ids)

    @property
    def labels(self) -> pd.DataFrame | None:
        """The class answers as a table with the user's own ids and row index, or None."""
        if self.class_labels is None:
            return None
        return labels_table(
            self.class_labels,
            items=self.item_ids,
            workers=self.worker_ids,
            classes=self.class_ids,
            index=self._labels_index,
        )

    def item_positions(self, ids: Iterable[Hashable]) -> Int[Tensor, " row"]:
        """Positions of the items with these ids.

        Raises
        ------
        ValueError
            Naming the first id that no item has.
        """
        wanted = to_index(ids, "ids")
        positions = self.item_ids.get_indexer(wanted).astype(np.int64)
        if (positions < 0).any():
            row = int((positions < 0).argmax())
            reason = unknown(self.item_ids, wanted[row])
            raise ValueError(f"ids row {row} is {show(wanted[row])}, {reason}")
        return torch.from_numpy(positions)

    def rows(self, indices: Int[Tensor, " row"]) -> Float[Tensor, "row ..."]:
        """Features of the items at these positions, as a tensor.

        Floating point features keep their precision; integers and booleans become float32, stored
        integers that float32 might round, float64.

        Raises
        ------
        ValueError
            Where the data has no features.
        """
        if self.features is None:
            raise ValueError("this data has no features: pass `features` to CrowdData")
        if isinstance(self.features, Tensor):
            rows = self.features[indices]
            return rows if rows.is_floating_point() else rows.to(torch.float32)
        array = np.asarray(self.features[np.asarray(indices)])
        # torch supports neither foreign byte orders nor extended precision.
        size = min(array.dtype.itemsize, 8)
        if array.dtype.kind != "f":
            # Integers in memory are exact in single precision, or were converted.
            size = 8 if isinstance(self.features, StoredFeatures) and size >= 4 else 4
        return torch.from_numpy(array.astype(f"=f{size}", copy=False))

    def all_rows(self) -> Float[Tensor, "item ..."]:
        """Features of all items, as ``rows``."""
        return self.rows(torch.arange(self.num_items))

    def row_blocks(self, size: int) -> Iterator[tuple[int, Float[Tensor, "row ..."]]]:
        """Features of all items, ``size`` rows at a time, with the position of the first row."""
        for first in range(0, self.num_items, size):
            yield first, self.rows(torch.arange(first, min(first + size, self.num_items)))

    def __repr__(self) -> str:
        parts = [
            count(self.num_items, "item"),
            *features_in_words(self.features, self.columns, self.num_missing),
        ]
        if self.class_labels is not None:
            parts.append(class_labels_in_words(self.class_labels))
        answers = self.answers if self.placements is None else self.placements
        if answers is not None:
            sizes = self.num_workers, len(self.page_ids)
            num_rows = None if self._counts is None else self.num_all_pairs
            parts.append(answers_in_words(answers, *sizes, self.is_sorted, num_rows))
        elif self.class_labels is None:
            parts.append("no answers")
        if self.known is not None:
            parts.append(known_in_words(self.known, self.known_ids))
        if self.links is not None:
            parts.append(count(self.links.num_links, "link"))
        if self.likeness is not None:
            parts.append(f"likeness of {count(self.likeness.num_pairs, 'pair')}")
        return f"CrowdData({', '.join(parts)})"
