"""Which candidates are tried, and which of them is the best."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.climbing import best_by_answers, best_of
from pyro_crowdclust.interface.choosing.trials import Trial, worth_another_split
from pyro_crowdclust.interface.choosing.trying import Candidates
from pyro_crowdclust.pooling.comparison import error_of

from ..small_choices import (
    answered,
    small,
    two_rings,
)


@pytest.fixture(autouse=True, scope="module")
def _short_searches(_few_draws):
    """Not here, where how a search goes is what is tested."""


def trial(form, number: int, elbo: float, answers: np.ndarray) -> Trial:
    return Trial(form, number, elbo, AtWeights(answers[None]), number, 0.0)


def test_answers_that_cannot_tell_leave_it_to_the_elbo():
    features, ring = two_rings(60)
    choice = small(answered(features, ring, 60), 3)
    candidates = Candidates(choice, 0, False)
    number = len(candidates.splits[0].held_out.label)
    rng = np.random.default_rng(0)
    held = rng.normal(size=number)
    best = trial(choice.forms[0], 2, 1.0, held)
    alike = trial(choice.forms[0], 3, 2.0, held - 0.01 + rng.normal(size=number))
    worse = trial(choice.forms[0], 4, 3.0, held - 2.0 + 0.1 * rng.normal(size=number))
    assert candidates.ranking.in_order([best, alike, worse]) == [alike, best, worse]
    assert candidates.ranking.rivals([best, alike, worse]) == [best, alike]
    many = [trial(choice.forms[0], 2, elbo, held - 0.001 * elbo) for elbo in range(9)]
    assert [one.elbo for one in worth_another_split(many)] == [0, 8, 7, 6]


def try_so(monkeypatch, try_out) -> None:
    """Try candidates so; those that start at others are no better."""

    def try_joined(self, form, number, larger):
        assert self.place_of(form, larger) is not None
        if self.place_of(form, number) is None:
            self.try_out(form, number)

    monkeypatch.setattr(Candidates, "try_out", try_out)
    monkeypatch.setattr(Candidates, "try_joined", try_joined)
    monkeypatch.setattr(Candidates, "try_again", lambda self, form, number: None)


def of_features(monkeypatch, elbos, error: float = 0.1) -> Candidates:
    """Candidates whose ELBOs are given, with so large an error of their differences."""

    def try_out(self, form, number, split=0):
        rng = np.random.default_rng([number, len(self.trials)])
        values = rng.normal(size=400)
        values = (values - values.mean()) / values.std() * error * 20 / np.sqrt(2)
        found = Trial(form, number, elbos(form, number), None, number, 0.0, values)
        self.trials.append(found)
        return found

    try_so(monkeypatch, try_out)
    choice = choice_for(CrowdData(np.random.default_rng(0).normal(size=(100, 3))))
    return Candidates(choice, 0, False)


def test_fewest_components_that_do_as_well_are_chosen(monkeypatch):
    found = {2: -9.0, 3: -1.05, 4: -1.15, 5: -1.02, 6: -1.03, 8: -1.0}
    candidates = of_features(monkeypatch, lambda form, number: found.get(number, -9.0))
    best = best_of(candidates)
    assert best.trial.num_components == 3
    assert best.reason.startswith(
        "fewest components within a standard error of the largest ELBO of"
    )
    # More components end where they are worse twice; fewer end with the last.
    assert {trial.num_components for trial in candidates.trials} == {1, 2, 3, 4, 5, 6, 8, 10, 13}


def test_more_components_must_pay_where_items_count_less(monkeypatch):
    def try_out(self, form, number, split=0):
        elbo = {2: -1.1, 3: -1.0, 4: -1.2}.get(number, -9.0) - (form != self.space.forms[0])
        coarsened = {2: -0.5, 3: -0.6}.get(number, -9.0)
        values = np.full(100, elbo)
        found = Trial(form, number, elbo, None, number, 0.0, values, coarsened)
        self.trials.append(found)
        return found

    try_so(monkeypatch, try_out)
    data = CrowdData(np.random.default_rng(0).normal(size=(100, 3)))
    found = best_of(Candidates(choice_for(data), 0, False))
    assert found.trial.num_components == 2
    assert found.reason.startswith("largest coarsened ELBO of the kind with the largest ELBO of")


def test_one_bad_start_does_not_end_the_way_to_many_components(monkeypatch):
    found = {8: -3.0, 10: -2.5, 13: -2.9, 16: -2.2, 20: -2.4, 25: -2.1, 32: -1.5, 40: -1.6}
    candidates = of_features(monkeypatch, lambda form, number: found.get(number, -9.0))
    assert best_of(candidates).trial.num_components == 32


def test_fewer_components_of_the_best_kind_are_all_tried(monkeypatch):
    found = {3: -0.5, 8: -1.0}
    candidates = of_features(
        monkeypatch,
        lambda form, number: found.get(number, -9.0) - (form.kind == "diagonal Gaussians"),
    )
    best = best_of(candidates).trial
    assert best.num_components == 3
    kinds = {trial.form.kind for trial in candidates.trials if trial.num_components == 2}
    assert kinds == {best.form.kind}


def test_forms_that_seem_best_start_again_before_two_are_tried_further(monkeypatch):
    """The third of the first trials had a bad start."""
    candidates = of_features(
        monkeypatch, lambda form, number: -candidates.space.forms.index(form) - number / 100
    )
    again = []

    def try_again(self, form, number):
        again.append((self.space.forms.index(form), number))
        if form == self.space.forms[2]:
            place = self.place_of(form, number)
            self.trials[place] = dataclasses.replace(self.trials[place], elbo=9.0)

    monkeypatch.setattr(Candidates, "try_again", try_again)
    assert best_of(candidates).trial.form == candidates.space.forms[2]
    assert again == [(0, 8), (1, 8), (2, 8), (3, 8)]
    tried_further = {one.form for one in candidates.trials if one.num_components == 6}
    assert tried_further == {candidates.space.forms[place] for place in (0, 2)}


def test_more_end_after_two_losses_and_fewer_where_they_are_clearly_worse(monkeypatch):
    """Within an error of the best fewer are no loss; of the best form all of them are tried."""
    found = {number: -1 - 0.01 * abs(number - 8) for number in (4, 5, 6, 8, 10, 13, 16, 20)}
    candidates = of_features(monkeypatch, lambda form, number: found.get(number, -9.0))
    best_of(candidates)
    tried: dict[tuple[str, str], set[int]] = {}
    for one in candidates.trials:
        tried.setdefault((one.form.kind, one.form.features), set()).add(one.num_components)
    first, second, *others = tried.values()
    assert first == {1, 2, 3, 4, 5, 6, 8, 10, 13}
    assert second == {3, 4, 5, 6, 8, 10, 13}
    assert all(sizes == {8} for sizes in others)


def test_without_a_difference_by_items_the_larger_elbo_is_chosen(monkeypatch):
    found = {6: -1.03, 8: -1.0}
    candidates = of_features(monkeypatch, lambda form, number: found.get(number, -9.0), error=0.0)
    best = best_of(candidates)
    assert best.trial.num_components == 8
    assert best.reason.startswith("largest ELBO of")


@pytest.mark.parametrize(("gain", "number"), [(0.01, 3), (0.2, 8)])
def test_components_that_answers_do_not_ask_for_have_to_pay(monkeypatch, gain, number):
    features, ring = two_rings(60)
    choice = small(answered(features, ring, 60), 3)
    choice = dataclasses.replace(
        choice, sizes=(2, 3, 4, 5, 6, 8), forms=choice.forms[:1], by_features=None
    )

    def try_out(self, form, size, split=0):
        said = np.full((1, len(self.splits[split].item)), -0.5)
        # 3 nats, of 60 items, are no evidence.
        found = Trial(form, size, gain * size, AtWeights(said), size, 0.0)
        if split == 0:
            self.trials.append(found)
        return found

    monkeypatch.setattr(Candidates, "try_out", try_out)
    candidates = Candidates(choice, 0, False)
    best = best_of(candidates)
    assert best.trial.num_components == number
    assert [trial.num_components for trial in candidates.trials] == [3, 5, 8][: 2 + (number == 8)]
    assert "candidates that do as well it has the largest ELBO" in best.reason


def test_heavy_tails_are_tried_of_the_kind_that_does_best_without(monkeypatch):
    best = {"diagonal Gaussians": -1.0, "diagonal Student's t": -0.5}
    candidates = of_features(monkeypatch, lambda form, number: best.get(form.kind, -2.0) - number)
    winner = best_of(candidates).trial
    assert winner.form.kind == "diagonal Student's t"
    kinds = [trial.form.kind for trial in candidates.trials if trial.num_components == 8]
    assert kinds == 2 * ["full Gaussians", "diagonal Gaussians"] + 2 * ["diagonal Student's t"]


def test_the_error_of_a_difference_is_that_of_its_items():
    """Two answers about every item that say the same are one piece of evidence."""
    form = choice_for(CrowdData(np.eye(3))).forms[0]
    rng = np.random.default_rng(0)
    better, worse = (
        Trial(form, 2, 0.0, AtWeights(np.repeat(rng.normal(size=50), 2)[None]), 2, 0.0)
        for _ in range(2)
    )
    difference = better.log_probabilities - worse.log_probabilities
    expected = difference[::2].std() / np.sqrt(50)
    found = error_of(difference, np.repeat(np.arange(50), 2))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("number", "said"), [(2, "1 other candidate does"), (3, "2 other candidates do")]
)
def test_candidates_that_do_as_well_as_a_regression_are_counted(number, said):
    trials = [
        Trial(SimpleNamespace(of_features=False), 2, np.nan, None, 2, 0.0) for _ in range(number)
    ]
    candidates = SimpleNamespace(
        splits=[SimpleNamespace(sentence="answers at {}".format)],
        ranking=SimpleNamespace(rivals=lambda trials, errors: trials),
        trials=trials,
    )
    assert best_by_answers(candidates).reason == f"answers at nan; {said} about as well"
