"""What a search tries: of which data, in which forms, and with how many components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.candidates.forms import MAX_ITEMS, Form
from pyro_crowdclust.interface.candidates.near_copies import MAX_CLUSTERS

# Numbers of components that are tried.
SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100)


@dataclass(frozen=True)
class Plan:
    """What is to be tried, of what data.

    Attributes
    ----------
    data
        Items and answers.
    forms
        The ways to model the features that are compared, all with ``first_size`` components.
    sizes
        Numbers of components, ascending. From ``first_size`` the best forms go up and down
        them as long as that pays.
    first_size
        One of ``sizes``.
    share
        Share of the answered items whose answers are held out; where most items have answers, as
        many answers, of which a part is about pairs of other items (``pair_split``).
    num_splits
        So many different shares are held out, the second and later ones for candidates that the
        first could not tell from the best.
    max_items
        Candidates run on so many items, those with answers first.
    best_forms
        Of so many forms other numbers of components are tried.
    max_groups
        Of rows that are nearly the same one counts, unless their groups are no more than this and
        may be clusters, or that leaves one cluster. None: all count.
    may_be_records
        Whether clusters may be more than ``sizes``, and too small to have a shape: partitions by
        the answers, which have such, are then compared with the winner.
    alone
        The plan without the answers, which counts where these tell nothing about other items;
        None where there are none, or more is said of the items.
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
    alone: Plan | None = None
