"""Tables of a few items, as somebody types them in to see what happens."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, Fitted, load
from pyro_crowdclust.interface import choice_for, classify, cluster
from pyro_crowdclust.interface.advising.advice import advice
from pyro_crowdclust.interface.choosing import deciding
from pyro_crowdclust.interface.choosing.clustering_search import Search
from pyro_crowdclust.interface.choosing.decisions import Decision
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.training import is_interrupted

from ..control_c import press_in_start
from .small_choices import small

KINDS = np.arange(6) % 2
FEATURES = np.random.default_rng(0).normal(size=(6, 2)) + 8.0 * KINDS[:, None]


def said(*pairs: tuple[int, int], workers: str = "a", kinds: np.ndarray = KINDS) -> pd.DataFrame:
    """What workers who know the kinds say of these pairs."""
    rows = [
        (left, right, worker, kinds[left] == kinds[right])
        for worker in workers
        for left, right in pairs
    ]
    return pd.DataFrame(rows, columns=["left", "right", "worker", "label"])


def quick(features: np.ndarray, answers: pd.DataFrame, *sizes: int, forms: int = 1) -> Fitted:
    choice = small(CrowdData(features, answers), *sizes, forms=forms)
    return choice.fit(num_starts=1, progress=False)


def halves_of_a_cloud(number: int = 18) -> tuple[np.ndarray, pd.DataFrame, np.ndarray]:
    """Thirty items without clusters, and answers about which half they are in."""
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(30, 2))
    halves = (cloud[:, 0] > 0).astype(int)
    asked = rng.permutation([(left, right) for left in range(30) for right in range(left)])[:number]
    return cloud, said(*map(tuple, asked.tolist()), kinds=halves), halves


@pytest.mark.long
def test_few_answers_part_the_one_cluster_that_features_show():
    cloud, answers, halves = halves_of_a_cloud()
    result = quick(cloud, answers, 2)
    assert clustering_accuracy(halves, result.assignments) == 1.0
    assert result.chosen.uses_answers
    assert result.chosen.reason.startswith("the features alone show one cluster, so the answers")


@pytest.mark.long
def test_answers_part_one_cluster_also_where_its_candidate_had_two(monkeypatch):
    """Which one start on some of the items may show, and the fit to all does not."""
    cloud, answers, halves = halves_of_a_cloud(number=300)

    def without_answers(search: Search) -> Decision | None:
        if search.space.by_features is None:
            return None
        without = search.without_answers
        return Decision(without.best, "nothing is heard", without=without)

    monkeypatch.setattr(deciding, "RULES", (without_answers, *deciding.RULES))
    result = quick(cloud, answers, 2)
    assert clustering_accuracy(halves, result.assignments) > 0.9
    assert result.chosen.reason.startswith("the features alone show one cluster, so the answers")


@pytest.mark.long
def test_three_items_and_what_is_said_of_them():
    result = quick(FEATURES[:3], said((0, 1), (0, 2), (1, 2), workers="abc"), 2, forms=3)
    np.testing.assert_array_equal(result.assignments == result.assignments[0], [True, False, True])
    (sentence,) = advice(result)
    assert sentence.startswith(
        "there are too few answers to see whether they predict answers about other items;"
    )


@pytest.mark.long
def test_few_answers_leave_clusters_that_features_show_alone():
    result = quick(FEATURES, said((0, 1), (0, 2)), 2, 3)
    assert clustering_accuracy(KINDS, result.assignments) == 1.0
    assert not result.chosen.uses_answers
    assert result.chosen.reason.startswith("there are too few answers to hold some out")


@pytest.mark.long
def test_two_items_may_be_two_clusters_if_somebody_was_asked():
    assert choice_for(CrowdData(FEATURES[:2])).sizes == [1]
    assert choice_for(CrowdData(FEATURES[:2], said((0, 1)))).sizes == [2]
    data = CrowdData(FEATURES[:2], cannot_link=[(0, 1)])
    result = small(data, *choice_for(data).sizes, forms=1).fit(num_starts=1, progress=False)
    assert len({*result.assignments}) == 2


@pytest.mark.long
def test_ctrl_c_while_few_answers_are_heard_keeps_what_features_show(monkeypatch):
    cloud, answers, _ = halves_of_a_cloud()
    press_in_start(monkeypatch, 3)  # after a trial and the fit without answers
    result = quick(cloud, answers, 2)
    assert is_interrupted(result)
    assert not result.chosen.uses_answers


@pytest.mark.long
def test_going_on_from_one_cluster_that_answers_had_no_part_in():
    result = cluster(FEATURES[:2], said((0, 1)), num_clusters=1, progress=False)
    updated = result.update(said((0, 1), workers="b"), features=FEATURES[2:])
    assert updated.assignments.tolist() == [0] * 6
    assert updated.workers.index.tolist() == ["a", "b"]


def test_three_items_need_no_more_clusters():
    """Two of them hold items, and a third would be of one item alone."""
    table = pd.DataFrame({"height": [1.5, np.nan, 3.0], "colour": ["red", "blue", None]})
    result = cluster(table, said((0, 1)), num_starts=1, progress=False)
    assert not any("raise their number" in sentence for sentence in advice(result))


@pytest.mark.long
@pytest.mark.parametrize("num_items", [1, 2, 4])
def test_everything_that_is_done_with_a_result(num_items, tmp_path):
    answers = said((0, 1)) if num_items > 1 else None
    result = cluster(FEATURES[:num_items], answers, num_starts=1, progress=False)
    assert report_page(result).startswith("<!doctype html>")
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(loaded.assignments, result.assignments)
    assert loaded.predict(FEATURES[4:]).shape == (2,)


@pytest.mark.long
def test_classes_of_tables_with_two_labels():
    labels = pd.DataFrame({"item": [0, 1], "worker": ["ann", "ann"], "label": ["x", "y"]})
    found = classify(FEATURES, labels, epochs=20, progress=False).class_probabilities
    assert found.idxmax(axis=1)[:2].tolist() == ["x", "y"]
    with pytest.raises(
        ValueError, match="there are labels of 1 item, but labels of at least two are"
    ):
        classify(FEATURES, labels.assign(item=0), progress=False)
