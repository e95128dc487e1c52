"""Annotators of class labels, by what is assumed about the workers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import (
    AnswerSources,
    CommunityConfusion,
    ConfusionMatrices,
    Habit,
    OneCoin,
    TrustedWorkers,
    Truth,
)
from pyro_crowdclust.data.tables import to_index
from pyro_crowdclust.errors import did_you_mean, show
from pyro_crowdclust.protocols import ClassAnnotators

# Right and wrong answers of a worker by the prior that is not learned. It is stronger than that of
# ``ConfusionMatrices``: with few labels an item, a mean field under a weak prior explains all of
# them best by a single class, and by workers who name others out of habit.
RIGHT, WRONG = 8.0, 2.0


class Workers(NamedTuple):
    """Assumptions about the workers.

    Attributes
    ----------
    num_communities
        Number of communities of workers, whose confusion matrices are learned; 0: workers have a
        prior that is not learned.
    worker_weights
        The number of independent workers that each counts as; None: 1 each.
    trusted
        Codes of the workers who are always right.
    prior_strength
        Without communities: the prior counts as ten times as many answers, four in five of them
        right, where classes are inferred, but as ten in tables of the rates.
    truth_or_habit
        Whether each answer is either the class, or out of a habit of the worker
        (``AnswerSources``), instead of a row of a confusion matrix. Workers then count as one each,
        and nobody is trusted.
    one_rate
        Whether a worker errs at one rate in all classes, towards all others alike (``OneCoin``).
        Workers then count as one each, and nobody is trusted.
    outliers
        Priors (right, wrong) for workers whom no other is like, beside the communities.

    Examples
    --------
    >>> said = {"item": [0, 0, 1], "worker": list("aba"), "label": list("xxy")}
    >>> annotators = Workers(trusted=(1,)).annotators(CrowdData(None, labels=said))
    >>> type(annotators).__name__, type(annotators.others).__name__
    ('TrustedWorkers', 'CommunityConfusion')
    """

    num_communities: int = 1
    worker_weights: Sequence[float] | None = None
    trusted: tuple[int, ...] = ()
    prior_strength: float = 1.0
    truth_or_habit: bool = False
    one_rate: bool = False
    outliers: tuple[tuple[float, float], ...] = ()

    @property
    def are_alike(self) -> bool:
        """Whether nothing is said about single workers: nobody is trusted, and all count as one."""
        return not self.trusted and self.worker_weights is None

    def annotators(self, data: CrowdData) -> ClassAnnotators:
        """The confusion matrices of the workers in these data."""
        size = data.num_workers, data.num_classes
        if self.truth_or_habit:
            return AnswerSources([Truth(*size), Habit(*size)])
        if self.one_rate:
            return OneCoin(*size, (RIGHT, WRONG))
        right, wrong = self.prior_strength * RIGHT, self.prior_strength * WRONG
        found: ClassAnnotators = ConfusionMatrices(
            *size, right, wrong, self.worker_weights, prior_share=1 / self.prior_strength
        )
        if self.num_communities:
            found = CommunityConfusion(
                *size, self.num_communities, self.worker_weights, self.outliers
            )
        return TrustedWorkers(found, self.trusted) if self.trusted else found


def codes_of_workers(named: Iterable[Hashable], data: CrowdData) -> tuple[int, ...]:
    """Codes of workers by their ids; raises a ``ValueError`` for one who gave no answer."""
    if isinstance(named, str | bytes) or not isinstance(named, Iterable):
        remedy = "leave it out" if named is None else f"[{named!r}]"
        raise ValueError(f"trusted is {named!r}, but must be a list of workers: {remedy}")
    wanted = to_index(named, "trusted")
    codes = data.worker_ids.get_indexer(wanted).tolist() if len(wanted) else []
    for who, code in zip(wanted, codes, strict=True):
        if code < 0:
            raise ValueError(
                f"trusted names {show(who)}, who gave no answer{did_you_mean(who, data.worker_ids)}"
                ": name workers as in the column 'worker'"
            )
    return tuple(codes)
