"""Updates that keep the prior of cluster sizes as long as new answers bear the choice out.

The answers of an update were in no fit before, and so they test the fit that is updated, as those
that a search holds out: prequential evaluation (Dawid 1984).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.interface.about_data import are_many_more, num_answers
from pyro_crowdclust.interface.answers_alone.kinds import KindOfAnswers, kind_of_answers
from pyro_crowdclust.interface.answers_alone.prior_trials import (
    CLEAR,
    PriorTrial,
    clusters_hold,
)
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.training import is_interrupted

# Fewer new answers, or pages, show nothing.
_FEWEST = 10
# A gain of guesses by so many standard errors may be clear to a search, which holds out more.
_HINT = 1.0


@dataclass(frozen=True)
class KeptPrior:
    """What a search chose, for fits to more answers without another search; can be saved.

    Attributes
    ----------
    prior
        Name of the prior of cluster sizes.
    assumptions
        What is assumed of the answers (``KindOfAnswers.assumptions``).
    is_clear
        Whether the clusters predicted held-out answers clearly better than by chance; otherwise
        they are guesses.
    is_informative, agreement
        As of the ``PriorTrial``.
    num_answers
        Number of answers that were searched.
    """

    prior: str
    assumptions: dict[str, bool]
    is_clear: bool
    is_informative: bool
    agreement: float
    num_answers: int

    @classmethod
    def of(cls, trial: PriorTrial, data: CrowdData, is_clear: bool) -> KeptPrior:
        """What was chosen for these data."""
        return cls(
            trial.prior,
            trial.answers.assumptions,
            is_clear,
            trial.is_informative,
            trial.agreement,
            num_answers(data),
        )

    def fit(self, result: Fitted, data: CrowdData, **options: Any) -> Fitted | None:
        """A fit to the data of a result and new ones; None where another search is needed.

        It is needed if there are twice as many answers as were searched, if new answers contradict
        the choice (``is_contradicted``), or if the clusters that are found join no items, or agree
        with fewer of the answers about pairs than those that were chosen.

        Parameters
        ----------
        result
            The fit that is updated.
        data
            Its data, and new ones.
        options
            Of ``Recipe.fit``.
        """
        if are_many_more(data, self.num_answers):
            return None
        answers = kind_of_answers(data, **self.assumptions)
        if self.is_contradicted(answers, result):
            return None
        answers = answers if self.is_clear else answers.for_guesses()
        fitted = answers.recipe(answers.priors[self.prior]()).fit(**options)
        holds = not self.is_clear or clusters_hold(fitted, self.agreement, self.is_informative)
        return fitted if holds or is_interrupted(fitted) else None

    def is_contradicted(self, answers: KindOfAnswers, result: Fitted) -> bool:
        """Whether new answers are predicted clearly worse than a fit promises.

        Their gain over chance is clearly less than half of what it should be. Of guesses, which
        promise nothing, whether there is a gain: then they can be more than guesses.

        Parameters
        ----------
        answers
            Those of the fit, and new ones.
        result
            The fit.
        """
        gain, expected = answers.gains_of_new(result)
        if len(gain) < _FEWEST:
            return False
        if self.is_clear:
            return is_clearly_better(expected / 2, gain, CLEAR)
        return is_clearly_better(gain, torch.zeros_like(gain), _HINT)
