"""Clusters from answers alone: held-out answers choose the prior of the cluster sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.errors import listed, show, warn
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.interface.answers_alone.kept_prior import KeptPrior
from pyro_crowdclust.interface.answers_alone.kinds import (
    KindOfAnswers,
    items_with_answers,
    kind_of_answers,
)
from pyro_crowdclust.interface.answers_alone.prior_comparison import PriorComparison
from pyro_crowdclust.interface.answers_alone.prior_ranking import (
    Attempt,
    best_predicting,
    fallback,
    informative,
    most_agreeing,
)
from pyro_crowdclust.interface.answers_alone.prior_trials import CLEAR, PriorTrial, trial_of
from pyro_crowdclust.interface.answers_alone.shared import EPOCHS
from pyro_crowdclust.interface.recipe import seeds_of
from pyro_crowdclust.interface.searches import best_so_far
from pyro_crowdclust.pooling.comparison import is_clearly_better
from pyro_crowdclust.results import FurtherTraining
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.isolation import generator_of
from pyro_crowdclust.training.option_checks import check_values

# Largest number of sweeps of fits that are only compared.
TRIAL_EPOCHS = 60
_MAX_PARTS = 5
_OF_RECORDS = "many small clusters"
_UNCLEAR = "no prior predicts held-out answers clearly better than the shares of the labels do"
_ON_FEW_PAGES = (
    "items are on fewer than two pages on average, which does not show whether sorters looked: "
    "pages are used as answers about their pairs, and workers may look better than they are"
)
_BY_PAIRS = (
    "held-out pages are predicted hardly better than by chance, so pages are used as answers about "
    "their pairs"
)


@dataclass(frozen=True)
class AnswersAlone:
    """Chooses among priors of cluster sizes by held-out answers, and fits to all answers.

    Attributes
    ----------
    data
        Items, and answers about pairs of them or sorted pages. Features are used only to measure
        how similar the two items of a pair are, unless ``likeness`` does; with pages they are not
        used.
    share
        Share of the answers, or pages, that is held out of a fit.
    """

    data: CrowdData
    share: float = 0.1

    def _comparison(self, seed: int, epochs: int) -> PriorComparison:
        """Compare the priors, until Ctrl-C.

        If held-out pages are predicted hardly better than by chance, pages are used as answers
        about their pairs. On pages of few items, most are the first of their cluster, which may be
        put into any group; only as an answer about a pair does it count that two are apart. The
        same is done if pages share too few items.
        """
        if self.data.placements is not None and not self.data.placements.share_items:
            return self._by_pairs(_ON_FEW_PAGES, seed, epochs)
        comparison = self._until_interrupted(seed, epochs)
        if self.data.placements is None or comparison.is_clear:
            return comparison
        return self._by_pairs(_BY_PAIRS, seed, epochs)

    def _by_pairs(self, why: str, seed: int, epochs: int) -> PriorComparison:
        comparison = replace(self, data=self.data.as_pairs())._comparison(seed, epochs)
        return comparison._replace(why=f"{why}; {comparison.why}")

    def _until_interrupted(self, seed: int, epochs: int) -> PriorComparison:
        if self.data.answers is not None and bool(self.data.answers.label.isnan().all()):
            raise ValueError(
                'every answer is "can\'t tell", so that nothing is known about any pair: pass '
                "answers with labels, or features"
            )
        trials: list[PriorTrial] = []
        try:
            return self._compare(trials, seed, min(epochs, TRIAL_EPOCHS))
        except KeyboardInterrupt:
            chosen, why = best_so_far(trials, lambda trial: trial.held_out, "priors")
            _warn_of_untried(self.data, trials, chosen)
            return PriorComparison(self.data, trials, chosen, why, is_clear=True, interrupted=True)

    def _compare(self, trials: list[PriorTrial], seed: int, epochs: int) -> PriorComparison:
        """Compare the priors; trials are appended to ``trials``."""
        answers = kind_of_answers(items_with_answers(self.data))
        parts = answers.parts(self.share, _MAX_PARTS, generator_of(seed))
        options = {"seed": seed, "epochs": epochs, "progress": False}

        def attempt(prior: str, answers: KindOfAnswers) -> PriorTrial:
            trial = trial_of(answers, parts, prior, options)
            # After Ctrl-C, an incomplete trial counts only if it is the first.
            if trial.is_whole or not trials:
                trials.append(trial)
            if not trial.is_whole:
                raise KeyboardInterrupt
            return trial

        _try_all(answers, attempt)
        trials.sort(key=lambda trial: [*answers.priors].index(trial.prior))
        likeliest = max(informative(trials), key=lambda trial: trial.held_out)
        chance = answers.by_chance(parts)
        is_clear = is_clearly_better(likeliest.log_probabilities, chance, CLEAR)
        if is_clear:
            chosen, why = best_predicting(answers, trials, likeliest, attempt)
        else:
            # Then held-out answers do not distinguish priors, either. (Pages are used as pairs
            # then.)
            chosen = fallback(trials) if answers.tested else most_agreeing(answers, trials, options)
            why = _UNCLEAR
        return PriorComparison(
            self.data,
            trials,
            chosen,
            why,
            is_clear=is_clear,
            chance=float(chance.mean()),
            is_tested=answers.tested,
        )

    def fit(self, *, num_starts: int = 1, seed: int = 0, **changes: Any) -> Fitted:
        """Choose, then fit to all answers.

        Parameters
        ----------
        num_starts, seed, changes
            As in ``Recipe.fit``.

        Raises
        ------
        ValueError
            As in ``fit``, and if ``num_starts`` is below 1.
        """
        seeds_of(num_starts, seed)
        check_values(self.data, changes)
        options = changes | {"epochs": changes.get("epochs") or EPOCHS}
        comparison = self._comparison(seed, options["epochs"])

        # A checkpoint belongs to one fit.
        kept = {name: value for name, value in changes.items() if name != "checkpoint"}

        def fitted_to_all(comparison: PriorComparison, **own: Any) -> Fitted:
            recipe, chosen = comparison.outcome()
            result = recipe.fit(num_starts=num_starts, seed=seed, **options | own)
            again = SearchTraining(self.share, num_starts, kept, comparison.kept())
            return replace(result, chosen=chosen, train_on=again)

        fitted = fitted_to_all(comparison)
        if not comparison.chosen.holds_in(fitted) and not is_interrupted(fitted):
            fitted = self._by_another(comparison, fitted, fitted_to_all, seed, options["epochs"])
        return replace(fitted, stop_reason=INTERRUPTED) if comparison.interrupted else fitted

    def _by_another(
        self,
        comparison: PriorComparison,
        fitted: Fitted,
        fitted_to_all: Callable[..., Fitted],
        seed: int,
        epochs: int,
    ) -> Fitted:
        """The fit under another prior, as the chosen one does not hold in ``fitted``; or guesses.

        Another prior was not chosen by the answers that its trials held out, and it is one of
        several. So it must predict others, too, clearly better than chance: many tiny clusters
        agree with answers whether or not there are such clusters. If there are priors that do not,
        and none that does and holds, the first prior is taken, whose clusters are guesses.
        """
        refuted = None
        for other in comparison.others():
            try:
                if not self._predicts_more(other, seed, epochs):
                    refuted = refuted or other
                    continue
            except KeyboardInterrupt:
                return replace(fitted, stop_reason=INTERRUPTED)
            # A checkpoint belongs to the first fit.
            latest = fitted_to_all(other, checkpoint=None)
            if other.chosen.holds_in(latest):
                return latest
            if is_interrupted(latest):
                return fitted
        if refuted is None:
            return fitted
        return fitted_to_all(comparison.without_support(refuted.chosen), checkpoint=None)

    def _predicts_more(self, comparison: PriorComparison, seed: int, epochs: int) -> bool:
        """Whether the chosen prior predicts answers that were in no held-out part so far.

        True where no prior could predict any, where none are left, and after Ctrl-C.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        chosen = comparison.chosen
        answers, sizes = chosen.answers, (self.share, _MAX_PARTS)
        number = len(answers.parts(*sizes, generator_of(seed)))
        more = answers.parts(*sizes, generator_of(seed), begin=number)
        if not comparison.is_clear or comparison.interrupted or not more:
            return True
        options = {"seed": seed, "epochs": min(epochs, TRIAL_EPOCHS), "progress": False}
        trial = trial_of(answers, more, chosen.prior, options)
        if not trial.is_whole:
            raise KeyboardInterrupt
        return is_clearly_better(trial.log_probabilities, answers.by_chance(more), CLEAR)


def _try_all(answers: KindOfAnswers, attempt: Attempt) -> None:
    """Try all priors.

    Where people were asked about similar pairs, as for records, there are mostly many small
    clusters: that prior is tried first, for the case of Ctrl-C.
    """
    first = _OF_RECORDS if answers.look_alike else next(iter(answers.priors))
    for prior in sorted(answers.priors, key=lambda prior: prior != first):
        attempt(prior, answers)


def _warn_of_untried(data: CrowdData, trials: list[PriorTrial], chosen: PriorTrial) -> None:
    """Warn of the priors that Ctrl-C left untried."""
    priors = kind_of_answers(data).priors
    missed = [prior for prior in priors if prior not in {trial.prior for trial in trials}]
    if missed:
        warn(
            f"the search was interrupted before these priors were tried: {listed(missed)}. One of "
            f"them may find much better clusters than {show(chosen.prior)}, which is used: fit "
            "again, to the end"
        )


@dataclass(frozen=True)
class SearchTraining(FurtherTraining):
    """Continues a fit of ``AnswersAlone``, for ``Fitted.update``; can be saved.

    An update keeps the prior that was chosen as long as new answers bear the choice out
    (``KeptPrior``). Otherwise ``AnswersAlone.fit`` is called again with the same arguments.

    Attributes
    ----------
    share
        Share of the answers that is held out.
    num_starts, options
        As in ``AnswersAlone.fit``.
    kept
        What was chosen; None if the search was interrupted, or to choose in every update.

    Examples
    --------
    >>> pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    >>> again = SearchTraining(share=0.5, num_starts=1, options={"epochs": 2, "progress": False})
    >>> again(None, None, CrowdData(None, pairs=pairs)).data.num_items
    3
    """

    share: float
    num_starts: int
    options: dict[str, Any]
    kept: KeptPrior | None = None

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """Those of ``AnswersAlone.fit``."""
        return TrainingOptions.option_names() | {"num_starts"}

    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> Fitted:
        """Search and fit with these options, updated by ``changes``."""
        return AnswersAlone(data, self.share).fit(**self._options(changes))

    def own_update(self, result: Fitted, data: CrowdData, **changes: Any) -> Fitted:
        """The fit to these data under the prior that was chosen, or else after another search."""
        changes = {"seed": result.seed} | changes
        options = self._options(changes)
        # A checkpoint belongs to the fit after a search.
        if self.kept is not None and options.get("checkpoint") is None:
            fitted = self.kept.fit(result, data, **options)
            if fitted is not None:
                return replace(fitted, chosen=result.chosen, train_on=self)
        return self(None, None, data, **changes)

    def _options(self, changes: dict[str, Any]) -> dict[str, Any]:
        options = {"num_starts": self.num_starts} | self.options | changes
        return options | {"epochs": options.get("epochs") or EPOCHS}
