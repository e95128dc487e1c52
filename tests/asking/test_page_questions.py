"""Pages of items, composed one item after the other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.asked import Asked
from pyro_crowdclust.asking.beliefs import Beliefs
from pyro_crowdclust.asking.criteria import InformationGain
from pyro_crowdclust.asking.crowd import Crowd
from pyro_crowdclust.asking.information import (
    entropy,
    mutual_information,
    placement_information,
)
from pyro_crowdclust.asking.page_questions import Pages, _Table
from pyro_crowdclust.asking.page_teaching import ItemsTeaching
from pyro_crowdclust.asking.situation import Situation

from .certain_rates import CertainPlacementRates

NUM_ITEMS = 24


def beliefs_of(num_known: int = 0) -> Beliefs:
    """Of items of four components, the first of which are known."""
    rng = np.random.default_rng(0)
    q = rng.dirichlet(np.ones(4), NUM_ITEMS)
    q[:num_known] = np.eye(4)[np.arange(num_known) % 4]
    heard = np.where(np.arange(NUM_ITEMS) < num_known, 0.9, 0.0)
    roots = np.where(rng.random((300, 4)) < 0.5, 0, np.arange(4))
    together = (roots[:, :, None] == roots[:, None]).mean(0)
    wanted = rng.integers(0, 2, NUM_ITEMS).astype(float)
    wanted[4:] = 1.0
    components, bound = rng.dirichlet(np.full(4, 0.2), NUM_ITEMS), rng.uniform(0.5, 1, NUM_ITEMS)
    unasked = np.array([0.3, 0.4, 0.2, 0.6])
    return Beliefs(
        probabilities=q,
        entropies=entropy(q),
        answered=heard,
        wanted=wanted,
        components=components,
        bound=bound,
        together=together,
        information=mutual_information(roots),
        roots=roots,
        unasked=unasked,
        remaining=unasked,
    )


def situation_of(
    beliefs: Beliefs,
    accuracy: list[float],
    prices: list[float] | None = None,
    loads: list[float] | None = None,
    num_answers: int = 99,
    placed: dict[str, list[int]] | None = None,
) -> Situation:
    """Workers who place so many items rightly."""
    number = len(accuracy)
    counts = 40 * np.array([[rate, 1 - rate] for rate in accuracy]).reshape(number, 2)
    each = np.ones(number)
    crowd = Crowd(
        ids=pd.RangeIndex(number),
        codes=np.arange(number),
        rates=CertainPlacementRates(counts),
        prices=each if prices is None else np.array(prices),
        loads=np.array(loads or each * np.inf),
        num_answers=np.full(number, num_answers),
    )
    asked = Asked(CrowdData(np.zeros((NUM_ITEMS, 1)), placements=placed))
    return Situation(
        *(pd.RangeIndex(NUM_ITEMS), beliefs, crowd, crowd, asked, InformationGain(), 0.0),
        np.random.default_rng(0),
    )


def greedy(beliefs: Beliefs, reliability: float, size: int) -> tuple[list[int], list[float]]:
    """The items of a page, and what each adds; the parts have tests of their own."""
    every = np.arange(NUM_ITEMS)
    table = _Table(beliefs.probabilities, beliefs.components, beliefs.bound)
    teaching = ItemsTeaching(beliefs, every, reliability, np.zeros(4))
    left, gains, unknown, own = set(every.tolist()), [], beliefs.entropies, beliefs.own(every)
    untold = np.ones(NUM_ITEMS)
    for step in range(size):
        outcomes = table.outcomes()
        information = placement_information(outcomes, reliability)
        of_others = teaching.values(np.isin(every, [*left]))
        gain, adds = {}, {}
        for item in left:
            with_whom = list(zip(outcomes[item], table.places, strict=False))
            wanted = sum(share * own[other] for share, other in with_whom) + own[item]
            involved = sum(share * unknown[other] for share, other in with_whom) + unknown[item]
            of_page = information[item] * wanted / (involved + 1e-3) if step else own[item]
            gain[item] = of_page + of_others[item]
            again = sum(p * (1 - untold[other]) * own[other] for p, other in with_whom)
            adds[item] = gain[item] - information[item] * again / (involved + 1e-3)
        best = max(gain, key=gain.__getitem__)
        gains.append(adds[best] if step else 0.0)
        if step:
            joins = outcomes[best, :-1]
            share = information[best] / (joins @ unknown[table.places] + unknown[best] + 1e-3)
            untold[table.places] *= np.maximum(1 - share * joins, 0)
            untold[best] = max(1 - share, 0)
        left.remove(best)
        table.place(best)
        teaching.place(best)
    return table.places, gains


@pytest.mark.parametrize("accuracy", [[], [0.85]], ids=["nobody", "a worker"])
def test_items_are_taken_by_what_placing_them_tells(accuracy):
    beliefs = beliefs_of()
    found = Pages(7).compose(situation_of(beliefs, accuracy), 1)[0]
    # Of placements in .85 among four clusters; a stranger's are reliable in .8.
    items, gains = greedy(beliefs, 0.85 - 0.15 / 3 if accuracy else 0.8, 7)
    assert found["item"].tolist() == items
    np.testing.assert_allclose(found["gain"].astype(float), gains)


@pytest.mark.parametrize("concentration", [0.2, 1.0, 5.0])
def test_what_a_page_is_expected_to_tell_is_what_its_partition_tells(concentration):
    """Summed over all clusters of its items, which a perfect sorter shows as a partition."""
    shares = []
    for seed in range(10):
        q = np.random.default_rng(seed).dirichlet(np.full(3, concentration), NUM_ITEMS)
        nothing, none = np.zeros(NUM_ITEMS), np.empty(0)
        beliefs = Beliefs(
            probabilities=q,
            entropies=entropy(q),
            answered=nothing,
            wanted=nothing + 1,
            components=np.empty((NUM_ITEMS, 0)),
            bound=nothing,
            together=np.empty((0, 0)),
            information=np.empty((0, 0)),
            roots=np.empty((1, 0), dtype=int),
            unasked=none,
            remaining=none,
        )
        found = Pages(5).compose(situation_of(beliefs, [1.0]), 1)[0]
        shown = {}
        for clusters in itertools.product(range(3), repeat=5):
            partition = tuple(clusters.index(one) for one in clusters)
            weight = q[found["item"], list(clusters)].prod()
            shown[partition] = shown.get(partition, 0.0) + weight
        shares.append(found["gain"].sum() / entropy(np.array([*shown.values()])))
    assert 0.95 < np.mean(shares) < 1.1
    assert 0.9 < min(shares) < max(shares) < 1.2


def test_pages_share_items_only_where_there_are_not_enough():
    found = Pages(6).compose(situation_of(beliefs_of(), [0.85, 0.85]), 5)[0]
    pages = [set(own) for _, own in found.groupby("page")["item"]]
    assert [len(page) for page in pages] == [6] * 5
    assert len(set.union(*pages[:4])) == 24


def test_a_second_page_tells_what_the_first_one_left():
    beliefs, told, alone = beliefs_of(), np.zeros(4), np.zeros(4)
    every, anybody = np.arange(NUM_ITEMS), np.ones(NUM_ITEMS, dtype=bool)
    situation = situation_of(beliefs, [0.85])
    first = Pages(6)._page(situation, every, anybody, 0, told)
    teaching = ItemsTeaching(beliefs, every, 0.8, alone)
    for item in first.places:
        teaching.place(item)
    np.testing.assert_allclose(told, alone)
    assert told.max() > 0.2
    again = Pages(6)._page(situation, every, anybody, 0, told)
    assert sum(again.gains) < sum(first.gains)


def test_who_sorts_well_for_the_price_sorts_as_long_as_there_is_time():
    situation = situation_of(
        beliefs_of(), [0.95, 0.9, 0.5], prices=[5.0, 1.0, 1.0], loads=[np.inf, 2.0, 1.0]
    )
    found = Pages(4).compose(situation, 5)[0].drop_duplicates("page")
    assert found["worker"].tolist() == [1, 1, 0, 0, 0]
    busy = situation_of(beliefs_of(), [0.95, 0.9], loads=[1.0, 0.5])
    assert Pages(4).compose(busy, 5)[0]["page"].nunique() == 1


def test_who_is_new_gets_known_items_first():
    beliefs = beliefs_of(num_known=8)
    new, old = (
        Pages(8).compose(situation_of(beliefs, [0.9], num_answers=number), 1)[0]["item"]
        for number in (0, 10)
    )
    assert (new[:4] < 8).all()
    assert (new[4:] >= 8).sum() >= 3
    assert (old[:4] >= 8).all()


def test_nobody_sorts_an_item_twice_and_two_are_the_least():
    placed = {"item": [*range(22)], "worker": [0] * 22, "page": [0] * 22, "group": [0] * 22}
    situation = situation_of(beliefs_of(), [0.9], placed=placed)
    assert set(Pages(6).compose(situation, 1)[0]["item"]) == {22, 23}
    placed = {name: [*values, values[0]] for name, values in placed.items()}
    placed["item"][-1] = 22
    assert not len(Pages(6).compose(situation_of(beliefs_of(), [0.9], placed=placed), 1)[0])


@pytest.mark.parametrize("accuracy", [[], [0.9], [0.9, 0.8]], ids=["nobody", "one", "two"])
def test_a_batch_asks_a_worker_about_an_item_once_and_ends_where_none_is_left(accuracy):
    found = Pages(7).compose(situation_of(beliefs_of(), accuracy), 20)[0]
    placed = found.fillna({"worker": -1}).groupby(["worker", "item"]).size()
    assert placed.max() == 1
    assert len(placed) == NUM_ITEMS * max(len(accuracy), 1)
    assert found["page"].unique().tolist() == [*range(4 * max(len(accuracy), 1))]


def test_who_has_placed_all_leaves_the_pages_to_others():
    placed = {name: [0] * 24 for name in ("worker", "page", "group")} | {"item": [*range(24)]}
    situation = situation_of(beliefs_of(), [0.95, 0.7], placed=placed)
    situation.crowd.codes[1] = -1
    assert Pages(6).compose(situation, 2)[0]["worker"].tolist() == [1] * 12


def test_ids_of_workers_and_items_may_be_tuples():
    situation = situation_of(beliefs_of(), [0.9])
    workers = pd.Index([("model", "prompt")], tupleize_cols=False)
    items = pd.Index([("shop", item) for item in range(NUM_ITEMS)], tupleize_cols=False)
    situation = replace(situation, item_ids=items, crowd=replace(situation.crowd, ids=workers))
    found = Pages(3).compose(situation, 2)[0]
    assert found["worker"].tolist() == [("model", "prompt")] * 6
    assert {*found["item"]} <= {*items}


def test_what_one_worker_tells_of_an_item_another_need_not_tell_again():
    """The less, the better the first one is."""
    left = []
    for accuracy in (0.6, 0.85, 1 - 1e-9):
        found = Pages(24).compose(situation_of(beliefs_of(), [accuracy] * 2), 2)[0]
        first, second = found.groupby("page")["gain"].sum()
        left.append(second / first)
    assert 0.95 > left[0] > left[1] + 0.1 > left[2] + 0.2


def test_what_a_page_tells_of_an_item_by_who_is_beside_it():
    beliefs, told = beliefs_of(), np.zeros(4)
    every, anybody = np.arange(NUM_ITEMS), np.ones(NUM_ITEMS, dtype=bool)
    page = Pages(3)._page(situation_of(beliefs, [0.85]), every, anybody, 0, told)
    table, left = _Table(beliefs.probabilities, beliefs.components, beliefs.bound), [1.0]
    for step, item in enumerate(page.places):
        joins = table.outcomes()[item]
        if step:
            information = placement_information(joins[None], page.reliability)[0]
            unknown = beliefs.entropies[[*table.places, item]]
            share = information / (joins[:-1] @ unknown[:-1] + unknown[-1] + 1e-3)
            left = [one * (1 - share * p) for one, p in zip(left, joins, strict=False)]
            left.append(1 - share)
        table.place(item)
    np.testing.assert_allclose(page.shares, 1 - np.array(left))
    placed = every[page.places]
    after = beliefs.expect_placed(placed, page.shares, page.reliability)
    np.testing.assert_allclose(after.own(placed), beliefs.own(placed) * left)
    np.testing.assert_allclose(after.answered[placed], page.reliability)
    assert beliefs.answered.max() == 0
