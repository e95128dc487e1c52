"""Which candidates are tried: every form once, and the best with more and fewer components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyro_crowdclust.errors import count
from pyro_crowdclust.interface.candidates.forms import Form
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.trials import (
    EQUAL_ERRORS,
    Trial,
    elbo_error,
    worth_another_split,
)
from pyro_crowdclust.interface.choosing.trying import Candidates

# Number of forms that are tried with other numbers of components.
_BEST_FORMS = 2
# Fewer components are not tried further once an ELBO is lower by so many standard errors.
_CLEAR_LOSS = 2.0
# Without supervision, the first fits of so many forms start again from a larger one.
_FORMS_AGAIN = 4


def best_of(candidates: Candidates) -> Decision:
    """Try the candidates; returns the best of them."""
    with candidates.bar:
        first = first_trials(candidates)
        if candidates.are_of_features:
            return best_of_features(candidates, first)
        for of_features in (True, False):
            same_sort = [trial for trial in first if trial.form.of_features == of_features]
            for rank, trial in enumerate(best_of_each_form(candidates, same_sort)[:_BEST_FORMS]):
                if of_features or trial.clusters == trial.num_components:
                    climb(candidates, trial, 1)
                climb(candidates, trial, -1, to_end=rank == 0 and not candidates.splits)
        if candidates.splits:
            return best_by_answers(candidates)
        return candidates.ranking.by_elbo(candidates.trials)


def best_of_features(candidates: Candidates, first: Sequence[Trial]) -> Decision:
    """The best candidate without supervision, by the ELBO alone.

    A single start may end in a poor optimum: then luck would decide on the form, and on how many
    components are needed. So fits with fewer components start at the larger ones, too.
    """
    size, in_order = candidates.space.first_size, candidates.ranking.in_order
    for trial in in_order(first)[:_FORMS_AGAIN]:
        candidates.try_again(trial.form, size)
    again = [trial for trial in candidates.trials if trial.num_components == size]
    for rank, trial in enumerate(in_order(again)[:_BEST_FORMS]):
        climb(candidates, trial, 1)
        try_fewer(candidates, trial.form, to_end=rank == 0)
    return candidates.ranking.by_elbo(candidates.trials)


def first_trials(candidates: Candidates) -> list[Trial]:
    """Every form with its first numbers of components; heavy tails for the best kind without."""
    space = candidates.space
    forms = [form for form in space.forms if form.of_features or candidates.splits]

    def try_all(forms: Iterable[Form]) -> list[Trial]:
        return [
            candidates.try_out(form, size) for form in forms for size in space.first_sizes_of(form)
        ]

    tried = try_all(form for form in forms if form.heavier_than is None)
    best = candidates.ranking.in_order([trial for trial in tried if trial.form.of_features])
    kind = best[0].form.kind if best else None
    heavy = [form for form in forms if form.heavier_than is not None]
    return tried + try_all(form for form in heavy if kind in (form.heavier_than, None))


def best_of_each_form(candidates: Candidates, trials: Sequence[Trial]) -> list[Trial]:
    """The best trial of every form, best first."""
    found: dict[Form, Trial] = {}
    for trial in candidates.ranking.in_order(trials):
        found.setdefault(trial.form, trial)
    return [*found.values()]


def climb(candidates: Candidates, trial: Trial, direction: int, to_end: bool = False) -> None:
    """Try more and more (or fewer and fewer) components until there were two losses in a row.

    With held-out answers, one loss ends it. Fewer components that do as well are no loss; fewer
    that are clearly worse end it at once. ``to_end`` tries all numbers, as ELBOs of single starts
    go up and down where there are many columns. What was tried is not tried again.
    """
    sizes = list(candidates.space.sizes_of(trial.form))
    place, best, losses = sizes.index(trial.num_components), trial, 0
    stride = 2 if candidates.splits else 1
    while to_end or losses < (1 if candidates.splits else 2):
        place += direction * stride
        if not 0 <= place < len(sizes):
            return
        found = candidates.try_out(trial.form, sizes[place])
        # A regression that leaves clusters empty does not need more of them.
        to_spare = not trial.form.of_features and found.clusters < found.num_components
        if direction > 0 and to_spare:
            return
        if candidates.ranking.is_better(found, best, direction):
            best, losses = found, 0
            continue
        loss, error = best.elbo - found.elbo, elbo_error(best, found)
        if direction < 0 and loss > _CLEAR_LOSS * error > 0 and not to_end:
            return
        losses = 0 if direction < 0 and loss <= error else losses + 1


def try_fewer(candidates: Candidates, form: Form, to_end: bool) -> None:
    """Try all smaller numbers of components, each from the next larger one that was tried.

    Unless it goes ``to_end``, it stops where one is clearly worse than the best of its form.
    """
    tried = _by_number(candidates, form)
    larger = max(tried)
    for size in sorted((size for size in candidates.space.sizes if size < larger), reverse=True):
        candidates.try_joined(form, size, larger)
        larger, tried = size, _by_number(candidates, form)
        best = max(tried.values(), key=lambda trial: trial.elbo)
        loss, error = best.elbo - tried[size].elbo, elbo_error(best, tried[size])
        if loss > _CLEAR_LOSS * error > 0 and not to_end:
            return


def _by_number(candidates: Candidates, form: Form) -> dict[int, Trial]:
    """The trials of one form, by their numbers of components."""
    return {one.num_components: one for one in candidates.trials if one.form == form}


def best_by_answers(candidates: Candidates) -> Decision:
    """The best by held-out answers; among those that these do not distinguish, by the ELBO."""
    ranking = candidates.ranking
    for number in range(1, len(candidates.splits)):
        rivals = ranking.rivals(candidates.trials)
        if len(rivals) == 1:
            break
        for trial in worth_another_split(rivals):
            again = candidates.try_out(trial.form, trial.num_components, number)
            found = [one.by_weight for one in (trial, again) if one.by_weight is not None]
            both, seconds = AtWeights.of_all(found), trial.seconds + again.seconds
            candidates.exchange(trial, replace(trial, by_weight=both, seconds=seconds))
    rivals = ranking.rivals(candidates.trials, errors=EQUAL_ERRORS)
    first = max(rivals, key=lambda trial: trial.score)
    same_sort = [one for one in rivals if one.form.of_features == first.form.of_features]
    best = ranking.largest_elbo(same_sort) if first.form.of_features else first
    sentence = candidates.splits[0].sentence(best.score)
    if len(rivals) == 1:
        return Decision(best, f"{sentence}, better than by any other candidate")
    if not first.form.of_features:
        others = count(len(rivals) - 1, "other candidate")
        do = "do" if len(rivals) > 2 else "does"
        return Decision(best, f"{sentence}; {others} {do} about as well")
    return Decision(
        best,
        f"{sentence}; of {len(same_sort)} candidates that do as well it has the largest ELBO",
    )
