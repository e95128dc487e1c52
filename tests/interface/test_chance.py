"""Answers by chance: each worker has own shares, shrunk to those of everybody."""

from __future__ import annotations

import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.chance import log_chance


def test_chance_knows_who_always_says_the_same():
    left, right = list(range(8)), list(range(1, 9))
    pairs = {"left": left, "right": right, "worker": list("aaaabbbb")}
    data = CrowdData(None, pairs | {"label": [1, 1, 1, 1, 0, 0, 1, 0]})
    found = log_chance(data, data.answers).exp().tolist()
    same = 6 / 10
    of_a, of_b = (4 + 4 * same) / 8, (1 + 4 * same) / 8
    assert found == pytest.approx([of_a] * 4 + [1 - of_b] * 2 + [of_b, 1 - of_b])


def test_cannot_tell_is_a_label_of_its_own():
    pairs = {"left": [0, 1, 2], "right": [1, 2, 3], "worker": list("aab"), "label": [2, None, 1]}
    data = CrowdData(None, pairs, grades=[1, 2])
    assert len(data.answers.label) == 3
    total = log_chance(data, data.answers).exp()
    # Every label has been given once, and of worker a two of the three.
    assert total.tolist() == pytest.approx([(1 + 4 / 3) / 6, (1 + 4 / 3) / 6, (1 + 4 / 3) / 5])
