"""Which candidates are tried on what, and which of them is the best."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.candidates.weights import WEIGHTS
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.held_out import split
from pyro_crowdclust.interface.choosing.held_out_pairs import Split
from pyro_crowdclust.interface.choosing.rereading import with_feature_weight
from pyro_crowdclust.interface.choosing.search import Search
from pyro_crowdclust.interface.choosing.trials import Trial, worth_another_split
from pyro_crowdclust.pooling.comparison import error_of
from pyro_crowdclust.transforms import Projected

from ...control_c import press_control_c, press_in_start
from ..small_choices import (
    answered,
    misleading,
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
    search = Search(choice, 0, False)
    number = len(search.splits[0].held_out.label)
    rng = np.random.default_rng(0)
    held = rng.normal(size=number)
    best = trial(choice.forms[0], 2, 1.0, held)
    alike = trial(choice.forms[0], 3, 2.0, held - 0.01 + rng.normal(size=number))
    worse = trial(choice.forms[0], 4, 3.0, held - 2.0 + 0.1 * rng.normal(size=number))
    assert search.ranking.in_order([best, alike, worse]) == [alike, best, worse]
    assert search.ranking.rivals([best, alike, worse]) == [best, alike]
    many = [trial(choice.forms[0], 2, elbo, held - 0.001 * elbo) for elbo in range(9)]
    assert [one.elbo for one in worth_another_split(many)] == [0, 8, 7, 6]


def of_features(monkeypatch, elbos, error: float = 0.1) -> Search:
    """A search whose candidates' ELBOs are given, with so large an error of their differences."""

    def try_out(self, form, number, split=0):
        rng = np.random.default_rng([number, len(self.trials)])
        values = rng.normal(size=400)
        values = (values - values.mean()) / values.std() * error * 20 / np.sqrt(2)
        found = Trial(form, number, elbos(form, number), None, number, 0.0, values)
        self.trials.append(found)
        return found

    monkeypatch.setattr(Search, "try_out", try_out)
    choice = choice_for(CrowdData(np.random.default_rng(0).normal(size=(100, 3))))
    return Search(choice, 0, False)


def test_fewest_components_that_do_as_well_are_chosen(monkeypatch):
    found = {2: -9.0, 3: -1.05, 4: -1.15, 5: -1.02, 6: -1.03, 8: -1.0}
    search = of_features(monkeypatch, lambda form, number: found.get(number, -9.0))
    best, reason = search.best()
    assert best.num_components == 3
    assert reason.startswith("fewest components within a standard error of the largest ELBO of")
    # More components end where they are worse twice; fewer end with the last.
    assert {trial.num_components for trial in search.trials} == {1, 2, 3, 4, 5, 6, 8, 10, 13}


def test_more_components_must_pay_where_items_count_less(monkeypatch):
    def try_out(self, form, number, split=0):
        elbo = {2: -1.1, 3: -1.0, 4: -1.2}.get(number, -9.0) - (form != self.plan.forms[0])
        coarsened = {2: -0.5, 3: -0.6}.get(number, -9.0)
        values = np.full(100, elbo)
        found = Trial(form, number, elbo, None, number, 0.0, values, coarsened)
        self.trials.append(found)
        return found

    monkeypatch.setattr(Search, "try_out", try_out)
    data = CrowdData(np.random.default_rng(0).normal(size=(100, 3)))
    best, reason = Search(choice_for(data), 0, False).best()
    assert best.num_components == 2
    assert reason.startswith("largest coarsened ELBO of the kind with the largest ELBO of")


def test_one_bad_start_does_not_end_the_way_to_many_components(monkeypatch):
    found = {8: -3.0, 10: -2.5, 13: -2.9, 16: -2.2, 20: -2.4, 25: -2.1, 32: -1.5, 40: -1.6}
    search = of_features(monkeypatch, lambda form, number: found.get(number, -9.0))
    assert search.best()[0].num_components == 32


def test_fewer_components_of_the_best_kind_are_all_tried(monkeypatch):
    found = {3: -0.5, 8: -1.0}
    search = of_features(
        monkeypatch,
        lambda form, number: found.get(number, -9.0) - (form.kind == "diagonal Gaussians"),
    )
    best, _ = search.best()
    assert best.num_components == 3
    kinds = {trial.form.kind for trial in search.trials if trial.num_components == 2}
    assert kinds == {best.form.kind}


def test_more_end_after_two_losses_and_fewer_where_they_are_clearly_worse(monkeypatch):
    """Within an error of the best fewer are no loss; of the best form all of them are tried."""
    found = {number: -1 - 0.01 * abs(number - 8) for number in (4, 5, 6, 8, 10, 13, 16, 20)}
    search = of_features(monkeypatch, lambda form, number: found.get(number, -9.0))
    search.best()
    tried: dict[tuple[str, str], set[int]] = {}
    for one in search.trials:
        tried.setdefault((one.form.kind, one.form.features), set()).add(one.num_components)
    first, second, *others = tried.values()
    assert first == {1, 2, 3, 4, 5, 6, 8, 10, 13}
    assert second == {3, 4, 5, 6, 8, 10, 13}
    assert all(sizes == {8} for sizes in others)


def test_without_a_difference_by_items_the_larger_elbo_is_chosen(monkeypatch):
    found = {6: -1.03, 8: -1.0}
    search = of_features(monkeypatch, lambda form, number: found.get(number, -9.0), error=0.0)
    best, reason = search.best()
    assert best.num_components == 8
    assert reason.startswith("largest ELBO of")


@pytest.mark.parametrize(("gain", "number"), [(0.01, 3), (0.2, 8)])
def test_components_that_answers_do_not_ask_for_have_to_pay(monkeypatch, gain, number):
    features, ring = two_rings(60)
    choice = small(answered(features, ring, 60), 3)
    choice = dataclasses.replace(
        choice, sizes=(2, 3, 4, 5, 6, 8), forms=choice.forms[:1], by_features=None
    )

    def try_out(self, form, size, split=0):
        said = np.full((1, len(self.splits[split].block)), -0.5)
        # 3 nats, of 60 items, are no evidence.
        found = Trial(form, size, gain * size, AtWeights(said), size, 0.0)
        if split == 0:
            self.trials.append(found)
        return found

    monkeypatch.setattr(Search, "try_out", try_out)
    search = Search(choice, 0, False)
    best, reason = search.best()
    assert best.num_components == number
    assert [trial.num_components for trial in search.trials] == [3, 5, 8][: 2 + (number == 8)]
    assert "candidates that do as well it has the largest ELBO" in reason


def test_heavy_tails_are_tried_of_the_kind_that_does_best_without(monkeypatch):
    best = {"diagonal Gaussians": -1.0, "diagonal Student's t": -0.5}
    search = of_features(monkeypatch, lambda form, number: best.get(form.kind, -2.0) - number)
    winner, _ = search.best()
    assert winner.form.kind == "diagonal Student's t"
    kinds = [trial.form.kind for trial in search.trials if trial.num_components == 8]
    assert kinds == 2 * ["full Gaussians", "diagonal Gaussians"] + 2 * ["diagonal Student's t"]


def test_data_that_are_too_many_are_tried_in_part():
    data = CrowdData(two_rings(240)[0])
    seen = []

    def note(recipe_data):
        seen.append(recipe_data.num_items)
        return standard(recipe_data)

    choice = small(data, 3, forms=1)
    standard = choice.forms[0].make_coordinates
    form = dataclasses.replace(choice.forms[0], make_coordinates=note)
    recipe, _ = dataclasses.replace(choice, forms=(form,), max_items=100).run(progress=False)
    assert seen == [100, 240]
    assert recipe.data is data


@pytest.mark.long
def test_many_clusters_on_many_directions_have_the_epochs_that_they_need():
    rng = np.random.default_rng(2)
    kind = rng.integers(12, size=600)
    features = rng.normal(size=(12, 384))[kind]
    features += 0.7 * rng.normal(size=(600, 30)) @ rng.normal(size=(30, 384))
    features += 2 * rng.normal(size=(600, 384))
    search = Search(choice_for(CrowdData(features)), 0, False)
    form = next(form for form in search.plan.forms if form.features.startswith("40"))
    cut, found = (
        search.fit_of(dataclasses.replace(form, epochs=epochs), 13, search.data)
        for epochs in (60, form.epochs)
    )
    assert found.elbo > cut.elbo
    agree_cut, agree = (adjusted_rand_score(kind, one.assignments) for one in (cut, found))
    assert agree > 0.85 > agree_cut + 0.1


def test_directions_are_compared_by_what_clusters_say_beyond_one_gaussian():
    noise = np.random.default_rng(0).normal(size=(80, 60))
    parted = noise + 5 * (np.arange(80) % 2)[:, None]
    of_noise, of_clusters = (
        float(small(CrowdData(x), 2, forms=1).run(progress=False)[1].table["elbo"].iloc[0])
        for x in (noise, parted)
    )
    assert of_noise < 0 < 0.5 < of_clusters


@pytest.mark.parametrize("dim", [2, 14])
def test_rounded_numbers_are_compared_where_they_were_fitted(dim):
    """By the slopes of the coordinates there, and by what directions leave out of a normal one."""
    rng = np.random.default_rng(0)
    rounded = (2 * rng.normal(size=(60, 3)) @ rng.normal(size=(3, dim)) + 8).round()
    search = Search(choice_for(CrowdData(rounded)), 0, False)
    for form in search.plan.forms:
        emission, found = search.coordinates_of(form)
        fitted = form.recipe(search.data, 2, emission).data
        rows = fitted.rows(torch.arange(fitted.num_items)).requires_grad_()
        projected = isinstance(emission, Projected)
        inner = emission.inner.latent(rows) if projected else emission.latent(rows)
        (slopes,) = torch.autograd.grad(inner.sum(), rows)
        expected = slopes.log().sum(1)
        if projected:
            others = scipy.linalg.null_space(emission.directions.numpy())
            rest = (inner.detach() - emission.mean).numpy() @ others
            normal = scipy.stats.norm.logpdf(rest, scale=emission.residual**0.5)
            expected = expected + torch.from_numpy(normal.sum(1)) - emission.scale.log().sum()
        assert found == pytest.approx(float(expected.mean()))


def test_an_interrupted_search_fits_the_best_so_far(monkeypatch):
    features, _ = two_rings(60)
    tried = Search.try_out

    def press_control_c(self, *arguments):
        if len(self.trials) == 1:
            raise KeyboardInterrupt
        return tried(self, *arguments)

    monkeypatch.setattr(Search, "try_out", press_control_c)
    result = small(CrowdData(features), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user")
    assert len(result.chosen.table) == 1


@pytest.mark.parametrize(("fit", "tried"), [(1, 1), (2, 1), (3, 2)])
def test_ctrl_c_in_the_start_of_a_candidate(monkeypatch, fit, tried):
    """A first candidate is kept as far as it came, later ones are not."""
    features, _ = two_rings(60)
    press_in_start(monkeypatch, fit)
    result = small(CrowdData(features), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    assert len(result.chosen.table) == tried


@pytest.mark.long
def test_ctrl_c_while_answers_held_out_are_scored(monkeypatch):
    """The second of the candidates, which is not noted then; the first is read as it scored."""
    number = len(WEIGHTS)
    press_control_c(monkeypatch, Split, "log_probability", number + 1)
    result = small(answered(*misleading()), 3, 4).fit(progress=False)
    assert result.stop_reason.startswith("interrupted by the user while candidates")
    (row,) = result.chosen.table.itertuples()
    assert result.model.feature_weight == row.feature_weight < 1


@pytest.mark.parametrize("start", [1, 2])
def test_ctrl_c_in_the_last_fits_keeps_the_best_start(monkeypatch, start):
    choice = dataclasses.replace(small(CrowdData(two_rings(60)[0]), 3, forms=1), best_forms=0)
    press_in_start(monkeypatch, 1 + start)
    result = choice.fit(progress=False, num_starts=3)
    assert result.stop_reason.startswith("interrupted by the user")
    assert (len(result.history) == 0) == (start == 1)
    assert len(result.chosen.table) == 1


def test_the_error_of_a_difference_is_that_of_its_items():
    """Two answers about every item that say the same are one piece of evidence."""
    form = choice_for(CrowdData(np.eye(3))).forms[0]
    rng = np.random.default_rng(0)
    better, worse = (
        Trial(form, 2, 0.0, AtWeights(np.repeat(rng.normal(size=50), 2)[None]), 2, 0.0)
        for _ in range(2)
    )
    difference = (better.held_out - worse.held_out)[::2]
    expected = difference.std() / np.sqrt(50)
    found = error_of(better.answers - worse.answers, np.repeat(np.arange(50), 2))
    assert found == pytest.approx(expected)


def test_features_weigh_less_where_the_held_out_answers_say_so(rings):
    result, _ = rings
    table = result.chosen.table
    assert table["feature_weight"].between(0, 1).all()
    one = split(result.data, 0.25, torch.Generator().manual_seed(0))
    form = choice_for(result.data).forms[0]
    found = Search.at_weights(form, one, with_feature_weight(result, 0.5))
    assert found.answers.shape == (len(WEIGHTS), len(one.held_out.label))
    # The result itself is read at a weight that the answers have chosen.
    most, least = with_feature_weight(result, 0.9), with_feature_weight(result, 0.05)
    assert (most.model.feature_weight, least.model.feature_weight) == (0.9, 0.05)
    assert (least.probabilities.max(1) <= most.probabilities.max(1) + 1e-6).mean() > 0.9


@pytest.mark.long
def test_answers_are_heard_at_every_weight_also_of_rows_with_gaps():
    features, said = misleading()
    features[np.random.default_rng(0).random(features.shape) < 0.1] = np.nan
    search = Search(small(answered(features, said), 2, forms=1), 0, False)
    tried = search.try_out(search.plan.forms[0], 2)
    assert tried.by_weight is not None
    assert tried.by_weight.answers.shape == (len(WEIGHTS), len(search.splits[0].held_out.label))
    assert search.plan.by_features is not None
    trial, fitted = search.without_answers(search.plan.by_features)
    assert fitted is not None
    assert trial.by_weight is not None
    assert trial.by_weight.answers.shape == (len(WEIGHTS), len(search.splits[0].held_out.label))
    assert trial.feature_weight < 1


@pytest.mark.long
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_answers_that_are_all_the_same_leave_features_their_weight(label):
    data = answered(*two_rings(60), 40)
    answers = dataclasses.replace(data.answers, label=torch.full_like(data.answers.label, label))
    search = Search(small(data.with_answers(answers), 2, forms=1), 0, False)
    trial, _ = search.without_answers(search.plan.by_features)
    assert (trial.feature_weight, len(trial.by_weight.answers)) == (1, 1)
