"""Workers who see other clusters than the chosen ones: who they are, and who gave most answers."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import normalized_mutual_info_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice, choice_for
from pyro_crowdclust.interface.choosing import choice as choice_module
from pyro_crowdclust.interface.choosing import other_view
from pyro_crowdclust.interface.choosing.other_view import OtherView, find_other_view
from pyro_crowdclust.interface.choosing.rereading import RateWorkers
from pyro_crowdclust.results import step_of
from pyro_crowdclust.simulation import simulate_pairs
from pyro_crowdclust.training import is_interrupted

NUM_ITEMS = 150
RNG = np.random.default_rng(0)
COLOUR, SHAPE = RNG.integers(0, 2, (2, NUM_ITEMS))
# Five columns show the shape, and one the colour.
FEATURES = 4.0 * np.c_[np.tile(SHAPE, (5, 1)).T, COLOUR] + RNG.normal(size=(NUM_ITEMS, 6))
FEW = "u", "v"


def crowd(of_colour: str = "abcd", of_shape: str = "uv") -> pd.DataFrame:
    """So many workers who sort by colour, and by shape."""
    tables = []
    for kinds, names in (COLOUR, of_colour), (SHAPE, of_shape):
        options = {"pairs_per_worker": 80, "items": range(0, NUM_ITEMS, 2), "seed": len(names)}
        table = simulate_pairs(kinds, [0.9] * len(names), [0.9] * len(names), **options)
        tables.append(table.assign(worker=np.array([*names])[table["worker"]]))
    return pd.concat(tables, ignore_index=True)


def choice_of(data: CrowdData, *kinds: str):
    """A choice between mixtures and regressions, or some of these."""
    choice = choice_for(data)
    forms = [form for form in choice.forms if form.name in kinds]
    sizes = {"sizes": (2, 4), "first_size": 2}
    by_features = dataclasses.replace(choice.by_features, **sizes)
    return dataclasses.replace(choice, forms=forms, by_features=by_features, **sizes)


def fitted_to(of_colour: str, of_shape: str, *kinds: str):
    data = CrowdData(FEATURES, crowd(of_colour, of_shape))
    return data, choice_of(data, *kinds).fit(num_starts=1, progress=False)


BOTH = "full Gaussians on columns", "regression on columns"


@pytest.mark.long
def test_few_who_see_something_else_are_named():
    _, fitted = fitted_to("abcd", "uv", *BOTH)
    assert normalized_mutual_info_score(COLOUR, fitted.assignments) > 0.8
    assert "the answers of all others" not in fitted.chosen.reason
    (sentence,) = (one for one in advice(fitted) if "with each other" in one)
    assert sentence.startswith("workers 'u', 'v', who gave 160 of 480 answers, hardly agree")
    assert sentence.endswith("cluster(features, pairs[pairs.worker.isin(['u', 'v'])])")


@pytest.mark.long
def test_two_who_guess_are_not_named():
    data = CrowdData(FEATURES, guesses_by(FEW))
    fitted = choice_of(data, *BOTH).fit(num_starts=1, progress=False)
    assert (fitted.workers.loc[[*FEW], "weight"].abs() < 2).all()
    assert fitted.chosen.other_view == ""
    assert not any("with each other" in sentence for sentence in advice(fitted))


def guesses_by(names) -> pd.DataFrame:
    """The crowd, in which some answers have nothing to do with the pairs."""
    table = crowd()
    own = table["worker"].isin(names)
    shuffled = table.loc[own, "label"].sample(frac=1, random_state=0).to_numpy()
    return table.assign(label=table["label"].mask(own, pd.Series(shuffled, table.index[own])))


@pytest.fixture(scope="module")
def of_most():
    """What is chosen where the first choice has what the few see."""
    names = pd.Index([*"abcd"])
    with pytest.MonkeyPatch.context() as patch:
        views = iter([OtherView(names, 320, 480), None])
        patch.setattr(choice_module, "find_other_view", lambda *_: next(views))
        data = CrowdData(FEATURES, crowd())
        patch.setattr(choice_module, "evidence_by", evidence_that_rises())
        return data, choice_of(data, *BOTH).fit(num_starts=1, progress=False)


def evidence_that_rises():
    found = iter([2.0, 1.0])  # of the second fit, then of the first
    return lambda *_: next(found)


@pytest.mark.long
def test_who_gave_most_answers_decides(of_most):
    data, fitted = of_most
    assert normalized_mutual_info_score(COLOUR, fitted.assignments) > 0.8
    assert fitted.data.num_pairs == 320
    assert "so that the answers of all others are left out: held-out" in fitted.chosen.reason
    sentences = advice(fitted)
    assert any(one.startswith("the answers of workers 'u', 'v' are left out") for one in sentences)
    assert step_of(fitted, RateWorkers).all_answers(fitted.data).num_pairs == data.num_pairs


@pytest.mark.long
def test_the_others_are_rated_by_the_clusters_of_most(of_most):
    _, fitted = of_most
    table = crowd()
    same = fitted.same_cluster_by_position(*table[["left", "right"]].to_numpy().T)
    for worker in FEW:
        own = (table["worker"] == worker).to_numpy()
        right = same[own & (table["label"] == 1)].sum() + 2
        expected = right / (same[own].sum() + 3)
        assert fitted.workers.loc[worker, "sensitivity"] == pytest.approx(expected, abs=0.03)


@pytest.mark.long
def test_a_second_search_that_is_interrupted_leaves_the_first_fit(monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    data = CrowdData(FEATURES, crowd())
    monkeypatch.setattr(choice_module, "find_other_view", press)
    fitted = choice_of(data, BOTH[1]).fit(num_starts=1, progress=False)
    assert is_interrupted(fitted)
    assert fitted.data.num_pairs == data.num_pairs


def test_answers_that_are_left_out_for_two_reasons():
    data = CrowdData(FEATURES, crowd())
    worker = data.answers.worker
    steps = [RateWorkers.of(data, worker == code) for code in (0, 1)]
    kept = data.without_pairs(worker < 2)
    assert steps[0].beside(None) is steps[0]
    both = steps[1].beside(steps[0])
    assert both.all_answers(kept).num_pairs == data.num_pairs
    assert [*dict.fromkeys(both.left_out["worker"])] == ["a", "b"]


LOW, HIGH = 0.1, 4.0
NAMES = [*"abcd"]


def searched(*scores, weight=(HIGH, HIGH, LOW, LOW), other=(LOW, LOW, HIGH, HIGH), number=30):
    """A search in which candidates predict the answers of each worker so well; the first won.

    Fitted to all answers, the best for some of these gives the workers the ``other`` weights.
    """
    worker = torch.arange(4).repeat_interleave(30)
    ends = torch.arange(240).reshape(2, -1)
    noise = 0.02 * np.random.default_rng(0).normal(size=120)
    trials = [SimpleNamespace(log_probabilities=np.repeat(score, 30) + noise) for score in scores]
    fit = SimpleNamespace(workers=pd.DataFrame({"weight": other}, index=NAMES))
    search = SimpleNamespace(
        candidates=SimpleNamespace(
            splits=[SimpleNamespace(held_out=SimpleNamespace(worker=worker))],
            trials=trials,
            data=None,
            brief_fit_of=lambda trial, _: fit if trial is trials[-1] else None,
        ),
        by_chance=lambda size: (np.full(size, -0.69), ends.numpy()[:, :size]),
    )
    answers = [30, 30, 30, number]
    table = pd.DataFrame({"weight": weight, "answers": answers}, index=NAMES)
    return search, trials[0], SimpleNamespace(workers=table)


@pytest.fixture
def _simple(monkeypatch):
    monkeypatch.setattr(other_view, "PairSplit", SimpleNamespace)
    monkeypatch.setattr(other_view, "_can_be_tested", lambda _: True)


WON, OTHER = (-0.3, -0.3, -0.7, -0.7), (-0.7, -0.7, -0.3, -0.3)
NOTHING, BOTH_WELL = (-0.69,) * 4, (-0.3,) * 4


@pytest.mark.usefixtures("_simple")
@pytest.mark.parametrize(
    ("scores", "options", "found"),
    [
        ((WON, OTHER), {}, ["c", "d"]),
        ((WON, NOTHING), {}, None),  # nobody predicts them
        ((NOTHING, OTHER), {}, ["c", "d"]),
        ((BOTH_WELL, OTHER), {}, None),  # no better than the one that won
        ((WON, OTHER), {"weight": (HIGH, HIGH, -HIGH, -HIGH)}, None),  # they say the opposite
        ((WON, OTHER), {"other": (LOW, HIGH + 1, HIGH, HIGH)}, ["b", "c", "d"]),
        ((WON, OTHER), {"other": (LOW, HIGH - 1, HIGH, HIGH)}, ["c", "d"]),
        ((WON, OTHER), {"other": (LOW, LOW, LOW, HIGH)}, None),  # one alone
        ((WON, OTHER), {"other": (HIGH + 1, HIGH + 1, HIGH, HIGH)}, None),  # all
        ((WON, OTHER), {"number": 0}, None),
    ],
)
def test_who_sees_something_else(scores, options, found):
    view = find_other_view(*searched(*scores, **options))
    assert (None if view is None else list(view.workers)) == found


@pytest.mark.usefixtures("_simple")
@pytest.mark.parametrize(("size", "is_found"), [(90, True), (75, False)])
def test_candidates_are_compared_on_what_they_were_tried_on(size, is_found):
    """There they need 20 of these workers' answers."""
    search, best, result = searched(WON, OTHER)
    search.candidates.trials[1].log_probabilities = np.full(size, -0.3)
    assert (find_other_view(search, best, result) is not None) == is_found


@pytest.mark.parametrize(("number", "is_most"), [(50, False), (51, True)])
def test_more_than_half(number, is_most):
    assert OtherView(pd.Index(["a"]), number, 100).has_most_answers is is_most
