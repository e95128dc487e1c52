"""Workers who are judged by clusters that they had no part in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import ChooseAgain, ReadAtWeight, choice_for
from pyro_crowdclust.interface.choosing import rereading
from pyro_crowdclust.interface.choosing.rereading import (
    with_answers_added,
    with_feature_weight,
    with_owners_of_few_weighed,
    with_workers_rated_by,
    with_workers_refitted,
)
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.results import step_of, with_own_parts
from pyro_crowdclust.simulation import simulate_pairs

from ..small_choices import small

KINDS = np.arange(80) % 2
FEATURES = 3.0 * KINDS[:, None] + np.random.default_rng(0).normal(size=(80, 2))


@pytest.fixture(scope="module")
def silent():
    """A fit of the features, whose updates do not choose again."""
    fitted = small(CrowdData(FEATURES), 2, forms=1).fit(num_starts=1, progress=False)
    return replace(fitted, train_on=replace(fitted.train_on, steps=()))


def rates_are_counts(result, said):
    """Of every worker, under q(z) and Beta(2, 1)."""
    q = result.probabilities
    same = (q[said["left"]] * q[said["right"]]).sum(1)
    label, worker = said["label"].to_numpy(), said["worker"].to_numpy()
    for one in result.workers.index:
        s, yes = same[worker == one], label[worker == one]
        right, wrong = 2 + (s * yes).sum(), 1 + (s * (1 - yes)).sum()
        found = result.workers["sensitivity"][one]
        assert found == pytest.approx(right / (right + wrong), abs=1e-3)
        right, wrong = 2 + ((1 - s) * (1 - yes)).sum(), 1 + ((1 - s) * yes).sum()
        found = result.workers["specificity"][one]
        assert found == pytest.approx(right / (right + wrong), abs=1e-3)


@pytest.mark.parametrize("weight", [1.0, 0.1])
def test_rates_are_counts_under_the_clusters(silent, weight):
    said = simulate_pairs(
        KINDS, [0.9, 0.5], [0.8, 0.5], pairs_per_worker=90, items=range(40), seed=0
    )
    heard = with_answers_added(silent, CrowdData(FEATURES, said), weight)
    rates_are_counts(heard, said)
    q = heard.probabilities
    # Nobody was asked about the others: they stay where they are, and are as sure as features are.
    of_features = silent.probabilities[40:] ** weight
    expected = np.sort(of_features / of_features.sum(1, keepdims=True))
    np.testing.assert_allclose(np.sort(q[40:]), expected, atol=1e-9)


def test_items_follow_answers_that_agree_where_features_say_something_else():
    """Six workers of .95 part the first forty items otherwise than the features do."""
    features = FEATURES + 3.0 * KINDS[:, None]
    silent = small(CrowdData(features), 2, forms=1).fit(num_starts=1, progress=False)
    other = np.arange(80) // 2 % 2
    rates = [0.95] * 6
    said = simulate_pairs(other, rates, rates, pairs_per_worker=60, items=range(40), seed=0)
    data = CrowdData(features, said)
    sure, open_ = (with_answers_added(silent, data, weight) for weight in (1.0, 0.05))
    assert clustering_accuracy(other[:40], sure.assignments[:40]) < 0.7
    assert clustering_accuracy(other[:40], open_.assignments[:40]) > 0.9
    assert open_.workers["sensitivity"].min() > sure.workers["sensitivity"].max()
    assert clustering_accuracy(KINDS[40:], open_.assignments[40:]) == 1


def test_graded_answers_judge_workers_too(silent):
    said = simulate_pairs(KINDS, [0.9], [0.9], pairs_per_worker=90, seed=0)
    said["label"] *= 3
    heard = with_answers_added(silent, CrowdData(FEATURES, said, grades=[0, 1, 2, 3]))
    assert np.isfinite(heard.workers.to_numpy(dtype=float)).all()
    assert (heard.assignments == silent.assignments).mean() > 0.9


def test_workers_are_judged_anew_in_a_copy(silent):
    """Tables are computed once, so that a guide that changed would belie them."""
    said = simulate_pairs(KINDS, [0.9, 0.5], [0.8, 0.5], pairs_per_worker=90, seed=0)
    data = CrowdData(FEATURES, said)
    heard = with_feature_weight(with_answers_added(silent, data), 0.05)
    before = heard.workers
    for judged in (with_workers_refitted(heard), with_workers_rated_by(heard, data, [0])):
        assert abs(judged.workers["sensitivity"] - before["sensitivity"])[0] > 1e-3
        pd.testing.assert_frame_equal(replace(heard).workers, before)


def test_owners_are_weighed_anew_only_where_features_count_less(silent, monkeypatch):
    """In a copy, by a reading and by an update; not beside labels, links, or without owners."""
    said = simulate_pairs(KINDS, [0.9], [0.9], pairs_per_worker=30, items=range(20), seed=0)
    whole = with_answers_added(silent, CrowdData(FEATURES, said))
    read, asked = with_feature_weight(whole, 0.05), np.unique(said[["left", "right"]])
    weighed = []

    def weigh(guide, alone, answered):
        sizes = [len(alone.items), alone.num_pairs, len(answered.items), answered.num_pairs]
        weighed.append((guide, guide.feature_weight, *sizes))

    monkeypatch.setattr(rereading, "weigh_owners_of_few", weigh)
    labels, linked = {0: "a", 1: "b"}, [[0, 2]]
    others = [CrowdData(FEATURES, said, known=labels), CrowdData(FEATURES, said, must_link=linked)]
    for unchanged in (silent, whole, *(replace(read, data=data) for data in others)):
        assert with_owners_of_few_weighed(unchanged) is unchanged
    assert weighed == []
    found = with_owners_of_few_weighed(read)
    assert weighed == [(found.guide, 0.05, len(asked), 0, len(asked), 30)]
    assert found.guide is not read.guide
    ReadAtWeight(0.05, 1.0).after(whole)
    assert len(weighed) == 2


def test_workers_are_rated_on_the_device_of_the_fit(silent, monkeypatch):
    """On ``meta``, where rates have no values that could be checked."""
    said = simulate_pairs(KINDS, [0.9, 0.5], [0.8, 0.5], pairs_per_worker=20, seed=0)
    heard = with_own_parts(with_answers_added(silent, CrowdData(FEATURES, said)))
    heard.same_cluster_by_position(*np.array([[0], [1]]))  # kept, as there are no values later
    for part in (heard.model, heard.guide):
        part.to("meta")
    monkeypatch.setattr(rereading, "with_rates", lambda _, rates: rates)
    rates = with_workers_rated_by(heard, heard.data, [0])
    assert {one.device.type for one in rates.values()} == {"meta"}


@pytest.mark.long
def test_more_answers_may_move_the_clusters():
    """Two components of one kind become one cluster when the answers say so."""
    four = small(CrowdData(FEATURES), 4, forms=1).fit(num_starts=1, progress=False)
    four = replace(four, train_on=replace(four.train_on, steps=()))
    said = simulate_pairs(KINDS, [0.9], [0.9], pairs_per_worker=5, seed=0)
    heard = with_answers_added(four, CrowdData(FEATURES, said))
    more = simulate_pairs(KINDS, [0.95] * 3, [0.95] * 3, pairs_per_worker=300, seed=1)
    updated = heard.update(more)
    assert clustering_accuracy(KINDS, updated.assignments) > 0.95


@pytest.mark.long
def test_answers_that_come_later_have_a_part_in_components_and_judge_who_gives_them(
    silent, tmp_path
):
    """At full weight, where components would be blurred at .05; the weights of before are kept."""
    said = simulate_pairs(KINDS, [0.9] * 3, [0.9] * 3, pairs_per_worker=40, seed=0)
    data = CrowdData(FEATURES, said)
    heard = with_answers_added(silent, data, 0.05)
    heard.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=data)
    more = simulate_pairs(KINDS, [0.95] * 3, [0.95] * 3, pairs_per_worker=100, seed=1)
    more["worker"] += 3
    whole = with_answers_added(silent, data).update(more)
    for updated in (heard.update(more), loaded.update(more)):
        assert updated.model.feature_weight == updated.model.prior_weight == 0.05
        components, found = (
            result.guide.posteriors["components"].natural_parameters.detach()
            for result in (whole, updated)
        )
        np.testing.assert_allclose(found, components, rtol=0.01, atol=0.01)
        rates_are_counts(updated, pd.concat([said, more], ignore_index=True))
        assert updated.workers["sensitivity"][3:].min() > 0.9
        assert clustering_accuracy(KINDS, updated.assignments) > 0.95


@pytest.mark.long
def test_an_update_trains_at_full_weight_and_is_read_like_the_fit(tmp_path):
    """Components of two kinds that few items tell apart would be blurred at a weight of .05."""
    said = simulate_pairs(KINDS, [0.9] * 3, [0.9] * 3, pairs_per_worker=60, seed=0)
    data = CrowdData(FEATURES, said)
    fitted = choice_for(data).forms[0].recipe(data, 2).fit(progress=False)
    read = with_feature_weight(fitted, 0.05)
    read.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=read.data)
    more = simulate_pairs(KINDS, [0.9] * 4, [0.9] * 4, pairs_per_worker=40, seed=1)
    more["worker"] += 3
    expected, updated = fitted.update(more), loaded.update(more)
    assert updated.model.feature_weight == step_of(updated, ReadAtWeight).feature_weight == 0.05
    components, found = (
        result.guide.posteriors["components"].natural_parameters.detach()
        for result in (expected, updated)
    )
    np.testing.assert_allclose(found, components, rtol=1e-6)
    rates_are_counts(updated, pd.concat([said, more], ignore_index=True))
    assert clustering_accuracy(KINDS, updated.assignments) > 0.95


def test_rows_with_gaps_are_heard_about_and_kept_in_files(tmp_path):
    gaps = np.random.default_rng(1).random(FEATURES.shape) < 0.1
    features = np.where(gaps, np.nan, FEATURES)
    silent = small(CrowdData(features), 2, forms=1).fit(num_starts=1, progress=False)
    said = simulate_pairs(KINDS, [0.9] * 3, [0.9] * 3, pairs_per_worker=60, seed=0)
    heard = with_answers_added(silent, CrowdData(features, said), 0.1)
    assert clustering_accuracy(KINDS, heard.assignments) > 0.95
    assert heard.workers["sensitivity"].min() > 0.75
    heard.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=heard.data)
    np.testing.assert_allclose(loaded.probabilities, heard.probabilities)
    np.testing.assert_allclose(loaded.predict_proba(features), heard.predict_proba(features))


@pytest.mark.parametrize("weight", [0.25, 1.0])
def test_a_weight_and_a_choice_at_the_first_answers_are_both_kept(silent, weight):
    """In whichever order they were added."""
    again = ChooseAgain(0, None, 1, 0, {})
    read = with_feature_weight(silent, 0.5)
    for result in (again.after(read), with_feature_weight(again.after(read), weight)):
        step = step_of(result, ReadAtWeight)
        assert step.feature_weight == result.model.feature_weight
        assert step_of(result, ChooseAgain) == again
        model, _ = step.before(result.model, result.guide, result.data, {})
        assert model.feature_weight == 1
