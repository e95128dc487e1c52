"""The plan of a search: the data, the forms of models, and the numbers of components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.forms import MAX_ITEMS, Form
from pyro_crowdclust.interface.candidates.near_copies import MAX_CLUSTERS

# Numbers of components to try.
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100)


@dataclass(frozen=True)
class Plan:
    """What a search tries, and on which data.

    Attributes
    ----------
    data
        Items and answers.
    forms
        The ways to model the features that are compared, all with ``first_size`` components.
    sizes
        Numbers of components, ascending. The best forms are tried with more and fewer components
        than ``first_size``, as long as that improves them.
    first_size
        One of ``sizes``.
    share
        Share of the answered items whose answers are held out. If most items have answers, the same
        number of answers is held out, some of them about pairs of other items (``pair_split``).
    num_splits
        Number of different shares that are held out. The second and later ones are used for
        candidates that the first does not distinguish from the best.
    max_items
        Candidates are fitted to at most this many items, those with answers first.
    best_forms
        Number of forms that are tried with other numbers of components.
    max_groups
        Of each group of rows that are nearly the same, only one counts, unless there are at most
        this many groups, which may be clusters, or only one cluster would be left. None: all rows
        count.
    may_be_records
        Whether there may be more clusters than ``sizes`` has, too small to have a shape. Partitions
        from the answers, which allow such clusters, are then compared with the winner.
    part_items
        Where all items need minibatches, the chosen candidate is first fitted to this many items.
    by_features
        The plan without the answers, which is used if these predict nothing about other items; None
        if there are no answers, or other supervision.
    """

    data: CrowdData
    forms: Sequence[Form]
    sizes: Sequence[int] = SIZES
    first_size: int = 8
    share: float = 0.25
    num_splits: int = 3
    max_items: int = MAX_ITEMS
    best_forms: int = 2
    max_groups: int | None = MAX_CLUSTERS
    may_be_records: bool = False
    part_items: int = 5000
    by_features: Plan | None = None

    def of(self, uses_answers: bool) -> Plan:
        """The plan of candidates that use the answers, or of those that do not."""
        return self if uses_answers or self.by_features is None else self.by_features
