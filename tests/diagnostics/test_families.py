"""Families found, against agreement computed pair by pair, and crowds with and without copies."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import matthews_corrcoef

from pyro_crowdclust.diagnostics import find_families


def crowd(
    seed: int,
    accuracies: list[float],
    copies: int = 0,
    fidelity: float = 0.8,
    classes: int = 2,
    items: int = 600,
    share: float = 1.0,
) -> pd.DataFrame:
    """Answers of workers of these accuracies; those after the first copy it where they do."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=items)
    shape = items, len(accuracies)
    wrong = (truth[:, None] + rng.integers(1, classes, size=shape)) % classes
    says = np.where(rng.random(shape) < accuracies, truth[:, None], wrong)
    copied = rng.random((items, copies)) < fidelity
    says[:, 1 : copies + 1] = np.where(copied, says[:, :1], says[:, 1 : copies + 1])
    item, worker = np.nonzero(rng.random(shape) < share)
    return pd.DataFrame({"item": item, "worker": worker, "label": says[item, worker]})


MIXED = [0.8, 0.75, 0.85, 0.7, 0.9, 0.7, 0.8]


def members(found: pd.DataFrame) -> list[list[int]]:
    return sorted(sorted(group.index) for _, group in found.groupby("family"))


def test_agreement_of_two_classes_is_the_correlation():
    table = crowd(0, MIXED, copies=1, share=0.7)
    found = find_families(table)
    said = table.pivot_table(index="item", columns="worker", values="label")[[0, 1]].dropna()
    assert members(found) == [[0, 1]]
    assert found["within"].to_numpy() == pytest.approx(matthews_corrcoef(said[0], said[1]))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_copies_are_found_and_only_they(seed, classes):
    found = find_families(crowd(seed, MIXED, copies=3, classes=classes))
    assert members(found) == [[0, 1, 2, 3]]
    assert (found["family"] == "0 + 1 + 2 + 3").all()
    assert (found["within"] > found["expected"] + 0.1).all()


def test_copies_are_found_where_answers_are_few():
    found = find_families(crowd(1, [*MIXED, *MIXED, *MIXED], copies=3, items=1500, share=0.2))
    assert [0, 1, 2, 3] in members(found)


@pytest.mark.parametrize(
    "accuracies",
    [MIXED, [0.95, 0.95, 0.6, 0.6, 0.6], [0.5] * 5 + [0.9] * 4, [0.15, 0.15, 0.9, 0.8, 0.7]],
    ids=["mixed", "two_experts", "guessers", "adversaries"],
)
def test_workers_who_err_alone_are_no_family(accuracies):
    for seed in range(5):
        assert find_families(crowd(seed, accuracies)).empty


def test_names_of_workers_and_labels_do_not_matter():
    table = crowd(2, MIXED, copies=3)
    wanted = find_families(table)
    named = table.assign(
        worker=table["worker"].map(lambda one: "gfedcba"[one]),
        label=table["label"].map({0: "yes", 1: "no"}),
    )
    found = find_families(named.sample(frac=1.0, random_state=0))
    assert set(found.index) == set("gfed")
    assert found["within"].to_numpy() == pytest.approx(wanted["within"].to_numpy())


def test_too_few_workers_or_answers_say_nothing():
    assert find_families(crowd(0, MIXED[:3], copies=2)).empty
    assert find_families(crowd(0, MIXED, copies=3, items=5)).empty
    same = crowd(0, MIXED, copies=3).assign(label=1)
    assert find_families(same).empty
