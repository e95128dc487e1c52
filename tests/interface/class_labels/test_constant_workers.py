"""Workers who always give the same class label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.class_labels.constant_workers import (
    always_say_the_same,
    say_nothing,
)


def of_rows(*rows: list[int]) -> CrowdData:
    """A row of labels for every worker, about the first items."""
    said = [(i, worker, label) for worker, row in enumerate(rows) for i, label in enumerate(row)]
    frame = pd.DataFrame(said, columns=["item", "worker", "label"])
    return CrowdData(None, labels=frame)


@pytest.mark.parametrize(
    ("labels", "constant", "silent"),
    [
        ([0] * 30, True, True),
        ([1] * 30, True, True),
        ([0] * 29 + [1], False, False),
        ([0] * 9, False, False),
        ([1] * 11, True, True),
        ([0] * 11, True, False),  # two thirds of the others' labels are 0
    ],
)
def test_a_worker_beside_one_who_varies(labels, constant, silent):
    data = of_rows([0, 0, 1] * 10, labels)
    assert always_say_the_same(data).tolist() == [False, constant]
    assert say_nothing(data).tolist() == [False, silent]


def test_if_nobody_varies_nobody_shows_how_often_a_class_is_named():
    data = of_rows([0] * 50, [1] * 50)
    assert always_say_the_same(data).all()
    assert not say_nothing(data).any()


def test_a_rare_class_may_not_have_occurred():
    rare = np.zeros(100, int)
    rare[:2] = 1
    assert not say_nothing(of_rows(rare.tolist(), [0] * 100)).any()
