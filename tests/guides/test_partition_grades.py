"""Clusters from graded answers alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted, fit
from pyro_crowdclust.annotators import GradedAnswers
from pyro_crowdclust.asking import Pages, Pairs, suggest
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import (
    PitmanYor,
)

from .answered_crowds import LARGE


def fit_to_grades(number: int) -> Fitted:
    """So many grades 0 to 3 by two workers; those of the second are half a scale lower."""
    rng = np.random.default_rng(0)
    left, right = np.sort(rng.integers(60, size=(2, number)), axis=0)
    worker, kept = rng.integers(2, size=number), left != right
    level = np.where(LARGE[left] == LARGE[right], 2, 0) + rng.integers(2, size=number)
    grade = np.where(worker == 1, level // 2, level).astype(float)
    grade[rng.random(number) < 0.05] = np.nan
    frame = {"left": left, "right": right, "worker": worker, "label": grade}
    frame = pd.DataFrame(frame)[kept].drop_duplicates(["left", "right", "worker"])
    data = CrowdData(None, frame, grades=[0, 1, 2, 3], item_ids=range(60))
    model = AnsweredPartition(GradedAnswers(2, 4), PitmanYor())
    options = {"batch_size": None, "step_size": 0.3, "epochs": 15, "progress": False}
    return fit(model, PartitionGuide(model, 60, 8), data, dtype=torch.float64, **options)


@pytest.fixture(scope="module")
def graded():
    return fit_to_grades(2000)


def test_grades_find_clusters_and_thresholds(graded):
    assert clustering_accuracy(LARGE, graded.assignments) > 0.97
    highest = graded.workers["grades_4_3"].to_numpy()
    assert highest[0] > 0.4 > 0.2 > highest[1]
    assert graded.workers["weight"].between(1, 30).all()


def test_shares_of_grades_are_those_of_pairs_that_are_the_same_or_differ(graded):
    """Whatever level of the scale such pairs have: as often as workers give each grade to them."""
    pairs = graded.data.pairs
    same = LARGE[pairs["left"]] == LARGE[pairs["right"]]
    said = pairs["label"].astype(object).where(pairs["label"].notna(), "unsure")
    for name, own in (("if_same", same), ("if_different", ~same)):
        counts = pd.crosstab(pairs["worker"][own], said[own], normalize="index")
        for grade in (0, 1, 2, 3, "unsure"):
            found = graded.workers[f"{name}_{grade}"]
            assert (abs(found - counts.get(grade, 0.0)) < 0.05).all()


def test_what_to_ask_next_after_grades(graded):
    few = fit_to_grades(300)
    found = suggest(few, Pairs(), count=4, exploration=0.0)
    assert len(found.frame) == 4
    assert found.frame["gain"].min() > 0
    # But for "can't tell", no grade is given both to pairs that are the same and to others.
    with pytest.warns(UserWarning, match="nothing is expected to be learned from any question"):
        found = suggest(graded, Pairs(), count=1)
    assert found.workers["reliability"].min() > 0.9
    with pytest.raises(ValueError, match="workers of this fit grade pairs"):
        suggest(graded, Pages(6), count=1)


def test_grades_need_annotators_of_as_many():
    frame = {"left": [0], "right": [1], "worker": [0], "label": [2]}
    data = CrowdData(None, frame, grades=[1, 2, 3])
    with pytest.raises(ValueError, match="1 with 4 grades, but the data have 1 with 3"):
        AnsweredPartition(GradedAnswers(1, 4), PitmanYor()).check(data)
