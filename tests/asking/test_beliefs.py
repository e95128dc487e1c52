"""What is believed of items and workers, against what must hold."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import annotators_on_pages
from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.evidence import component_gain
from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_pairs

from ..crowds import quiet_fit


def result_of(sizes, after=None, owners=None):
    """A fit of components of these sizes, each sure of its items."""
    component = np.repeat(np.arange(len(sizes)), sizes)
    alone = torch.from_numpy(np.eye(len(sizes))[component])
    after = alone if after is None else after
    clusters = after.numpy() if owners is None else after.numpy() @ owners
    return SimpleNamespace(
        data=CrowdData(np.zeros((len(component), 1)) + component[:, None]),
        probabilities=clusters,
        component_probabilities=after,
        component_probabilities_by_features=alone,
        owners=owners,
        model=None,
        guide=None,
        latent_means=None,
    )


COINS = np.array([[[0.9, 0.1], [0.1, 0.9]]])


def beliefs_of(result, answered=None):
    number = result.data.num_items
    answered = np.zeros(number) if answered is None else answered
    return Beliefs.of(result, answered, np.ones(number), COINS, np.random.default_rng(0))


def answered(sizes, pairs):
    """The same with answers about pairs of items, ``left, right, same``."""
    result = result_of(sizes)
    left, right, same = zip(*pairs, strict=True)
    said = {"left": left, "right": right, "worker": ["ann"] * len(left), "label": same}
    result.data = CrowdData(result.data.features, said)
    return result


def test_of_two_components_that_may_be_one_the_smaller_is_in_doubt():
    beliefs = beliefs_of(result_of([30, 10]))
    large, small = beliefs.entropies[0], beliefs.entropies[30]
    np.testing.assert_allclose(beliefs.probabilities.sum(1), 1.0)
    assert large < small
    assert beliefs.taught[0] == pytest.approx(0.0, abs=1e-9)
    # Ten items, nine in ten of which are bound, and a prior of .3 against .7.
    doubt = -(0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    assert beliefs.taught[1] == pytest.approx(9.0 * doubt, rel=0.1)
    assert beliefs.together[1, 0] == pytest.approx(0.7, abs=0.1)


def test_items_that_were_asked_about_leave_less_to_tell():
    result = result_of([30, 10])
    answered = np.zeros(40)
    answered[30:33] = 1.0
    before, after = beliefs_of(result), beliefs_of(result, answered)
    assert after.taught[1] < 0.6 * before.taught[1]
    item = np.array([39])
    told = before.others(item)[0]
    left = before.expect(39, 0.5).others(item)[0]
    assert left == pytest.approx(told * (1 - 0.5 * before.bound[39]))
    assert before.others(item)[0] == told


def test_answers_say_which_components_are_one():
    sizes = [30, 20, 10]
    apart = beliefs_of(answered(sizes, [(0, 30, 0), (1, 31, 0), (2, 32, 0)]))
    joined = beliefs_of(answered(sizes, [(0, 30, 1), (1, 31, 1), (2, 32, 1)]))
    assert apart.together[1, 0] < 0.1 < 0.9 < joined.together[1, 0]
    # What hangs together moves together: of the third the answers say nothing.
    both = answered(sizes, [(30, 50, 1), (31, 51, 1), (32, 52, 1)])
    beliefs = beliefs_of(both)
    assert beliefs.together[2, 1] > 0.9
    assert 0.3 < beliefs.together[2, 0] < 0.9
    assert beliefs.information[1, 2] > 0.5 * beliefs.information[1, 1] > 0.1
    same = beliefs.same(np.array([30, 0]), np.array([50, 1]))
    np.testing.assert_allclose(same[1], beliefs.bound[0] * beliefs.bound[1], atol=0.2)


def test_one_item_with_many_answers_counts_once():
    alone = np.eye(2)[[0] + [1] * 5]
    many = CrowdData(
        None, {"left": [0] * 5, "right": range(1, 6), "worker": ["a"] * 5, "label": [1] * 5}
    )
    one = CrowdData(None, {"left": [0], "right": [1], "worker": ["a"], "label": [1]})
    gain = component_gain(many, alone, np.full(6, 0.9), COINS)
    single = component_gain(one, alone[:2], np.full(2, 0.9), COINS)
    np.testing.assert_allclose(gain, single)
    nobody = component_gain(CrowdData(np.zeros((6, 1))), alone, np.ones(6), COINS)
    assert not nobody.any()


def test_an_item_on_a_page_is_put_somewhere_once():
    """Putting one item elsewhere costs what one answer does, however many it is put with."""
    number = 6
    left, right = np.triu_indices(number, 1)
    group = np.array([0, 0, 0, 1, 1, 2])
    said = {"left": left, "right": right, "worker": ["ann"] * len(left), "page": [0] * len(left)}
    data = CrowdData(None, said | {"label": (group[left] == group[right]).astype(int)})
    gain = component_gain(data, np.eye(number), np.ones(number), COINS)
    same = np.log(9.0)
    assert gain[0, group == 0].sum() == pytest.approx(same)
    assert gain[3, group == 1].sum() == pytest.approx(same)
    assert gain[0, group == 1].sum() == pytest.approx(-same * 2 / 3)
    assert gain[3, group == 0].sum() == pytest.approx(-same)
    assert gain[5, group == 0].sum() == pytest.approx(-same)
    # Answers about pairs are one decision each, also where they name the page that showed them.
    odd = said | {"label": (group[left] == group[right]) | (left == 0)}
    for table in (odd, {name: column for name, column in said.items() if name != "page"}):
        label = table.get("label", group[left] == group[right])
        data = CrowdData(None, table | {"label": label.astype(int)})
        gain = component_gain(data, np.eye(number), np.ones(number), COINS)
        assert gain[0, group == 0].sum() == pytest.approx(2 * same)


def test_items_that_left_their_component_loosen_the_others():
    left = torch.eye(2, dtype=torch.float64)[[0] * 30 + [0] * 4 + [1] * 6]
    answered = np.zeros(40)
    answered[30:34] = 1.0
    stayed, gone = (
        beliefs_of(result_of([30, 10]), answered),
        beliefs_of(result_of([30, 10], left), answered),
    )
    assert gone.bound[39] < stayed.bound[39]
    np.testing.assert_allclose(gone.bound[30:34], 1.0)


def test_without_features_items_teach_nothing_of_others():
    result = result_of([3, 3])
    result.component_probabilities_by_features = None
    beliefs = beliefs_of(result)
    assert beliefs.others(np.arange(6)).tolist() == [0.0] * 6
    np.testing.assert_allclose(beliefs.probabilities, result.probabilities)


@pytest.mark.parametrize("with_features", [True, False], ids=["features", "none"])
def test_classes_stay_beside_their_confusion_matrices(with_features):
    """Also where the first classes are small, and one that was named has no item."""
    result = result_of([2, 0, 3, 5])
    named = {"item": [0, 1, 2, 5], "worker": ["ann"] * 4, "label": list("abcd")}
    result.data = CrowdData(result.data.features, labels=named)
    if not with_features:
        result.component_probabilities_by_features = None
    found = beliefs_of(result).probabilities
    assert found.shape == (10, result.data.num_classes)
    # Items may be of the class of another component, but most probably are not.
    assert found.argmax(1).tolist() == result.probabilities.argmax(1).tolist()
    assert not found[:, 1].any()


@pytest.mark.parametrize("grades", [None, [0, 1]], ids=["yes or no", "grades"])
def test_the_next_question_is_on_a_page_of_unknown_attention(grades):
    """``a p(L | attentive) + (1 - a) / C``, for workers of both kinds."""
    kind = np.arange(12) % 2
    table = simulate_pairs(kind, [0.9] * 2, [0.8] * 2, pairs_per_worker=60, seed=0)
    table["page"] = np.arange(len(table)) // 6
    careless = table["page"] % 3 == 0
    table.loc[careless, "label"] = np.arange(careless.sum()) // 3 % 2
    data = CrowdData(9.0 * np.eye(2)[kind], table, grades=grades)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(2), GaussianComponents(2, 2), Identity(), annotators_on_pages(data)
    )
    options = {"batch_size": None, "step_size": 1.0, "epochs": 9}
    result = quiet_fit(model, MessagePassingGuide(model), data, dtype=torch.float64, **options)
    crowd = Crowd.of(result, None, None, None)
    rates = result.guide.workers().rates
    attention = rates["attention"].mean
    assert attention.max() < 0.95
    if grades is None:
        looked = rates["specificity"].mean, rates["sensitivity"].mean
    else:
        looked = rates["if_different"].mean[:, 0], rates["if_same"].mean[:, 1]
    said = crowd.pair_channels(2)  # of grades "can't tell", too
    mixed = attention * np.stack(looked) + (1 - attention) / said.shape[-1]
    np.testing.assert_allclose(said[:, [0, 1], [0, 1]].T, mixed)


def test_who_was_asked_what_is_remembered():
    table = simulate_pairs(np.arange(12) % 2, [0.9] * 2, [0.9] * 2, pairs_per_worker=5, seed=0)
    data = CrowdData(np.zeros((12, 1)), table)
    asked = Asked(data)
    on_pages = Asked(CrowdData(np.zeros((12, 1)), table.assign(page=table["worker"])))
    for row in table.itertuples():
        keys = asked.pair_keys(np.array([row.right]), np.array([row.left]))
        assert asked.pairs(np.array([row.worker]), keys)[0]
        whom, what = np.array([row.worker]), np.array([row.left])
        assert on_pages.to_place(whom, what)[0]
        assert not on_pages.to_label(whom, what)[0]
        assert not asked.to_place(whom, what)[0]
        assert not asked.pairs(np.array([-1]), keys)[0]
    answered = asked.answered(np.array([0.5, 0.8]))
    both = set(table[table.worker == 0][["left", "right"]].to_numpy().ravel()) & set(
        table[table.worker == 1][["left", "right"]].to_numpy().ravel()
    )
    assert answered[list(both)] == pytest.approx(0.9)
    nobody = sorted(set(range(12)) - set(table[["left", "right"]].to_numpy().ravel()))
    assert not answered[nobody].any()


def test_items_that_move_are_those_whose_cluster_was_not_the_most_probable():
    """Against the mean over what is shown of each item: its cluster, or nothing."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(3), 30)
    result = SimpleNamespace(probabilities=q, data=CrowdData(np.zeros((30, 1))))
    wanted = np.arange(30) % 2.0
    beliefs = Beliefs._without_components(result, np.zeros(30), wanted)
    gain = 0.4 * beliefs.own(np.arange(30)).sum()
    shown = rng.random((20_000, 30)) < 0.4
    cluster = (rng.random((20_000, 30, 1)) > q.cumsum(1)).sum(2)
    moved = (shown & (cluster != q.argmax(1)) & (beliefs.wanted > 0)).sum(1).mean()
    assert beliefs.expected_moved(gain) == pytest.approx(moved, rel=0.02)
    # More than all cannot be told, and nothing of what is known.
    most = (1 - q.max(1))[1::2].sum()
    assert beliefs.expected_moved(1e9) == pytest.approx(most)
    assert replace(beliefs, wanted=np.zeros(30)).expected_moved(0.0) == 0.0


def test_of_listed_pairs_an_item_moves_as_if_to_clusters_of_equal_probability():
    result = SimpleNamespace(probabilities=np.eye(3), data=CrowdData(np.zeros((3, 1))))
    beliefs = Beliefs._without_components(result, np.zeros(3), np.ones(3))
    doubted = replace(beliefs, entropies=np.log([1.0, 2.0, 4.0]))
    assert doubted.expected_moved(doubted.entropies.sum() / 2) == pytest.approx((1 / 2 + 3 / 4) / 2)


def test_units_of_features_are_of_no_account():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 2)) + 6.0 * (np.arange(40) % 2)[:, None]
    bound = []
    for units in ([1.0, 1.0], [1000.0, 0.1]):
        rows = features * np.array(units) + np.array(units)
        data = CrowdData(rows)
        emission = Standardized(torch.tensor(rows.mean(0)), torch.tensor(rows.std(0)))
        model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 2), emission)
        result = quiet_fit(model, MessagePassingGuide(model), data, epochs=5, batch_size=None)
        bound.append(beliefs_of(result).bound)
    np.testing.assert_allclose(*bound)
    assert np.ptp(bound[0]) > 0.1
