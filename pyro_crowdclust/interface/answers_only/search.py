"""Clusters from answers alone: which sizes clusters have is chosen by answers held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.interface.answers_only.kinds import (
    EPOCHS,
    AnswersOnly,
    items_with_answers,
    kind_of_answers,
)
from pyro_crowdclust.interface.answers_only.records import takes_likeness_of_features
from pyro_crowdclust.interface.answers_only.trials import (
    CLEAR,
    PriorTrial,
    most_agreeing,
    simplest,
    trial_of,
    varied,
)
from pyro_crowdclust.interface.recipe import Recipe, seeds_of
from pyro_crowdclust.results.chosen import INTERRUPTED, Chosen
from pyro_crowdclust.results.comparison import is_clearly_better
from pyro_crowdclust.results.further_training import FurtherTraining
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.isolation import generator_of
from pyro_crowdclust.training.options import check_values

# Sweeps of a fit that is only compared with another, at most.
TRIAL_EPOCHS = 60
_MAX_PARTS = 5
# Of clusters that are too many .05 of the answers about random pairs and more say otherwise, of
# records .02 at most. What looks alike is many clusters, unless answers deny it more often.
_AS_CLOSE, _AS_CLOSE_ALIKE = 0.03, 0.1
_UNCLEAR = "under no prior are answers held out clearly likelier than by the shares of the labels"
_GUESSES = (
    "there are too few answers to tell which items are the same, more are needed, and the "
    "clusters, {prior}, are guesses"
)
_ONE_CLUSTER = (
    "either all items are one cluster, as is found, or there are too few answers to tell them "
    "apart, and more are needed"
)

_ON_FEW_PAGES = (
    "items are on fewer than two pages on average, by which nothing tells whether a sorter looked: "
    "all are heard by their pairs, and workers may look better than they are"
)
_BY_PAIRS = "pages held out are hardly likelier than by chance, and all are heard by their pairs"


class _Compared(NamedTuple):
    """What was tried, and what is to be fitted; the rest as of ``Chosen``."""

    data: CrowdData
    tried: list[PriorTrial]
    chosen: PriorTrial
    why: str
    chance: float | None
    is_clear: bool
    interrupted: bool = False

    def outcome(self) -> tuple[Recipe, Chosen]:
        """The recipe of what is chosen on all data, and how it was chosen."""
        rows = [(t.name, t.held_out, t.clusters, t.seconds, t is self.chosen) for t in self.tried]
        table = pd.DataFrame(rows, columns=["prior", "held_out", "clusters", "seconds", "chosen"])
        answers = self.chosen.answers.about(self.data)
        recipe = answers.recipe(answers.priors[self.chosen.prior]())
        return recipe, Chosen(table, self.why, self.chance, self.is_clear)

    def others(self) -> Iterator[_Compared]:
        """The same with each of the others that tell and say as many answers, the likeliest first.

        For where a fit to all answers has other clusters than those that were compared.
        """
        others = [
            trial
            for trial in self.tried
            if trial.tells
            and self.chosen.says_no_more_than(trial.agreement)
            and trial is not self.chosen
        ]
        for other in sorted(others, key=lambda trial: -trial.held_out):
            why = (
                f"{self.why}; with all answers the clusters under {self.chosen.name} are others, "
                f"which say less of what people said, and {other.name} is taken"
            )
            yield self._replace(chosen=other, why=why)


@dataclass(frozen=True)
class AnswersAlone:
    """Priors of the sizes of clusters, ready to be compared by answers held out.

    Attributes
    ----------
    data
        Items and answers about pairs of them, or sorted pages. Features say how alike the two items
        of a pair are, unless ``likeness`` does; of pages they say nothing.
    share
        Share of the answers, or pages, that are held out.
    """

    data: CrowdData
    share: float = 0.1

    def run(self, *, seed: int = 0, epochs: int = EPOCHS) -> tuple[Recipe, Chosen]:
        """Compare the priors; the recipe of the best on all data, and how it was chosen.

        Parameters
        ----------
        seed
            Of the answers that are held out, and of the fits.
        epochs
            Sweeps of the fit to come: those that are compared have no more.

        Raises
        ------
        ValueError
            If every answer is "can't tell".
        """
        return self._searched(seed, epochs).outcome()

    def _searched(self, seed: int, epochs: int) -> _Compared:
        """All that was compared, until Ctrl-C.

        Pages of which held-out ones are hardly likelier than by chance are heard by their pairs. On
        pages of a few items most are the first of their cluster, which may lie in any group; that
        two of them lie apart is an answer about a pair alone. So are pages that share no items.
        """
        if self.data.placements is not None and not self.data.placements.share_items:
            return self._by_pairs(_ON_FEW_PAGES, seed, epochs)
        search = self._compared(seed, epochs)
        if self.data.placements is None or search.is_clear:
            return search
        return self._by_pairs(_BY_PAIRS, seed, epochs)

    def _by_pairs(self, why: str, seed: int, epochs: int) -> _Compared:
        search = replace(self, data=self.data.as_pairs())._searched(seed, epochs)
        return search._replace(why=f"{why}; {search.why}")

    def _compared(self, seed: int, epochs: int) -> _Compared:
        if self.data.answers is not None and bool(self.data.answers.label.isnan().all()):
            raise ValueError(
                'every answer is "can\'t tell", which says of no two items whether they are the '
                "same: pass answers with labels, or features"
            )
        tried: list[PriorTrial] = []
        try:
            return _Compared(
                self.data, tried, *self._compare(tried, seed, min(epochs, TRIAL_EPOCHS))
            )
        except KeyboardInterrupt:
            if not tried:
                raise
            chosen = max(tried, key=lambda trial: trial.held_out)
            why = f"best of {len(tried)} priors when the search was interrupted"
            return _Compared(self.data, tried, chosen, why, None, is_clear=True, interrupted=True)

    def _compare(
        self, tried: list[PriorTrial], seed: int, epochs: int
    ) -> tuple[PriorTrial, str, float, bool]:
        """The best prior, why, what chance knows of the answers and whether that is clearly less.

        Notes what it tries.
        """
        answers = kind_of_answers(items_with_answers(self.data))
        generator = generator_of(seed)
        parts = answers.parts(self.share, _MAX_PARTS, generator)
        options = {"seed": seed, "epochs": epochs, "progress": False}

        def attempt(prior: str, answers: AnswersOnly) -> PriorTrial:
            trial = trial_of(answers, parts, prior, options)
            # Of the first of all what there is until Ctrl-C, of others only what is whole.
            if trial.is_whole or not tried:
                tried.append(trial)
            if not trial.is_whole:
                raise KeyboardInterrupt
            return trial

        for prior in answers.priors:
            attempt(prior, answers)
        # Where what a pair looks like is no matter of what it is, answers are predicted, and no
        # question is answered.
        telling = [trial for trial in tried if trial.tells] or tried
        likeliest = max(telling, key=lambda trial: trial.held_out)
        chance = answers.by_chance(parts)
        is_clear = is_clearly_better(likeliest.log_probabilities, chance, CLEAR)
        if is_clear:
            as_close = _AS_CLOSE_ALIKE if answers.look_alike else _AS_CLOSE
            chosen = simplest(telling, likeliest, as_close)
            reason = f"answers held out are likeliest under {chosen.prior}"
            if chosen is not likeliest:
                simpler = (
                    "with no more clusters"
                    if chosen.effective <= likeliest.effective
                    else "where far fewer pairs are one cluster that nobody was asked about"
                )
                reason = (
                    f"answers held out are about as likely under {chosen.prior} as under "
                    f"{likeliest.prior}, {simpler}"
                )
            if len(telling) < len(tried):
                silent = [trial.prior for trial in tried if not trial.tells]
                reason += f"; under {' and '.join(silent)} next to no items would be the same"
            # What else items may be is asked under one prior only. Items that are alike are a case
            # of hard ones, so that these have nothing to prove, but where features say how alike
            # items are.
            errors = 1.0 if takes_likeness_of_features(self.data) else 0.0
            chosen, likelier_if = varied(chosen, attempt, errors)
            reason += likelier_if
        else:
            # Then they cannot tell priors apart, either. Pages are heard by their pairs, instead.
            are_pairs = self.data.placements is None
            chosen = most_agreeing(answers, tried, options) if are_pairs else tried[0]
            of_many = _GUESSES.format(prior=chosen.prior)
            reason = f"{_UNCLEAR}: {of_many if chosen.clusters > 1 else _ONE_CLUSTER}"
        return chosen, reason, float(chance.mean()), is_clear

    def fit(self, *, num_starts: int = 1, seed: int = 0, **changes: Any) -> Fitted:
        """Choose, then fit to all answers.

        Parameters
        ----------
        num_starts, seed, changes
            As of ``Recipe.fit``.

        Raises
        ------
        ValueError
            As ``fit`` does, and for a number of starts below 1.
        """
        seeds_of(num_starts, seed)
        check_values(self.data, **changes)
        options = changes | {"epochs": changes.get("epochs") or EPOCHS}
        search = self._searched(seed, options["epochs"])

        def fitted_to_all(search: _Compared, **own: Any) -> Fitted:
            recipe, chosen = search.outcome()
            result = recipe.fit(num_starts=num_starts, seed=seed, **options | own)
            return replace(result, chosen=chosen)

        fitted = latest = fitted_to_all(search)
        if not search.chosen.holds_in(fitted):
            for other in search.others():
                if is_interrupted(latest):
                    break
                latest = fitted_to_all(other, checkpoint=None)  # a checkpoint is of the first
                if other.chosen.holds_in(latest):
                    fitted = latest
                    break
        if search.interrupted:
            fitted = replace(fitted, stop_reason=INTERRUPTED)
        again = SearchOptions(self.share, num_starts, changes)
        return replace(fitted, train_on=again)


@dataclass(frozen=True)
class SearchOptions(FurtherTraining):
    """``AnswersAlone.fit`` as it was called, for ``Fitted.update``; a file can hold it.

    With more answers other sizes of clusters may be likelier, so that nothing is kept of the fit.

    Attributes
    ----------
    share
        Share of the answers that are held out.
    num_starts, options
        As of ``AnswersAlone.fit``.

    Examples
    --------
    >>> pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    >>> again = SearchOptions(share=0.5, num_starts=1, options={"epochs": 2, "progress": False})
    >>> again(None, None, CrowdData(None, pairs=pairs)).data.num_items
    3
    """

    share: float
    num_starts: int
    options: dict[str, Any]

    @classmethod
    def option_names(cls) -> frozenset[str]:
        """Those of ``AnswersAlone.fit``."""
        return TrainingOptions.option_names() | {"num_starts"}

    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> Fitted:
        """Search and fit with these options, but for changes."""
        options = {"num_starts": self.num_starts} | self.options | changes
        return AnswersAlone(data, self.share).fit(**options)
