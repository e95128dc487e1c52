"""What all searches share: a table of their trials, and the best of those that Ctrl-C leaves.

There are three: for a clustering (``choosing/``), for a prior of clusters from answers alone
(``answers_alone/``) and for models of class labels (``class_labels/``). Each has trials of its own,
and rules of its own by which one, or an average, is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import pandas as pd

from pyro_crowdclust.training.stopping import interrupted_too_early


class Tried(Protocol):
    """A candidate that was tried, with its row in the table, but for whether it was chosen."""

    @property
    def row(self) -> dict[str, Any]: ...


AnyTrial = TypeVar("AnyTrial", bound=Tried)


def table_of(trials: Sequence[Tried], best: Tried) -> pd.DataFrame:
    """A table of the trials, with a column that marks the chosen one."""
    return pd.DataFrame([trial.row | {"chosen": trial is best} for trial in trials])


def best_so_far(
    trials: Sequence[AnyTrial], score: Callable[[AnyTrial], Any], names: str
) -> tuple[AnyTrial, str]:
    """The best trial after Ctrl-C, and why; raises a ``KeyboardInterrupt`` if there is none."""
    if not trials:
        raise interrupted_too_early() from None
    why = f"best of {len(trials)} {names} when the search was interrupted"
    return max(trials, key=score), why
