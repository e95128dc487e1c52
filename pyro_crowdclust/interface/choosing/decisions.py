"""What a search finds: the candidates without answers, and the candidate that it decides for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.choosing.unseen_answers import UnseenAnswers
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit


@dataclass(frozen=True)
class WithoutAnswers:
    """The candidates without answers, whose components depend on the features alone.

    Attributes
    ----------
    best
        The best of them.
    trials
        All of them.
    fitted
        The fit of the best, if there are held-out answers, or placements.
    unseen
        The answers by which fits of the features alone are read, if they are.
    parts
        Parts of the placements that decide at components of the features alone, if not the splits.
    interrupted
        Whether Ctrl-C ended their search.
    """

    best: Trial
    trials: Sequence[Trial]
    fitted: Fitted | None = None
    unseen: UnseenAnswers | None = None
    parts: Sequence[PlacementSplit] = ()
    interrupted: bool = False

    def with_best(self, best: Trial) -> WithoutAnswers:
        """The same with another trial in the place of the best."""
        trials = [best if one is self.best else one for one in self.trials]
        return replace(self, best=best, trials=trials)


@dataclass(frozen=True)
class Decision:
    """The trial that was decided for.

    Attributes
    ----------
    trial
        The best one.
    reason
        Why, in words.
    are_records
        Whether clusters of any number and size predict answers better than those of the trial.
    without
        The candidates without answers; None if they were not tried.
    interrupted
        Whether Ctrl-C ended the search.
    """

    trial: Trial
    reason: str
    are_records: bool = False
    without: WithoutAnswers | None = None
    interrupted: bool = False

    @property
    def unseen(self) -> UnseenAnswers | None:
        """The answers by which fits of the features alone are read, if they are."""
        return None if self.without is None else self.without.unseen
