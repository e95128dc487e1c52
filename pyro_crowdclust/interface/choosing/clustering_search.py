"""The search for the best candidate, with the answers and, as far as needed, without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust import Fitted
from pyro_crowdclust.interface.choosing.climbing import best_of
from pyro_crowdclust.interface.choosing.decisions import Decision, WithoutAnswers
from pyro_crowdclust.interface.choosing.fixed_components import (
    joined_by_pages,
    scores_at_fixed_components,
)
from pyro_crowdclust.interface.choosing.overlaps import with_overlaps_joined
from pyro_crowdclust.interface.choosing.search_space import SearchSpace
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.interface.choosing.unseen_answers import UnseenAnswers
from pyro_crowdclust.interface.holding_out.pages import PlacementSplit
from pyro_crowdclust.interface.holding_out.pairs import PairSplit, ends_of
from pyro_crowdclust.interface.searches import best_so_far
from pyro_crowdclust.pooling.comparison import gain_by_a_part, is_clear

# All held-out answers.
_ALL = slice(None)


class Search:
    """What is known about the candidates of a space; each part is found when it is first asked.

    Parameters
    ----------
    space
        The data, and what to try.
    seed
        Seed of starts, items and splits.
    progress
        Whether to show a progress bar.

    Attributes
    ----------
    candidates
        The candidates, and what was tried of them.
    """

    def __init__(self, space: SearchSpace, seed: int, progress: bool) -> None:
        self.space, self.seed, self.progress = space, seed, progress
        self.candidates = Candidates(space, seed, progress)

    def unless_interrupted(self, decide: Callable[[], Decision]) -> Decision:
        """A decision; on Ctrl-C, the best candidate so far, if there is any."""
        try:
            return decide()
        except KeyboardInterrupt:
            without = self._without_answers_so_far()
            # Trials without answers have an ELBO only, which does not compare with held-out scores.
            best, why = best_so_far(
                self.tried(without),
                lambda trial: (trial.by_weight is not None, trial.score),
                "candidates",
            )
            return Decision(best, why, without=without, interrupted=True)

    def _without_answers_so_far(self) -> WithoutAnswers | None:
        """The candidates without answers, as far as they were found; None if nobody asked."""
        stages = "joined", "without_answers", "_by_elbo"  # each is made of the next one
        return next((vars(self)[name] for name in stages if name in vars(self)), None)

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
        return bool(self.that_predict(self.candidates.trials))

    def that_predict(
        self, trials: Sequence[Trial], some: Bool[np.ndarray, " pair"] | slice = _ALL
    ) -> list[Trial]:
        """The trials that predict some of the held-out answers clearly better than chance.

        Only those can that were tried on as many splits as the best, but the level is corrected for
        all of these trials.
        """
        number = len(self.best.trial.log_probabilities)
        chance, ends = self.by_chance(number)

        def predicts(trial: Trial) -> bool:
            gain = gain_by_a_part(trial.log_probabilities, chance)
            return is_clear(gain[some], ends[:, some], len(trials))

        as_often = (trial for trial in trials if len(trial.log_probabilities) == number)
        return [trial for trial in as_often if predicts(trial)]

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
    def without_answers(self) -> WithoutAnswers:
        """The candidates without answers, the best of them scored by held-out answers, if any."""
        found, candidates = self._by_elbo, self.candidates
        if found.interrupted:
            return found
        if not candidates.splits:
            found = self.read_by_answers or found
        if candidates.splits or candidates.data.placements is not None:
            some = self._of_features.candidates
            fitted = with_overlaps_joined(some.brief_fit_of(found.best, some.data))
            found = replace(found, fitted=fitted)
            if candidates.splits:
                fits = [fitted] * len(candidates.splits)
                scores = scores_at_fixed_components(fits, candidates.data, candidates.splits)
                found = found.with_best(replace(found.best, by_weight=scores))
        return found

    @cached_property
    def joined(self) -> WithoutAnswers:
        """The same, with components of the best that pages show to be one cluster joined."""
        found, candidates = self.without_answers, self.candidates
        if found.fitted is None:
            return found
        is_weighed = bool(candidates.splits)
        best, parts = joined_by_pages(
            found.best, found.fitted, candidates.data, self.seed, is_weighed
        )
        return replace(found.with_best(best), parts=parts)

    @cached_property
    def read_by_answers(self) -> WithoutAnswers | None:
        """The same, with what comes nearest to how all answers read them as the best (``unseen``).

        None if the answers cannot read them.

        Raises
        ------
        KeyboardInterrupt
            If the search without answers was interrupted.
        """
        found = self._by_elbo
        if found.interrupted:
            raise KeyboardInterrupt
        fits = self._of_features.candidates.fits
        unseen = UnseenAnswers.of(self.space.data, fits, self.seed)
        if unseen is None:
            return None
        place = unseen.better_than(found.trials.index(found.best))
        return replace(found, best=found.trials[place], unseen=unseen)

    @cached_property
    def _by_elbo(self) -> WithoutAnswers:
        """The candidates without answers, and the best of them by the ELBO."""
        search = self._of_features
        decision, trials = search.unless_interrupted(lambda: search.best), search.candidates.trials
        rows = [replace(one, by_item=None, uses_answers=False) for one in trials]
        best = rows[trials.index(decision.trial)]
        return WithoutAnswers(best, rows, interrupted=decision.interrupted)

    @cached_property
    def _of_features(self) -> Search:
        """A search without answers."""
        space = self.space.by_features
        assert space is not None  # as the callers have seen
        return Search(space, self.seed, self.progress)

    def tried(self, without: WithoutAnswers | None) -> list[Trial]:
        """All trials, those without answers last."""
        return [*self.candidates.trials, *(without.trials if without else ())]

    def fit_tried(self, best: Trial) -> Fitted | None:
        """The brief fit of a candidate of the features alone; None if it is not one of these."""
        if self.candidates.are_of_features:
            candidates = self.candidates
        elif best.uses_answers:
            return None
        else:
            candidates = self._of_features.candidates
        place = candidates.place_of(best.form, best.num_components)
        return None if place is None else candidates.fits[place]

    def chance_of(self, decision: Decision) -> float | None:
        """Mean log-probability by chance of all that a trial was scored by; None if of nothing."""
        parts = decision.without.parts if decision.without else ()
        splits = parts or self.candidates.splits
        if not splits:
            return None
        sizes = [len(one.item) for one in splits]
        used = int(np.searchsorted(np.cumsum(sizes), len(decision.trial.log_probabilities))) + 1
        chances = [one.chance for one in splits[:used]]
        return float(np.average(chances, weights=sizes[:used]))
