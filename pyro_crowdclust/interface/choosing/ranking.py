"""Ranking of trials, by held-out answers and by the ELBO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int

from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.trials import (
    MIN_GAIN,
    RIVAL_ERRORS,
    Trial,
    fewest_components,
    is_within_error,
    of_form,
)
from pyro_crowdclust.interface.holding_out.splits import HeldOut
from pyro_crowdclust.pooling.comparison import SMALLEST_EVIDENCE, error_of


class Ranking:
    """Compares trials.

    Parameters
    ----------
    splits
        The splits, with what was held out; empty if nothing was.
    num_items
        Number of items in the data of the trials.
    """

    def __init__(self, splits: Sequence[HeldOut], num_items: int) -> None:
        self.splits, self.num_items = splits, num_items

    @property
    def items(self) -> Int[np.ndarray, " answer"]:
        """The item of each held-out answer, label or link."""
        return torch.cat([one.item for one in self.splits]).numpy()

    def is_better(self, found: Trial, best: Trial, direction: int) -> bool:
        """Whether a trial with more (or fewer) components improves on the best so far."""
        if self.in_order([best, found])[0] is not found:
            return False
        # If answers do not prefer more components, the evidence must.
        if direction < 0 or not self.splits or len(self.rivals([best, found])) < 2:
            return True
        return not self.is_no_evidence(found, best)

    def is_no_evidence(self, larger: Trial, other: Trial) -> bool:
        """Whether the difference of two ELBOs is too small to be evidence."""
        return (larger.elbo - other.elbo) * self.num_items <= SMALLEST_EVIDENCE

    def largest_elbo(self, trials: Sequence[Trial]) -> Trial:
        """The largest ELBO, or the fewest components in its form that it is no evidence against."""
        largest = max(trials, key=lambda trial: trial.elbo)
        return fewest_components(largest, trials, self.is_no_evidence)

    def rivals(self, trials: Sequence[Trial], errors: float = RIVAL_ERRORS) -> list[Trial]:
        """Trials that are worse than the best by less than this many standard errors.

        Only those count that were tried on as many splits as the best.
        """
        most = max(len(trial.log_probabilities) for trial in trials)
        of_all = [trial for trial in trials if len(trial.log_probabilities) == most]
        best = max(of_all, key=lambda trial: trial.score)
        items = self.items[:most]

        def is_close(trial: Trial) -> bool:
            error = error_of(best.log_probabilities - trial.log_probabilities, items)
            return best.score - trial.score < max(errors * error, MIN_GAIN)

        return [trial for trial in of_all if is_close(trial)]

    def in_order(self, trials: Sequence[Trial]) -> list[Trial]:
        """Trials, best first; those that held-out answers do not distinguish go by the ELBO."""
        by_score = sorted(trials, key=lambda trial: -trial.score)
        if not self.splits or not trials or not trials[0].form.of_features:
            return by_score
        rivals = sorted(self.rivals(trials), key=lambda trial: -trial.elbo)
        return rivals + [trial for trial in by_score if trial not in rivals]

    def by_elbo(self, trials: Sequence[Trial]) -> Decision:
        """The form with the largest ELBO, with the fewest components that do as well.

        That is those within a standard error, or those with the largest coarsened ELBO, if fewer.
        """
        first = max(trials, key=lambda trial: trial.elbo)
        best = fewest_components(first, trials, is_within_error)
        among = f"of {len(trials)} candidates; nothing held out"
        coarse = self.largest_coarsened_elbo(of_form(first, trials))
        if coarse is not None and coarse.num_components < best.num_components:
            why = "largest coarsened ELBO of the kind with the largest ELBO"
            return Decision(coarse, f"{why} {among}")
        if best is first:
            return Decision(best, f"largest ELBO {among}")
        why = "fewest components within a standard error of the largest ELBO"
        return Decision(best, f"{why} {among}")

    @staticmethod
    def largest_coarsened_elbo(trials: Sequence[Trial]) -> Trial | None:
        """The best of trials of one form; None if there is any supervision."""
        scored = [(trial.coarsened, trial) for trial in trials if trial.coarsened is not None]
        return max(scored, key=lambda one: one[0])[1] if scored else None
