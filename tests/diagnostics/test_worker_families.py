"""Families found, against agreement computed pair by pair, and crowds with and without copies."""

from __future__ import annotations

import itertools

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


def explained(table: pd.DataFrame, group: list[int]) -> tuple[float, float, float]:
    """R within a group, the largest that one truth explains, and what luck adds; pair by pair."""
    said = table.pivot(index="item", columns="worker", values="label")
    agreement = {}
    for one, other in itertools.combinations(said, 2):
        both = pd.get_dummies(said[[one, other]].dropna().astype(int).astype(str))
        columns = [both.filter(like=f"{worker}_").to_numpy(float) for worker in (one, other)]
        away = [part - part.mean(0) for part in columns]
        squares = [np.square(part).sum() for part in away]
        agreement[one, other] = (away[0] * away[1]).sum() / np.sqrt(np.prod(squares))
    inside = [len({*pair} & {*group}) for pair in agreement]
    values = np.array([*agreement.values()])
    outside, across, within = (values[np.equal(inside, n)].mean() for n in (0, 1, 2))
    of_group, of_others = (
        said[group].notna().sum(axis=1),
        said.drop(columns=group).notna().sum(axis=1),
    )
    num_across, num_group = ((of_group > 0) & (of_others > 0)).sum(), (of_group > 1).sum()
    least = outside - 2 * (1 - outside**2) / np.sqrt((of_others > 1).sum())
    most = (abs(across) + (1 - across**2) / np.sqrt(num_across)) ** 2 / least
    luck = np.sqrt(2 * np.log(len(agreement)))
    return within, most, luck * max(1 - most**2, 0) / np.sqrt(num_group)


def test_a_family_agrees_by_more_than_truth_and_luck_explain():
    """Of three classes and with gaps; copies of more and more answers."""
    is_family = []
    for fidelity in np.linspace(0.6, 0.95, 6):
        table = crowd(4, MIXED, copies=1, fidelity=fidelity, classes=3, items=400, share=0.8)
        within, most, luck = explained(table, [0, 1])
        is_family.append(within > most + luck + 0.1)
        found = find_families(table)
        assert ([0, 1] in members(found)) == is_family[-1]
        if is_family[-1]:
            assert found.loc[0, ["within", "expected"]].tolist() == pytest.approx([within, most])
    assert 0 < sum(is_family) < 6


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
