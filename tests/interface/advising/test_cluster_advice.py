"""Advice about the number of clusters, and about classes."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice, cluster
from pyro_crowdclust.interface.advising.cluster_advice import (
    about_clusters,
    about_new_kinds,
    about_repeated_columns,
)
from pyro_crowdclust.interface.choosing.overlaps import with_overlaps_joined
from pyro_crowdclust.simulation import simulate_pairs

from .fits import FEATURES, PAIRS, chosen_without, fixed


def test_more_clusters_are_needed():
    (sentence,) = advice(fixed(FEATURES, num_clusters=2))
    assert sentence == "all 2 clusters have items, so there may be more: allow a larger number"


def test_a_number_below_the_largest_that_was_allowed_is_enough():
    """Even if no larger one was tried."""
    result = chosen_without(FEATURES, 2)
    (sentence,) = advice(result)
    assert sentence.startswith("all 2 clusters have items")
    more = dataclasses.replace(result.chosen, most_components=100)
    assert advice(dataclasses.replace(result, chosen=more)) == []


def test_a_prior_that_expects_much_wider_components():
    """Thirty columns that go together: the prior expects each to vary by itself."""
    features = scale(load_breast_cancer().data)
    result = fixed(features, num_clusters=2)
    assert result.clusters["assigned_items"].max() > 0.9 * len(features)
    (sentence,) = advice(result)
    assert sentence.startswith("one cluster has 98% of the items, and the prior of the components")
    assert "pass callbacks=[LearnedPrior()] to fit" in sentence


CLOUD = np.random.default_rng(0).normal(size=(120, 2)) * [2.5, 1.0]


def test_a_cluster_of_two_components_that_overlap():
    joined = with_overlaps_joined(fixed(CLOUD, num_clusters=2))
    (sentence,) = advice(joined)
    assert sentence.startswith("cluster 0 is 2 components that overlap, of about ")
    assert sentence.endswith("; ask about some pairs of these items")
    sizes = joined.component_probabilities.sum(0).round().int().tolist()
    assert ", ".join(map(str, sorted(sizes, reverse=True))) + " items" in sentence
    pairs = CrowdData(CLOUD, {"left": [0], "right": [1], "worker": ["ann"], "label": [1]})
    assert about_clusters(dataclasses.replace(joined, data=pairs)) == []


def test_another_number_of_components_that_is_as_good():
    said = "3 components describe the features about as well, but divide cluster 0"
    result = chosen_without(FEATURES, 2)
    changes = {"most_components": 100, "other_number": said}
    result = dataclasses.replace(result, chosen=dataclasses.replace(result.chosen, **changes))
    assert advice(result) == [f"{said}; ask about some pairs of these items"]
    pairs = CrowdData(FEATURES, PAIRS)
    assert about_clusters(dataclasses.replace(result, data=pairs)) == []


def with_labels(known):
    """Two far clusters, and labels that have not moved an item."""
    fitted = fixed(FEATURES, num_clusters=4)
    return dataclasses.replace(fitted, data=CrowdData(FEATURES, known=known))


def test_classes_that_share_a_cluster_are_named():
    (sentence,) = advice(with_labels({0: "ash", 2: "birch", 4: "ash", 1: "fir"}))
    assert sentence.startswith("the features show other kinds than the labels")
    assert "no cluster is mainly of class 'birch';" in sentence


def test_classes_without_other_items_are_named():
    known = dict.fromkeys(range(1, 120, 2), "fir") | {0: "ash", 2: "ash"}
    (sentence,) = advice(with_labels(known))
    assert sentence.startswith("no item without a label is likeliest of class 'fir':")


def test_a_class_with_a_single_label_among_held_out_ones_is_named():
    known = dict.fromkeys(range(0, 20, 2), "ash") | {1: "fir"}
    (sentence,) = advice(with_labels(known))
    assert sentence.startswith("only one item is labelled as class 'fir',")
    known.pop(0)  # of nine labels and one none is held out
    assert advice(with_labels(known)) == []
    assert advice(with_labels(known | {0: "ash", 3: "fir"})) == []


@pytest.mark.parametrize(
    "known",
    [
        {0: "ash", 2: "ash", 1: "fir"},
        {0: "ash", 1: "ash"},
        {0: "ash", 2: "ash", 4: "fir", 1: "fir"},
    ],
    ids=["a cluster each", "one class", "one item elsewhere"],
)
def test_nothing_to_say_of_classes_with_clusters_of_their_own(known):
    assert advice(with_labels(known)) == []


def with_assignments(columns, assignments):
    """A table and the clusters of its rows, which is all that is looked at."""
    return SimpleNamespace(data=CrowdData(columns), assignments=assignments)


def test_clusters_that_are_the_values_of_a_column_are_no_news():
    halves = np.arange(120) % 2
    columns = {"height": FEATURES[:, 1], "sex": np.where(halves, "m", "f")}
    columns["site"] = np.where(np.arange(120) < 60, "north", "south")
    found = about_repeated_columns(with_assignments(pd.DataFrame(columns), halves))
    assert [sentence.split(",")[0] for sentence in found] == [
        "the clusters are the values of column 'sex'"
    ]


@pytest.mark.parametrize("same", [60, 90], ids=["unrelated", "related"])
def test_clusters_that_resemble_a_column_may_be_news(same):
    halves = np.arange(120) % 2
    sex = np.where(np.arange(120) < same, halves, 1 - halves)
    frame = pd.DataFrame({"height": FEATURES[:, 1], "sex": np.where(sex, "m", "f")})
    assert about_repeated_columns(with_assignments(frame, halves)) == []


@pytest.mark.long
def test_clusters_that_answers_confirm_may_be_a_column():
    kinds = np.arange(120) % 2
    frame = pd.DataFrame({"height": FEATURES[:, 0], "sex": np.where(kinds, "m", "f")})
    silent = cluster(frame, num_clusters=2, progress=False)
    said = [sentence for sentence in advice(silent) if "column 'sex'" in sentence]
    assert len(said) == 1
    answers = simulate_pairs(kinds, [0.95] * 3, [0.95] * 3, pairs_per_worker=50, seed=0)
    assert not any(
        "column" in sentence
        for sentence in advice(cluster(frame, answers, num_clusters=2, progress=False))
    )


def with_known(assignments, known):
    """What advice about new kinds uses of a fit."""
    data = CrowdData(np.zeros((len(assignments), 1)), known=known)
    return SimpleNamespace(data=data, assignments=np.array(assignments))


def test_a_large_cluster_without_the_labels_of_any_class():
    assignments = np.repeat([0, 1, 2, 3], [40, 36, 20, 4])
    known = [None] * 100
    known[0] = known[1] = known[40] = "a"
    known[41] = known[42] = "b"
    (sentence,) = about_new_kinds(with_known(assignments, known))
    assert sentence.startswith("cluster 2 has 20 items, and the labels of every class are mostly")
    known[76] = "a"  # one of four labels of its class
    assert about_new_kinds(with_known(assignments, known)) == [sentence]
    known[77] = "a"  # as many as in the first cluster
    assert about_new_kinds(with_known(assignments, known)) == []
    known[0] = known[1] = known[40] = known[76] = known[77] = None
    (sentence,) = about_new_kinds(with_known(assignments, known))
    assert sentence.startswith("clusters 0, 2 have 40, 20 items, and ")
    links = {"left": [0], "right": [1]}
    data = CrowdData(np.zeros((100, 1)), known=known, must_link=links)
    assert about_new_kinds(SimpleNamespace(data=data, assignments=assignments)) == []
