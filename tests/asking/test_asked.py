"""Who was asked what, of all workers and items."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.asked import Asked


@pytest.mark.parametrize("kind", ["labels", "placements", "pairs"])
def test_every_worker_was_asked_what_is_in_the_table(kind):
    said = {(0, 1), (0, 4), (1, 0), (1, 3), (2, 4), (2, 5)}
    worker, item = map(list, zip(*sorted(said), strict=True))
    table = {"item": item, "worker": worker}
    rest = {
        "labels": table | {"label": list("aababb")},
        "placements": table | {"page": worker, "group": [0] * 6},
        "pairs": {
            "left": item[::2],
            "right": item[1::2],
            "worker": worker[::2],
            "label": [1, 0, 1],
        },
    }
    asked = Asked(CrowdData(np.zeros((6, 1)), **{kind: rest[kind]}))
    workers, items = np.array([*itertools.product(range(-1, 3), range(6))]).T
    expected = [one in said for one in zip(workers, items, strict=True)]
    nothing = [False] * len(expected)
    assert asked.to_label(workers, items).tolist() == (expected if kind == "labels" else nothing)
    assert asked.to_place(workers, items).tolist() == (
        expected if kind == "placements" else nothing
    )
    left, right = np.triu_indices(6, 1)
    for one in range(-1, 3):
        found = asked.pairs(np.full(len(left), one), asked.pair_keys(right, left))
        whole = [{(one, i), (one, j)} <= said for i, j in zip(left, right, strict=True)]
        assert found.tolist() == ([False] * len(whole) if kind == "labels" else whole)
    # Of a worker who is always right all was heard.
    heard = asked.answered(np.array([0.5, 1.0, 0.8]))
    np.testing.assert_allclose(heard, [1, 0.5, 0, 1, 0.9, 0.8], atol=1e-8)


def test_nobody_need_be_asked_what_an_expert_said():
    known = ["ant", None, None, "bee", None, None, None]
    links = {"must_link": [(0, 1), (1, 2), (4, 5)], "cannot_link": [(5, 6)]}
    asked = Asked(CrowdData(np.eye(7), known=known, **links))
    assert asked.has_class.tolist() == [True, True, True, True, False, False, False]
    left, right = np.triu_indices(7, 1)
    settled = {(i, j) for i, j in itertools.combinations(range(4), 2)}
    settled |= {(4, 5), (4, 6), (5, 6)}
    for one, other in ((left, right), (right, left)):
        found = [pair in settled for pair in zip(left, right, strict=True)]
        assert asked.is_settled(one, other).tolist() == found
    np.testing.assert_allclose(asked.answered(np.empty(0)), [1, 1, 1, 1, 0, 0, 0])


@pytest.mark.long
def test_pairs_of_many_workers_are_not_mixed_up():
    """2^16 workers times 2^48 pairs of positions are more than an integer holds."""
    worker = np.arange(2**16 + 1)
    table = {"left": worker, "right": worker + 1, "worker": worker, "label": worker % 2}
    asked = Asked(CrowdData(None, table, item_ids=pd.RangeIndex(2**24)))
    key = asked.pair_keys(worker + 1, worker)
    assert asked.pairs(worker, key).all()
    assert not asked.pairs(worker[::-1], key)[[0, -1]].any()
