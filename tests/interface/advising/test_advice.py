"""Advice is given where it is due, and only there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.interface import cluster
from pyro_crowdclust.interface.advising.advice import advice
from pyro_crowdclust.interface.choosing import explaining
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters, LikenessRegression
from pyro_crowdclust.simulation import simulate_pairs

from .fits import FEATURES, FINE, PAIRS, chosen, chosen_without, fixed


def fit_partition(pairs, likeness=None, **options):
    """A fit to answers alone."""
    data = CrowdData(None, pairs, likeness=likeness)
    workers = TwoCoin(data.num_workers, (4.0, 1.0), (4.0, 1.0))
    looks = None if likeness is None else LikenessRegression(1)
    model = AnsweredPartition(workers, FewClusters(), likeness=looks)
    guide = PartitionGuide(model, data.num_items)
    return fit(model, guide, data, batch_size=None, step_size=0.2, progress=False, **options)


@pytest.mark.long
def test_nothing_to_say_of_a_good_fit():
    coarse = simulate_pairs(FINE % 2, [0.95] * 3, [0.95] * 3, pairs_per_worker=100, seed=0)
    assert advice(chosen(FEATURES, coarse, 3, 6)) == []


@pytest.mark.long
def test_clusters_that_collapsed():
    (sentence,) = advice(chosen(FEATURES[:, :1], PAIRS, 1))
    assert sentence.startswith("all items are in one cluster")


def test_a_crowd_that_guesses():
    guesses = simulate_pairs(FINE, [0.5] * 3, [0.5] * 3, pairs_per_worker=300, seed=0)
    (sentence,) = advice(fixed(FEATURES, guesses, num_clusters=4))
    assert "seem to guess" in sentence


@pytest.mark.long
def test_a_crowd_that_sees_what_features_do_not_show_is_not_blamed(monkeypatch):
    """Whether or not so few answers tell each other."""
    monkeypatch.setattr(explaining, "answers_predict_each_other", lambda *_: True)
    kinds = np.random.default_rng(1).integers(3, size=len(FEATURES))
    seen = simulate_pairs(kinds, [0.9] * 4, [0.9] * 4, pairs_per_worker=50, seed=1)
    (sentence,) = advice(chosen(FEATURES, seen, 2, 3))
    assert "these clusters do not explain the answers, so the crowd sees something else" in sentence
    assert "add features that show what the crowd sees" in sentence


@pytest.mark.long
def test_a_given_model_that_does_not_suit_the_columns():
    """Clusters of noise, and people who see kinds."""
    kind = np.arange(60) % 3
    seen = simulate_pairs(kind, [0.95] * 3, [0.95] * 3, pairs_per_worker=300, seed=0)
    noise = np.random.default_rng(0).normal(size=(60, 30))
    for answers, is_said in (
        (seen, True),
        (seen.assign(label=seen["label"].sample(frac=1, random_state=0).to_numpy()), False),
    ):
        found = advice(fixed(noise, answers, num_clusters=3, callbacks=()))
        assert (
            any(one.startswith("by these clusters workers hardly say") for one in found) == is_said
        )


def test_answers_that_say_the_opposite():
    swapped = simulate_pairs(FINE % 2, [0.05] * 3, [0.05] * 3, pairs_per_worker=100, seed=0)
    (sentence,) = advice(chosen(FEATURES, swapped, 2, 3))
    assert sentence.startswith("most answers say the opposite of what the clusters show, and the")


@pytest.mark.long
def test_answers_alone_that_tell_nothing():
    """Workers look right among clusters that were made of their guesses."""
    guesses = simulate_pairs(FINE, [0.5] * 3, [0.5] * 3, pairs_per_worker=60, seed=0)
    result = cluster(None, guesses, epochs=10, progress=False)
    (sentence,) = advice(result)
    assert sentence.startswith(f"{result.chosen.reason}; the rates of workers")
    assert "these clusters (few clusters) are guesses" in result.chosen.reason


def test_swapped_answers_alone():
    """Different in three pairs of four: one cluster, of a crowd that is often wrong."""
    right = simulate_pairs(FINE[:24] % 4, [0.9] * 3, [0.9] * 3, pairs_per_worker=100, seed=0)
    assert advice(fit_partition(right, epochs=20)) == []
    (sentence,) = advice(fit_partition(right.assign(label=1 - right["label"]), epochs=20))
    assert sentence.startswith("all items are in one cluster, though the crowd often said")
    assert sentence.endswith(
        'check that 1 is "same" and 0 "different" in the answers, and not the other way round'
    )


@pytest.mark.parametrize(("per_worker", "accuracy", "are_placed"), [(20, 0.9, 0), (120, 0.95, 1)])
def test_items_that_could_not_be_placed_are_no_clusters(per_worker, accuracy, are_placed):
    rates = [accuracy] * 3
    said = simulate_pairs(np.arange(60) % 4, rates, rates, pairs_per_worker=per_worker, seed=0)
    result = fit_partition(said, epochs=60)
    found, sizes = advice(result), np.bincount(result.assignments)
    assert len(found) == 1 - are_placed
    for sentence in found:
        assert f"of {len(result.assignments)} items could not be placed" in sentence
        larger = sizes[sizes > 2]
        clusters = f"{len(sizes)}, says little ({len(larger)} of them are larger, and hold"
        assert f"the number of clusters, {clusters} {larger.sum()} items)" in sentence
        assert sentence.endswith("; ask about more pairs")


@pytest.mark.parametrize("lists_all", [False, True])
def test_clusters_of_pairs_that_are_not_listed(lists_all):
    """A quarter of the pairs was asked about and listed, or all others are listed, too."""
    kind = np.arange(24) % 2
    left, right = np.triu_indices(24, 1)
    listed = np.random.default_rng(0).permutation(len(left))
    few = listed[:70]
    table = pd.DataFrame({"left": left, "right": right, "alike": np.cos(left + 2 * right)})
    said = pd.DataFrame({"left": left[few], "right": right[few], "worker": "a"})
    said["label"] = (kind[left[few]] == kind[right[few]]).astype(int)
    result = fit_partition(said, table if lists_all else table.iloc[few], epochs=20)
    assert len(np.unique(result.assignments)) == 2
    found = [sentence for sentence in advice(result) if "in one cluster are not in" in sentence]
    assert len(found) == (not lists_all)
    inside = kind[left] == kind[right]
    number = int(inside.sum() - inside[few].sum())
    for sentence in found:
        assert sentence.startswith(f"{number} of {inside.sum()} pairs in one cluster")


LAZY = simulate_pairs(
    FINE % 3, [0.9] * 2 + [1.0] * 4, [0.9] * 2 + [0.0] * 4, pairs_per_worker=100, seed=0
)
ONE_ANSWER = "some workers nearly always give the same answer, whatever the pair, which says"


def test_workers_who_always_say_the_same_are_named():
    """Up to three of them, instead of a crowd that guesses."""
    (sentence,) = advice(fixed(FEATURES, LAZY, num_clusters=4))
    assert sentence.startswith(ONE_ANSWER)
    assert "(in workers: 2, 3, 4, ...)" in sentence
    assert sentence.endswith("; leave their answers out, or ask them again")


def test_few_answers_of_who_always_says_the_same_are_not_worth_a_word():
    few = LAZY[LAZY["worker"].isin(sorted(LAZY["worker"].unique())[:3])]
    few = few.groupby("worker").head(100)
    last = few["worker"] == few["worker"].max()
    some = pd.concat([few[~last], few[last].head(40)])
    assert not any(ONE_ANSWER in one for one in advice(fixed(FEATURES, some, num_clusters=4)))
    assert any(ONE_ANSWER in one for one in advice(fixed(FEATURES, few, num_clusters=4)))


def test_workers_who_always_say_the_same_are_named_without_features():
    sentences = advice(fit_partition(LAZY, epochs=2))
    assert sentences[0].startswith(ONE_ANSWER)
    assert not any("the other way round" in sentence for sentence in sentences)


@pytest.mark.long
def test_features_that_do_not_show_what_the_crowd_sees():
    kinds = np.random.default_rng(1).integers(0, 2, 120)
    seen = simulate_pairs(kinds, [0.95] * 3, [0.95] * 3, pairs_per_worker=300, seed=0)
    noise = np.random.default_rng(0).normal(size=(120, 2))
    result = chosen(noise, seen, 2, 4)
    sentences = advice(result)
    assert result.chosen.uses_answers
    assert any("show little of what the crowd sees" in sentence for sentence in sentences)
    assert not any("guess" in sentence or "alone" in sentence for sentence in sentences)


@pytest.mark.long
def test_answers_that_are_not_heard_are_always_spoken_of():
    """Whatever else there is to say: as the choice has decided, not as figures are compared."""
    few = simulate_pairs(FINE % 3, [0.9], [0.9], pairs_per_worker=100, items=range(30), seed=0)
    result = chosen(FEATURES, few, 2)
    assert not result.chosen.uses_answers
    for chance in (-9.0, -0.7, 0.0):
        other = dataclasses.replace(result.chosen, chance=chance)
        sentences = advice(dataclasses.replace(result, chosen=other))
        assert any("clusters are learned from the features alone" in one for one in sentences)


@pytest.mark.long
def test_a_crowd_that_always_says_the_same_word():
    for label, word in enumerate(["different", "same"]):
        said = PAIRS.assign(label=label)
        sentence, of_rates = advice(chosen(FEATURES, said, 2, 3))
        assert sentence.startswith(f'nearly all answers are "{word}"')
        assert of_rates.startswith(f'all answers are "{word}", from which the rates')


@pytest.mark.long
def test_answers_that_are_few():
    """They neither split nor join clear clusters, nor call their worker one who guesses."""
    result = chosen(FEATURES, PAIRS[:6], 2, 3)
    (sentence,) = advice(result)
    assert sentence.startswith("there are too few answers")
    silent = chosen_without(FEATURES, 2, 3)
    assert adjusted_rand_score(silent.assignments, result.assignments) == 1


def test_training_that_was_cut_short():
    result = fixed(FEATURES, num_clusters=6, epochs=10, step_size=0.02)
    assert advice(result) == ["the ELBO was still rising at the end: train for more epochs"]


def test_the_elbo_of_a_drawn_partition_rises_and_falls():
    few = PAIRS.head(40)
    fitted = fit_partition(few, epochs=12)
    rising = fitted.history.assign(elbo=np.arange(float(len(fitted.history))))
    drawn = dataclasses.replace(fitted, history=rising, stop_reason="budget: 12 steps in 12 epochs")
    assert not any("rising" in sentence for sentence in advice(drawn))


@pytest.mark.parametrize("stop_reason", ["converged: ...", "interrupted by the user"])
def test_only_a_budget_cuts_training_short(stop_reason):
    class Result:
        history = pd.DataFrame({"elbo": np.arange(20.0)})
        clusters = pd.DataFrame({"assigned_items": [5, 0]})
        data = CrowdData(FEATURES)
        chosen = None
        model = None
        guide = None

    Result.stop_reason = stop_reason
    assert advice(Result) == []
