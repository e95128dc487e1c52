"""Advice about must-links that alone join what the features tell apart."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice, cluster
from pyro_crowdclust.interface.advising.link_advice import about_single_links

# Components of 40, 40, 16 and 4 items, of which the first three are one cluster.
COMPONENT = np.repeat([0, 1, 2, 3], [40, 40, 16, 4])
FIRST, SECOND, THIRD, FEW = 0, 40, 80, 96
AT_FIRST = "the features tell items apart that only single must-links join to one cluster: check "


def about(links, cannot=(), clusters=(0, 0, 0, 1)):
    def frame(pairs):
        left, right = zip(*pairs, strict=True)
        return {"left": left, "right": right}

    no = frame(cannot) if cannot else None
    data = CrowdData(np.zeros((100, 1)), must_link=frame(links), cannot_link=no)
    result = SimpleNamespace(
        data=data,
        owners=np.eye(2)[list(clusters)],
        component_probabilities=torch.eye(4)[COMPONENT].double(),
        assignments=np.array(clusters)[COMPONENT],
    )
    return about_single_links(result)


def test_every_single_link_between_large_parts_is_named():
    (sentence,) = about([(FIRST, SECOND), (SECOND, THIRD)])
    assert sentence == (
        AT_FIRST + "(0, 40), (40, 80), and add a link that confirms each, or leave each out"
    )
    (sentence,) = about([(FIRST, SECOND), (FIRST + 1, SECOND + 1), (THIRD, SECOND + 2)])
    assert sentence == AT_FIRST + "(80, 42), and add a link that confirms it, or leave it out"


@pytest.mark.parametrize(
    ("links", "clusters"),
    [
        ([(FIRST, SECOND), (SECOND, THIRD), (THIRD, FIRST)], (0, 0, 0, 1)),
        ([(FIRST, FIRST + 1), (FIRST, SECOND), (FIRST + 1, SECOND)], (0, 0, 0, 1)),
        ([(FIRST, SECOND)], (0, 1, 1, 1)),  # the link is not believed
        ([(FIRST, FEW)], (0, 1, 1, 0)),
    ],
    ids=["confirmed by a third", "by another", "across clusters", "a small part"],
)
def test_nothing_is_said_of_other_links(links, clusters):
    assert about(links, clusters=clusters) == []


def test_a_cannot_link_joins_nothing():
    (sentence,) = about([(FIRST, SECOND)], cannot=[(FIRST + 1, SECOND + 1)])
    assert "(0, 40)" in sentence
    assert "(1, 41)" not in sentence


@pytest.mark.long
def test_two_wrong_links_of_clear_kinds_are_named():
    rng = np.random.default_rng(0)
    kinds = np.arange(90) % 3
    features = rng.normal(size=(90, 2)) + np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])[kinds]
    wrong = {"left": [0, 1], "right": [1, 2]}
    said = advice(cluster(features, must_link=wrong, progress=False))
    assert any(sentence.startswith(AT_FIRST + "(0, 1), (1, 2)") for sentence in said)
    right = {"left": [0, 1], "right": [3, 4]}
    said = advice(cluster(features, must_link=right, progress=False))
    assert not any(sentence.startswith(AT_FIRST) for sentence in said)
