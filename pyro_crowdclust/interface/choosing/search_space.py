"""What is searched: the data, the forms of models, and the numbers of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.interface.choosing.subsets import distinct_items

# Numbers of components to try.
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100)


@dataclass(frozen=True)
class SearchSpace:
    """What a search tries, and on which data.

    A ``Choice`` is a search space with ``fit``, which runs the search. ``choice_for`` makes it, and
    a search reads it, so that the fields stand in a file below both.

    Attributes
    ----------
    data
        Items and answers.
    forms
        The ways to model the features that are compared, all with ``first_size`` components.
    sizes
        Numbers of components, ascending. The best forms are tried with more and fewer components
        than ``first_size``, as long as that improves them. Of a regression, whose clusters are its
        components, only those up to the bound are tried.
    first_size
        One of ``sizes``.
    num_clusters
        The bound on the number of clusters that was given; None if there was none.
    may_be_records
        Whether there may be more clusters than ``sizes`` has, too small to have a shape. Partitions
        from the answers, which allow such clusters, are then compared with the winner.
    keeps_near_copies
        Whether all rows count. Otherwise only one counts of each group of rows that are nearly the
        same, unless there are so few groups that they may be clusters, or only one cluster would be
        left.
    by_features
        The search space without the answers, which is used if these predict nothing about other
        items; None if there are no answers, or other supervision.
    made
        The search space as ``choice_for`` made it, before anything was changed; None if it did not.
    """

    data: CrowdData
    forms: Sequence[Form]
    sizes: Sequence[int] = SIZES
    first_size: int = 8
    num_clusters: int | None = None
    may_be_records: bool = False
    keeps_near_copies: bool = False
    by_features: SearchSpace | None = None
    made: SearchSpace | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [form.name for form in self.forms]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"two forms are called {name!r}, so that their trials cannot be told apart: "
                    "give one of them another kind or other features, in words"
                )

    @cached_property
    def distinct(self) -> CrowdData:
        """The data with every row once, as candidates and the complete fit see them.

        See ``distinct_items``.
        """
        return distinct_items(self.data)

    @property
    def max_clusters(self) -> int:
        """The largest number of clusters that a result may have."""
        most = max(self.sizes)
        return most if self.num_clusters is None else min(self.num_clusters, most)

    def sizes_of(self, form: Form) -> Sequence[int]:
        """The numbers of components to try of a form, ascending."""
        if form.of_features:
            return self.sizes
        return [size for size in self.sizes if size <= self.max_clusters] or [self.max_clusters]

    def first_sizes_of(self, form: Form) -> list[int]:
        """The numbers of components with which a form is first tried: at most two.

        Mixtures are also tried with as many components as there may be clusters, if these are
        fewer: whoever gives their number mostly means a component for each.
        """
        sizes = self.sizes_of(form)
        most = {self.first_size, min(self.first_size, self.max_clusters)}
        return sorted({max(size for size in sizes if size <= max(one, sizes[0])) for one in most})

    def of(self, uses_answers: bool) -> SearchSpace:
        """The search space of candidates that use the answers, or of those that do not."""
        return self if uses_answers or self.by_features is None else self.by_features

    def with_near_copies(self) -> Self:
        """The same search space, with near-copies of rows kept."""
        by_features = self.by_features and self.by_features.with_near_copies()
        return replace(self, keeps_near_copies=True, by_features=by_features)
