"""``choice_for``: chooses the model of clusters that suits the features and the answers best.

Candidates differ in the coordinates of the features (standardized, made symmetric, principal
directions), in the model of clusters (Gaussian components with full or diagonal covariances, or a
regression that is learned from the answers only), and in the number of components. They are
compared by how well they predict answers about items whose answers were held out of the fit; and
where answers do not distinguish candidates, or there are none, by the ELBO, in the units of the
features for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.errors import check_whole, warn, warnings_once
from pyro_crowdclust.interface.about_data import (
    are_many_more,
    as_answered,
    is_supervised,
    num_answers,
)
from pyro_crowdclust.interface.answers_alone.partition_search import AnswersAlone
from pyro_crowdclust.interface.answers_alone.records import may_be_records
from pyro_crowdclust.interface.candidates.coordinates import sample_of
from pyro_crowdclust.interface.candidates.deviating import about_deviating
from pyro_crowdclust.interface.candidates.missing_codes import warn_about_codes
from pyro_crowdclust.interface.candidates.suited_forms import forms_for
from pyro_crowdclust.interface.choosing.changes import changes_of, with_changes
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.complete_fits import fit_completely
from pyro_crowdclust.interface.choosing.corrections import corrected
from pyro_crowdclust.interface.choosing.deciding import decide
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.other_numbers import (
    about_other_numbers,
    doubt_by_other_numbers,
)
from pyro_crowdclust.interface.choosing.other_view import (
    OtherView,
    evidence_by,
    find_other_view,
)
from pyro_crowdclust.interface.choosing.reasons import (
    RECORDS,
    about_left_out,
    because,
    choice_of,
    with_reason,
)
from pyro_crowdclust.interface.choosing.rereading import RateWorkers
from pyro_crowdclust.interface.choosing.search_space import SIZES, SearchSpace
from pyro_crowdclust.interface.choosing.shared_mistakes import (
    SharedMistakes,
    find_shared_mistakes,
)
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.option_checks import check_no_checkpoint
from pyro_crowdclust.interface.recipe import seeds_of
from pyro_crowdclust.interface.searches import table_of
from pyro_crowdclust.protocols import Model
from pyro_crowdclust.results import Chosen, UpdateStep, step_of, with_step
from pyro_crowdclust.results.chosen import INTERRUPTED
from pyro_crowdclust.training import is_interrupted
from pyro_crowdclust.training.argument_checks import check_data
from pyro_crowdclust.training.option_checks import check_values

# Options of a first call with which an update does not choose again.
_NOT_KEPT = "device", "initialize"


@dataclass(frozen=True)
class Choice(SearchSpace):
    """The candidates for some data, of which ``fit`` chooses one; they can be changed before.

    Its fields are those of a ``SearchSpace``.
    """

    @warnings_once()
    def fit(
        self, *, num_starts: int = 3, seed: int = 0, progress: bool = True, **changes: Any
    ) -> Fitted:
        """Choose a candidate, then fit it to all data from several starts.

        Where two workers make the same mistakes (``find_shared_mistakes``), these answers are left
        out, and the two are rated by all of theirs.

        Parameters
        ----------
        num_starts
            Number of starts from the features, with seeds ``seed``, ``seed + 1``, ... If there are
            answers, one start from the answers is added; if there are only known labels, one from
            these; if there is no supervision, one from the candidate takes the place of the last
            of several, and, if some columns hold yes/no or categories, one from the other columns
            is added. The fit with the largest ELBO is kept.
        seed
            Seed of starts, items and splits.
        progress
            Show which candidate is being tried.
        changes
            Options of ``fit`` that replace those of the recipe.

        Raises
        ------
        ValueError
            As in ``fit``, if ``num_starts`` is below 1, and for a checkpoint.
        """
        check_values(self.data, changes)
        check_no_checkpoint(changes)
        shared = find_shared_mistakes(self.data, seed)
        if shared is not None:
            fitted = self._without_shared(shared, num_starts, seed, progress, changes)
        else:
            fitted = self._chosen(num_starts, seed, progress, changes)
        kept = {name: value for name, value in changes.items() if name not in _NOT_KEPT}
        number, own = num_answers(self.data), (int(num_starts), int(seed), kept)
        again = ChooseAgain(number, self.num_clusters, *own, changes_of(self))
        return again.after(fitted)

    def _without_shared(
        self,
        shared: SharedMistakes,
        num_starts: int,
        seed: int,
        progress: bool,
        changes: dict[str, Any],
    ) -> Fitted:
        """The fit without the mistakes that two workers share, who are rated by all answers."""
        kept = replace(self, data=shared.left_out_of(self.data))
        fitted = kept._chosen(num_starts, seed, progress, changes)
        said = shared.sentence(self.data)
        chosen = with_reason(fitted.chosen, f"{said}, which are left out")
        fitted = replace(fitted, chosen=replace(chosen, shared_mistakes=said))
        if is_interrupted(fitted):
            return fitted
        left_out = RateWorkers.of(self.data, shared.rows_of(self.data))
        return left_out.beside(step_of(fitted, RateWorkers)).after(fitted)

    def _chosen(
        self, num_starts: int, seed: int, progress: bool, changes: dict[str, Any]
    ) -> Fitted:
        seeds = seeds_of(num_starts, seed)
        search = Search(self, seed, progress)
        decision = decide(search)
        options = {"progress": progress} | changes
        if decision.are_records:
            of_answers = AnswersAlone(self.data).fit(seed=seed, **options)
            return replace(of_answers, chosen=because(RECORDS, of_answers.chosen))
        best, chosen = decision.trial, _chosen_by(search, decision)
        recipe = best.form.recipe(self.of(best.uses_answers).distinct, best.num_components)
        chosen = _with_columns(chosen, recipe.model, self.data)
        found = corrected(fit_completely(search, decision, recipe, chosen, seeds, options))
        if is_interrupted(found.fitted):
            return found.fitted
        fitted = _with_other_numbers(search, found.best, found.fitted)
        try:
            view = find_other_view(search, best, fitted)
        except KeyboardInterrupt:
            return replace(fitted, stop_reason=INTERRUPTED)
        if view is not None:
            chosen = replace(choice_of(fitted), other_view=view.advice)
            fitted = replace(fitted, chosen=chosen)
            if view.has_most_answers:
                return self._of_most_answers(fitted, view, num_starts, seed, progress, changes)
        if not found.has_one_cluster:
            return fitted
        alternative = self._alternative_to_one_cluster(
            found.best, search.candidates.num_near_copies
        )
        if alternative is None:
            return fitted
        instead, why = alternative
        again = partial(instead._chosen, num_starts, seed, progress, changes)
        return _fit_or_keep(fitted, again, why)

    def _of_most_answers(
        self,
        fitted: Fitted,
        view: OtherView,
        num_starts: int,
        seed: int,
        progress: bool,
        changes: dict[str, Any],
    ) -> Fitted:
        """What is chosen by the workers who gave most answers, if it explains all answers better.

        The others are rated by its clusters.
        """
        rows = view.others(self.data)
        kept = replace(self, data=self.data.without_pairs(rows))
        again = partial(kept._chosen, num_starts, seed, progress, changes)
        why = f"{view.sentence}, so that the answers of all others are left out"
        found = _fit_or_keep(fitted, again, why)
        if is_interrupted(found):  # the first fit
            return found
        if not choice_of(found).uses_answers:
            return fitted
        chosen = replace(choice_of(found), other_view=view.advice_of_others(self.data))
        rated = RateWorkers.of(self.data, rows).after(replace(found, chosen=chosen))
        return rated if evidence_by(rated, self.data) > evidence_by(fitted, self.data) else fitted

    def _alternative_to_one_cluster(
        self, best: Trial, num_near_copies: int
    ) -> tuple[Choice, str] | None:
        """The choice to use where features show one cluster, and why; None to keep it at one."""
        if num_near_copies:
            return (
                self.with_near_copies(),
                "without near-copies there is one cluster, so they are kept",
            )
        if best.uses_answers:
            return None
        # Only answers can split a single cluster, and they cannot make it worse.
        why = "the features alone show one cluster, so the answers are used"
        return replace(self, by_features=None), why


def _chosen_by(search: Search, decision: Decision) -> Chosen:
    """How a search has chosen."""
    reason, num_near_copies = decision.reason, search.candidates.num_near_copies
    if num_near_copies:
        reason += f"; {num_near_copies} near-copies of items were left out"
    table = table_of(search.tried(decision.without), decision.trial)
    chance = search.chance_of(decision)
    return Chosen(table, reason, chance, most_components=search.space.max_clusters)


def _with_columns(chosen: Chosen, model: Model, data: CrowdData) -> Chosen:
    """The choice, with what its model leaves out of the data in its reason."""
    left_out = about_left_out(model, data) + about_deviating(model, data)
    return replace(chosen, reason=chosen.reason + left_out)


def _with_other_numbers(search: Search, best: Trial, fitted: Fitted) -> Fitted:
    """The fit, with what is said of other numbers of components that would do about as well."""
    said = about_other_numbers(search, best, fitted)
    chosen = replace(choice_of(fitted), other_number=said)
    return replace(fitted, chosen=chosen, doubt=doubt_by_other_numbers(search, best, fitted))


def _fit_or_keep(fitted: Fitted, other: Callable[[], Fitted], why: str) -> Fitted:
    """Another fit, with the reason for it; the first one if Ctrl-C ends the other."""
    try:
        found = other()
    except KeyboardInterrupt:
        return replace(fitted, stop_reason=INTERRUPTED)
    if is_interrupted(found):
        return replace(fitted, stop_reason=found.stop_reason)
    return replace(found, chosen=because(why, found.chosen))


@warnings_once()
def choice_for(data: CrowdData, *, num_clusters: int | None = None) -> Choice:
    """The candidate models that suit some data.

    Parameters
    ----------
    data
        Items with features, and answers, if there are any.
    num_clusters
        An upper bound on the number of clusters; None leaves it to the data. Without answers it
        bounds the components, too; with answers, a cluster may own several.

    Raises
    ------
    ValueError
        If the data have no features, or the bound is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> blobs = rng.normal(size=(90, 2)) + 9 * (np.arange(90) % 3)[:, None]
    >>> choice = choice_for(CrowdData(blobs))
    >>> len(choice.forms), choice.forms[-1].kind, choice.forms[-1].features
    (8, "full Student's t", 'powers')
    >>> result = choice.fit(num_starts=1, progress=False)
    >>> len(np.unique(result.assignments))
    3
    >>> result.chosen.reason
    'largest ELBO of 23 candidates; nothing held out'
    """
    check_data(data)
    rows = sample_of(data)
    _warn_if_constant(rows)
    warn_about_codes(data, rows)
    data = as_answered(data)
    forms, least = forms_for(data), data.num_known_classes
    # Answers and links relate items, which makes no sense if there is a single cluster.
    related = data.has_answers or data.links is not None
    if num_clusters is None:
        least = max(least, min(data.num_items, 2) if related else 1)
        sizes = [size for size in SIZES if least <= size < data.num_items] or [least]
    else:
        check_whole("num_clusters", num_clusters, least=1)
        least = max(least, 2 if related else 1)
        sizes = [size for size in SIZES if least <= size < num_clusters] + [num_clusters]
        if data.has_answers and num_clusters >= least:
            forms = tuple(replace(form, max_clusters=num_clusters) for form in forms)
            sizes += [size for size in SIZES if num_clusters < size < data.num_items]
    first_size = max(size for size in sizes if size <= max(8, sizes[0]))
    choice = Choice(data, forms, sizes, first_size, num_clusters)
    if data.has_answers and not is_supervised(data):
        unanswered = data.with_answers(None).with_parts(placements=None)
        choice = replace(
            choice,
            may_be_records=num_clusters is None and may_be_records(data),
            by_features=choice_for(unanswered, num_clusters=num_clusters),
        )
    return replace(choice, made=choice)


def _warn_if_constant(rows: Float[Tensor, "item feature"]) -> None:
    """Warn if all items have the same features."""
    if len(rows) > 1 and bool(((rows == rows[0]) | rows.isnan()).all()):
        warn(
            "no column varies, so the features say nothing about the items: pass columns in which "
            "they differ"
        )


@dataclass(frozen=True)
class ChooseAgain(UpdateStep):
    """An update chooses again among all candidates once there are twice as many answers.

    What was chosen with few answers, or none, may be too simple for what people see: the number of
    clusters, the weight of the features, and which workers are left out.

    Attributes
    ----------
    num_answers
        Number of answers with which the model was chosen.
    num_clusters
        The bound that was given; None if there was none.
    num_starts, seed, options
        As for ``Choice.fit``. The seed of a result is that of the best of several starts.
    changes
        What was changed about the choice before (``changes_of``).
    """

    num_answers: int
    num_clusters: int | None
    num_starts: int
    seed: int
    options: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    def after(self, result: Fitted) -> Fitted:
        """The result, whose updates may choose again."""
        return with_step(result, self)

    def own_update(self, result: Fitted, data: CrowdData, **changes: Any) -> Fitted | None:
        """What the first call would return for these data; None if answers are not twice as many.

        The choice has the same changes as the first one.

        Parameters
        ----------
        result
            The result that is updated.
        data
            Its items and answers, and new ones.
        changes
            Options that replace those of the first call.
        """
        if not are_many_more(data, self.num_answers):
            return None
        left_out = step_of(result, RateWorkers)
        data = data if left_out is None else left_out.all_answers(data)
        choice = with_changes(choice_for(data, num_clusters=self.num_clusters), self.changes)
        own = {"num_starts": self.num_starts, "seed": self.seed}
        return choice.fit(**own | {**self.options} | changes)
