"""The search for the best candidate, with the answers and, as far as needed, without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.climbing import best_of
from pyro_crowdclust.interface.choosing.fixed_components import (
    joined_by_pages,
    scores_at_fixed_components,
)
from pyro_crowdclust.interface.choosing.overlaps import with_overlaps_joined
from pyro_crowdclust.interface.choosing.plan import Plan
from pyro_crowdclust.interface.choosing.trials import Decision, Trial
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.interface.choosing.unseen_answers import UnseenAnswers
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit
from pyro_crowdclust.interface.holding_out.pairs import PairSplit, ends_of
from pyro_crowdclust.pooling.comparison import gain_by_a_part, is_clear


class Search:
    """What is known about the candidates of a plan; each part is found when it is first asked.

    Parameters
    ----------
    plan
        The data, and what to try.
    seed
        Seed of starts, items and splits.
    progress
        Whether to show a progress bar.

    Attributes
    ----------
    candidates
        The candidates, and what was tried of them.
    interrupted
        Whether Ctrl-C ended the search.
    unseen
        The answers by which fits of the features alone are read, if they are.
    parts
        Parts of the placements that decide at components of the features alone, if not the splits.
    """

    def __init__(self, plan: Plan, seed: int, progress: bool) -> None:
        self.plan, self.seed, self.progress = plan, seed, progress
        self.candidates = Candidates(plan, seed, progress)
        self.interrupted = False
        self.unseen: UnseenAnswers | None = None
        self.parts: list[PlacementSplit] = []

    def unless_interrupted(self, decide: Callable[[], Decision]) -> Decision:
        """A decision; on Ctrl-C, the best candidate so far, if there is any."""
        try:
            return decide()
        except KeyboardInterrupt:
            trials = self.candidates.trials
            if not trials:
                raise
            self.interrupted = True
            # Trials without answers have an ELBO only, which does not compare with held-out scores.
            best = max(trials, key=lambda trial: (trial.held_out is not None, trial.score))
            why = f"best of {len(trials)} candidates when the search was interrupted"
            return Decision(best, why)

    @cached_property
    def best(self) -> Decision:
        """The best candidate with all supervision."""
        return best_of(self.candidates)

    @cached_property
    def predicts_answers(self) -> bool:
        """Whether some candidate predicts held-out answers clearly better than chance.

        Chance knows how often each worker gives each label, and nothing about the items. All
        candidates count that were tried on as many splits as the best.
        """
        number, trials = len(self.best.trial.answers), self.candidates.trials
        chance, ends = self.by_chance(number)
        return any(
            is_clear(gain_by_a_part(trial.answers, chance), ends, len(trials))
            for trial in trials
            if len(trial.answers) == number
        )

    def by_chance(
        self, number: int
    ) -> tuple[Float[np.ndarray, " pair"], Int[np.ndarray, "2 pair"]]:
        """Log-probabilities by chance of the first held-out answers, and their two ends.

        These are the items of a pair, or the item and the page of a placement.
        """
        splits = [
            one for one in self.candidates.splits if isinstance(one, PairSplit | PlacementSplit)
        ]
        chance = np.concatenate([one.by_chance for one in splits])
        return chance[:number], ends_of(splits)[:, :number]

    @cached_property
    def without_answers(self) -> tuple[Trial, Fitted | None]:
        """The best candidate without answers, whose components depend on the features alone.

        Its fit, too, if there are held-out answers, or placements.
        """
        search, best = self._of_features
        candidates = self.candidates
        self.interrupted = search.interrupted
        trial = None if candidates.splits or search.interrupted else self.read_by_answers()
        if trial is None:
            trial = self._add_without_answers(search.candidates.trials, best)
        is_scored = candidates.splits or candidates.data.placements is not None
        if search.interrupted or not is_scored:
            return trial, None
        some = search.candidates.data
        fitted = with_overlaps_joined(search.candidates.complete_fit_of(trial, some))
        if candidates.splits:
            fits = [fitted] * len(candidates.splits)
            scores = scores_at_fixed_components(fits, candidates.data, candidates.splits)
            scored = replace(trial, by_weight=scores)
            candidates.exchange(trial, scored)
            trial = scored
        return trial, fitted

    @cached_property
    def joined(self) -> Trial:
        """The same candidate, with components that pages show to be one cluster joined."""
        trial, fitted = self.without_answers
        if fitted is None:
            return trial
        candidates = self.candidates
        is_weighed = bool(candidates.splits)
        found, parts = joined_by_pages(trial, fitted, candidates.data, self.seed, is_weighed)
        if parts:
            candidates.exchange(trial, found)
            self.parts = parts
        return found

    def read_by_answers(self) -> Trial | None:
        """What comes nearest to how all answers read the candidates without them (``unseen``).

        None if the answers cannot read them.

        Raises
        ------
        KeyboardInterrupt
            If the search without answers was interrupted.
        """
        search, best = self._of_features
        if search.interrupted:
            raise KeyboardInterrupt
        trials = search.candidates.trials
        self.unseen = UnseenAnswers.of(self.plan.data, search.candidates.fits, self.seed)
        if self.unseen is None:
            return None
        place = self.unseen.better_than(trials.index(best))
        return self._add_without_answers(trials, trials[place])

    @cached_property
    def _of_features(self) -> tuple[Search, Trial]:
        """A search without answers, and its winner."""
        plan = self.plan.by_features
        assert plan is not None  # as the callers have seen
        search = Search(plan, self.seed, self.progress)
        return search, search.unless_interrupted(lambda: search.best).trial

    def _add_without_answers(self, trials: Sequence[Trial], best: Trial) -> Trial:
        """Let these trials be those without answers; returns the best as it is among them."""
        added = [replace(one, by_item=None, uses_answers=False) for one in trials]
        with_answers = [one for one in self.candidates.trials if one.uses_answers]
        self.candidates.trials = [*with_answers, *added]
        return added[trials.index(best)]

    def fit_tried(self, best: Trial) -> Fitted | None:
        """The brief fit of a candidate of the features alone; None if it is not one of these."""
        if self.candidates.are_of_features:
            candidates = self.candidates
        elif best.uses_answers:
            return None
        else:
            candidates = self._of_features[0].candidates
        place = candidates.place_of(best.form, best.num_components)
        return None if place is None else candidates.fits[place]

    def chance_of(self, best: Trial) -> float | None:
        """Mean log-probability by chance of all that a trial was scored by; None if of nothing."""
        splits = self.parts or self.candidates.splits
        if not splits:
            return None
        sizes = [len(one.block) for one in splits]
        used = int(np.searchsorted(np.cumsum(sizes), len(best.answers))) + 1
        chances = [one.chance for one in splits[:used]]
        return float(np.average(chances, weights=sizes[:used]))
