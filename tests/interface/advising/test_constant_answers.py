"""Workers who nearly always give one answer: named only where others would not have given it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import advice
from pyro_crowdclust.interface.advising.constant_answers import (
    about_constant_answers,
    constant_workers,
)
from pyro_crowdclust.simulation import simulate_pairs

from .fits import fixed

KINDS = np.arange(120) % 4
HONEST = [(0.9, 0.95)] * 4


def judged(rates, numbers, kinds=KINDS, seed=0):
    """What a fit that knows the kinds finds of workers with these rates and numbers of answers."""
    tables = [
        simulate_pairs(kinds, [one], [other], pairs_per_worker=number, seed=seed + code).assign(
            worker=f"w{code}"
        )
        for code, ((one, other), number) in enumerate(zip(rates, numbers, strict=True))
    ]
    data = CrowdData(None, pd.concat(tables, ignore_index=True), item_ids=range(len(kinds)))
    found = pd.DataFrame(rates, data.worker_ids, columns=["sensitivity", "specificity"])

    def same(left, right):
        return (kinds[left] == kinds[right]).astype(float)

    return SimpleNamespace(data=data, workers=found, same_cluster_by_position=same)


@pytest.mark.parametrize("rates", [(0.0, 1.0), (0.02, 0.98), (0.98, 0.02), (1.0, 0.0)])
def test_whoever_gives_one_answer_among_others_who_look_is_named(rates):
    """Also if that is a small part of the answers."""
    result = judged([*HONEST, rates], [200] * 4 + [60])
    assert [*constant_workers(result)] == ["w4"]
    (said,) = about_constant_answers(result)
    assert "(in workers: 'w4')" in said


@pytest.mark.parametrize(
    ("rates", "number", "kinds"),
    [
        ((0.02, 0.98), 12, KINDS),  # too few answers
        ((0.9, 0.99), 100, np.arange(120)),  # all pairs are different
        ((0.25, 1.0), 300, np.arange(120) % 8),  # who says "same" of the same only, if rarely
    ],
)
def test_whoever_may_have_looked_is_not_named(rates, number, kinds):
    result = judged([*HONEST, rates], [200] * 4 + [number], kinds)
    assert about_constant_answers(result) == []


def test_honest_workers_are_hardly_ever_named():
    named, number = 0, 0
    for seed in range(20):
        generator = np.random.default_rng(seed)
        rates = generator.uniform([0.5, 0.8], [0.95, 1.0], (10, 2))
        counts = generator.integers(15, 150, 10)
        kinds = np.arange(120) % generator.integers(2, 20)
        named += len(constant_workers(judged([*map(tuple, rates)], counts, kinds, 100 * seed)))
        number += 10
    assert named <= 0.01 * number


def test_without_rates_of_two_kinds_nobody_is_named():
    result = judged([*HONEST, (0.0, 1.0)], [200] * 4 + [60])
    result.workers = result.workers.rename(columns={"sensitivity": "accuracy"})
    assert about_constant_answers(result) == []


@pytest.mark.long
def test_advice_names_a_constant_worker_with_few_answers():
    crowd = simulate_pairs(KINDS, [0.9] * 3, [0.95] * 3, pairs_per_worker=300, seed=0)
    constant = simulate_pairs(KINDS, [0.0], [1.0], pairs_per_worker=50, seed=9).assign(worker=7)
    features = 9.0 * np.eye(4)[KINDS] + np.random.default_rng(0).normal(size=(120, 4))
    result = fixed(features, pd.concat([crowd, constant], ignore_index=True), num_clusters=6)
    (said,) = advice(result)
    assert "(in workers: 7)" in said
