"""Which pairs may be asked about."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking import Pairs
from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.criteria import InformationGain, Random
from pyro_crowdclust.asking.pair_questions import _between_components, _candidates, _promising


def test_every_component_is_compared_with_every_other_one_by_its_core():
    """Of six components two of three items are their core; one of the seventh is all it has."""
    held = np.repeat(np.eye(7), [3] * 6 + [1], axis=0)
    bound = np.append(np.tile([0.9, 0.8, 0.3], 6), 0.2)
    beliefs = SimpleNamespace(components=held, bound=bound, together=np.eye(7))
    pairs = _between_components(
        SimpleNamespace(beliefs=beliefs, generator=np.random.default_rng(0))
    )
    found = [frozenset(pair) for pair in held.argmax(1)[pairs].tolist()]
    # Once from either side, and none with itself.
    assert {(len(pair), found.count(pair)) for pair in found} == {(2, 2)}
    assert len(found) == 7 * 6
    assert set(pairs.ravel().tolist()) == {*np.flatnonzero(bound >= 0.8).tolist(), 18}


def test_promising_items_are_paired_with_sure_ones_of_their_likeliest_clusters():
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.full(6, 0.4), 1000)
    own, others = rng.random(1000), 3 * rng.random(1000)
    beliefs = SimpleNamespace(
        probabilities=q,
        components=np.empty((1000, 0)),
        own=lambda items: own[items],
        others=lambda items: others[items],
    )
    situation = SimpleNamespace(
        beliefs=beliefs,
        generator=rng,
        criterion=InformationGain(),
        pool=lambda: np.arange(1000),
    )
    pairs = np.sort(_promising(situation, 640), axis=1)
    found = set(map(tuple, pairs.tolist()))
    surest = {cluster: set(np.argsort(-q[:, cluster])[:20].tolist()) for cluster in range(6)}
    for item in np.argsort(-(own + others))[:320].tolist():
        for cluster in np.argsort(-q[item])[:3]:
            with_sure = {tuple(sorted((item, other))) for other in surest[cluster]}
            assert item in surest[cluster] or with_sure & found


def all_but(left_out, workers, criterion, num_items=40):
    """A situation in which these have answered about all pairs but some."""
    every = pd.DataFrame(np.column_stack(np.triu_indices(num_items, 1)), columns=["left", "right"])
    every["label"] = 1
    said = pd.concat([every.assign(worker=worker) for worker in workers])
    rest = pd.DataFrame(left_out, columns=["left", "right", "worker"])
    found = said.merge(rest, how="left", indicator=True, on=["left", "right", "worker"])
    found = found[found["_merge"] == "left_only"].drop(columns="_merge")
    q = np.random.default_rng(0).dirichlet(np.ones(3), num_items)
    own = np.ones(num_items)
    return SimpleNamespace(
        num_items=num_items,
        item_ids=pd.RangeIndex(num_items),
        asked=Asked(CrowdData(np.zeros((num_items, 1)), found)),
        crowd=SimpleNamespace(
            ids=[*workers], codes=np.arange(len(workers)), loads=np.ones(len(workers))
        ),
        beliefs=SimpleNamespace(
            probabilities=q,
            components=np.empty((num_items, 0)),
            own=lambda items: own[items],
            others=lambda items: own[items],
        ),
        generator=np.random.default_rng(1),
        criterion=criterion,
        pool=lambda: np.arange(num_items),
    )


@pytest.mark.parametrize("criterion", [InformationGain(), Random()], ids=["promising", "chance"])
def test_the_last_pairs_that_nobody_answered_are_found(criterion):
    left_out = [(0, 1, "ann"), (5, 39, "ann"), (17, 20, "ann"), (8, 9, "bob")]
    found = _candidates(all_but(left_out, ["ann", "bob"], criterion), 20)
    assert found.tolist() == [[0, 1], [5, 39], [8, 9], [17, 20]]
    busy = all_but(left_out, ["ann", "bob"], criterion)
    busy.crowd.loads[0] = 0
    assert _candidates(busy, 20).tolist() == [[8, 9]]


def test_of_very_many_pairs_more_are_drawn_where_most_are_answered(monkeypatch):
    left_out = [(one, one + 1, "ann") for one in range(0, 38, 2)]
    situation = all_but(left_out, ["ann"], InformationGain())
    monkeypatch.setattr("pyro_crowdclust.asking.pair_questions._MAX_LISTED", 700)
    found = _candidates(situation, 19)
    assert found.tolist() == [[one, other] for one, other, _ in left_out]


def test_an_item_is_not_compared_with_itself():
    situation = all_but([], ["ann"], InformationGain())
    among = pd.DataFrame({"left": [0, 3], "right": [1, 3]})
    with pytest.raises(
        ValueError, match="among row 1 .*: left is 3, an item paired with itself; drop"
    ):
        Pairs(among=among)._askable(situation, 3)
