"""Few answers, none of which were seen by fits of the features, decide how these are read."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.integrate import dblquad
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice
from pyro_crowdclust.interface.choosing.at_weights import AtWeights
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.complete_fits import CompleteFit
from pyro_crowdclust.interface.choosing.corrections import explained_by_features
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.choosing.rereading import grouped, with_answers_added
from pyro_crowdclust.interface.choosing.trials import Trial
from pyro_crowdclust.interface.choosing.unseen_answers import Reading, UnseenAnswers, average
from pyro_crowdclust.results import Chosen
from pyro_crowdclust.simulation import simulate_pairs

from ..small_choices import small

NUM_ITEMS = 120
# Six clouds; people see three kinds, of two neighbouring clouds each.
CLOUD = np.arange(NUM_ITEMS) % 6
SEEN = CLOUD // 2
FEATURES = (12.0 * SEEN + 5.0 * (CLOUD % 2))[:, None] + np.random.default_rng(0).normal(
    size=(NUM_ITEMS, 2)
)


def said_of(kinds: np.ndarray, number: int, rate: float = 1.0, seed: int = 0):
    return simulate_pairs(kinds, [rate] * 2, [rate] * 2, pairs_per_worker=number // 2, seed=seed)


@pytest.fixture(scope="module")
def silent():
    """A fit as a search has it, which doubts nothing."""
    found = small(CrowdData(FEATURES), 6, forms=1).fit(num_starts=1, progress=False)
    return replace(found, doubt=None)


def test_evidence_is_an_integral_over_the_rates(silent):
    """Of one worker, whose rates have a density of 4 a b."""
    said = said_of(SEEN, 12)[:5].assign(worker=0)
    unseen = UnseenAnswers(CrowdData(FEATURES, said), [silent], 0)
    same = np.array([0.9, 0.2, 0.5, 0.99, 0.1])
    label = said["label"].to_numpy()

    def density(b, a):
        if_same, if_different = np.where(label, a, 1 - a), np.where(label, 1 - b, b)
        by_answer = same * if_same + (1 - same) * if_different
        return 4 * a * b * by_answer.prod()

    exact, _ = dblquad(density, 0, 1, 0, 1)
    (found,) = unseen.log_evidence(same[None])
    assert found == pytest.approx(np.log(exact), abs=0.02)


def test_readings_share_clusters_as_their_fit_does(silent):
    unseen = UnseenAnswers(CrowdData(FEATURES, said_of(SEEN, 20)), [silent], 0)
    whole = next(unseen.readings_of(silent))
    ends = unseen.items[unseen.first], unseen.items[unseen.second]
    assert whole.weight == 1
    np.testing.assert_allclose(whole.same, silent.same_cluster_by_position(*ends), atol=1e-6)
    # At every weight clusters are joined one by one, and every join has its price.
    sizes = [len(one.group.unique()) for one in unseen.readings_of(silent) if one.weight == 1]
    assert sizes == list(range(sizes[0], sizes[-1] - 1, -1))


def test_the_average_is_by_evidence_and_certainty_pays():
    group = torch.arange(2)
    sure = Reading(1.0, group, 0.0, np.array([1.0, 0.0]))
    vague = Reading(0.2, group, 0.0, np.array([0.6, 0.4]))
    expected = average([sure, vague])
    np.testing.assert_allclose(expected, [0.8, 0.2])
    assert vague.score(expected) > sure.score(expected)
    likelier = Reading(1.0, group, 20.0, sure.same)
    expected = average([likelier, vague])
    assert likelier.score(expected) > vague.score(expected)


@pytest.mark.long
def test_few_answers_join_components():
    result = small(CrowdData(FEATURES, said_of(SEEN, 30)), 6, forms=1).fit(
        num_starts=1, progress=False
    )
    assert adjusted_rand_score(SEEN, result.assignments) > 0.9
    assert (result.workers["specificity_upper"] > 0.95).all()
    (row,) = result.chosen.table[result.chosen.table["chosen"]].to_dict("records")
    assert row["feature_weight"] == result.model.feature_weight < 1
    assert "6 components are 3 clusters" in result.chosen.reason
    assert "it was not tested" in result.chosen.reason
    assert any("join components" in sentence for sentence in advice(result))
    more = result.update(said_of(SEEN, 60, seed=1), progress=False)
    assert more.model.feature_weight == more.model.prior_weight == 1
    assert adjusted_rand_score(SEEN, more.assignments) == 1


def test_answers_that_contradict_features_lower_their_weight(silent):
    other = np.arange(NUM_ITEMS) // 6 % 2
    weights = []
    for kinds in (CLOUD, other):
        unseen = UnseenAnswers.of(CrowdData(FEATURES, said_of(kinds, 40)), [silent], 0)
        assert unseen is not None
        reading = unseen.nearest(silent)
        assert reading is not None
        weights.append(reading.weight)
    assert weights[0] >= 0.25
    assert weights[1] <= 0.05


def test_answers_that_are_all_the_same_or_grades_decide_nothing(silent):
    said = said_of(SEEN, 20)
    alike = CrowdData(FEATURES, said.assign(label=1))
    graded = CrowdData(FEATURES, said, grades=[0, 1, 2])
    assert UnseenAnswers.of(alike, [silent], 0) is None
    assert UnseenAnswers.of(graded, [silent], 0) is None


def test_one_cluster_cannot_be_read():
    one = small(CrowdData(FEATURES), 1, forms=1).fit(num_starts=1, progress=False)
    data = CrowdData(FEATURES, said_of(SEEN, 20))
    assert UnseenAnswers.of(data, [one], 0) is None


def test_clusters_that_explain_the_answers_worse_make_way_for_those_of_the_features(silent):
    """Six clouds in two clusters that people do not see, so that workers seem to guess."""
    space = small(CrowdData(FEATURES, said_of(SEEN, 300, 0.85)), 6, forms=1)
    lumped, seen = (
        with_answers_added(grouped(silent, _clusters_of(silent, kinds)), space.data)
        for kinds in (CLOUD % 2, SEEN)
    )
    lumped, seen = (replace(one, chosen=Chosen(pd.DataFrame(), "")) for one in (lumped, seen))
    doubtful = partial(_doubtful, Search(space, 0, False))
    read = explained_by_features(doubtful(lumped)).fitted
    assert adjusted_rand_score(SEEN, read.assignments) > 0.9
    assert "worse than those of the features alone, by" in read.chosen.reason
    assert read.chosen.table["chosen"].sum() == 1
    assert advice(read)[0].startswith("there are too few answers to see whether they predict")
    scored = replace(read.chosen, table=read.chosen.table.assign(held_out=-0.6))
    assert advice(replace(read, chosen=scored))[0].startswith("the answers are too few to learn")
    blamed, rated = (one.workers["sensitivity"].to_numpy() for one in (lumped, read))
    assert (abs(rated - 0.85) < 0.1).all()
    assert (blamed < 0.7).all()
    # The search without answers is run once, and clusters that people see are kept.
    assert explained_by_features(doubtful(seen)).fitted is seen


def _doubtful(search, fitted):
    """A complete fit whose answers seem to be explained by blaming the workers."""
    form = search.space.forms[0]
    best = Trial(form, 6, 0.0, AtWeights(np.zeros((1, 1))), 6, 0.0)
    recipe = form.recipe(search.space.data, 6)
    options = {"progress": False}
    decision = Decision(best, "")
    return CompleteFit(search, decision, recipe, range(1), options, *[fitted] * 3, True)


def _clusters_of(fitted, kinds):
    """For every component, the first one with most of its items in the same kind."""
    kind = [np.bincount(kinds[fitted.assignments == k], minlength=3).argmax() for k in range(6)]
    return torch.tensor([kind.index(one) for one in kind])
