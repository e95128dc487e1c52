"""Advice about the number of clusters, and about classes."""

from __future__ import annotations

import dataclasses

import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice

from .fits import FEATURES, chosen_without, fixed


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
