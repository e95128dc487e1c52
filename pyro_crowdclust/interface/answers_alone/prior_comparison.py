"""A comparison of priors of cluster sizes: the chosen one, why, and what takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.answers_alone.kept_prior import KeptPrior
from pyro_crowdclust.interface.answers_alone.prior_ranking import fallback
from pyro_crowdclust.interface.answers_alone.prior_trials import PriorTrial, agrees_as_well
from pyro_crowdclust.interface.recipe import Recipe
from pyro_crowdclust.interface.searches import table_of
from pyro_crowdclust.results import Chosen

_GUESSES = (
    "there are too few answers to find out which items are the same; collect more, as these "
    "clusters ({prior}) are guesses"
)
_UNTESTED = (
    "few answers are about pairs that others say something about, so that little tests these "
    "clusters ({prior}), which agree with the answers and may be right; to find out, ask again "
    "about some pairs, or about all three pairs of three items"
)
_ONE_CLUSTER = (
    "either all items are one cluster, as found, or there are too few answers to distinguish them; "
    "collect more to decide"
)


class PriorComparison(NamedTuple):
    """The priors that were tried, and the chosen one; other fields as in ``Chosen``."""

    data: CrowdData
    trials: list[PriorTrial]
    chosen: PriorTrial
    why: str
    is_clear: bool
    chance: float | None = None
    is_tested: bool = True
    interrupted: bool = False

    def outcome(self) -> tuple[Recipe, Chosen]:
        """The recipe of the chosen prior for all data, and how it was chosen."""
        chosen = self.chosen.answers
        answers = (chosen if self.is_clear else chosen.for_guesses()).about(self.data)
        recipe = answers.recipe(answers.priors[self.chosen.prior]())
        table = table_of(self.trials, self.chosen)
        return recipe, Chosen(table, self.reason, self.chance, self.is_clear)

    def kept(self) -> KeptPrior | None:
        """What updates keep of the choice; None after Ctrl-C."""
        if self.interrupted:
            return None
        return KeptPrior.of(self.chosen, self.data, self.is_clear)

    @property
    def reason(self) -> str:
        """Why the prior was chosen, and, if answers are too few to choose, what that means."""
        if self.is_clear:
            return self.why
        # Only for its agreement with the answers is another prior than the first taken then.
        is_guess = self.is_tested or self.chosen is self.trials[0]
        of_many = (_GUESSES if is_guess else _UNTESTED).format(prior=self.chosen.prior)
        return f"{self.why}; {of_many if self.chosen.clusters > 1 else _ONE_CLUSTER}"

    def others(self) -> Iterator[PriorComparison]:
        """The same with another prior chosen, for each that agrees with as many answers.

        They are needed where a fit to all answers finds other clusters than the fits that were
        compared; those with the likeliest held-out answers come first. There are none if answers
        test the clusters and no prior predicts them: the prior that finds fewer is not worse then.
        """
        if self.is_tested and not self.is_clear:
            return
        others = [
            trial
            for trial in self.trials
            if trial.is_informative
            and trial.counts_halves == self.chosen.counts_halves
            and agrees_as_well(trial.agreement, self.chosen.agreement)
            and trial is not self.chosen
        ]
        for other in sorted(others, key=lambda trial: -trial.held_out):
            why = (
                f"{self.why}; the prior '{self.chosen.name}' was chosen first, but fitted to all "
                "answers it finds other clusters than in this comparison, which agree with fewer "
                f"answers, so the prior '{other.name}' is used instead"
            )
            yield self._replace(chosen=other, why=why)

    def without_support(self, other: PriorTrial) -> PriorComparison:
        """The same where a fit to all answers finds others, and ``other`` predicts no more answers.

        The clusters of the first prior are guesses then.
        """
        why = (
            f"{self.why}; but fitted to all answers, the prior '{self.chosen.name}' finds other "
            "clusters than in this comparison, which agree with fewer answers, and "
            f"'{other.name}', which agrees with as many, does not predict further held-out "
            "answers clearly better than the shares of the labels do"
        )
        chosen = fallback(self.trials)
        return self._replace(chosen=chosen, why=why, is_clear=False, is_tested=True)
