"""Items of many small clusters, which features describe."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.interface import AnswersAlone, Choice, cluster, recipe_for
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.interface.answers_alone.records import (
    are_records,
    lists_candidates,
    may_be_records,
    with_likeness,
)
from pyro_crowdclust.interface.candidates.one_normal import normal_of
from pyro_crowdclust.interface.choosing import answer_predictiveness
from pyro_crowdclust.interface.command_line import main
from pyro_crowdclust.interface.holding_out.pairs import splits_of_pairs
from pyro_crowdclust.metrics import adjusted_rand_index

from ...short_searches import shorten
from ..small_choices import small

DIM = 5


def records(
    num_things: int, sizes: Sequence[int] = (1, 2, 3), seed: int = 0
) -> tuple[pd.DataFrame, np.ndarray]:
    """So many records of every thing: columns of numbers, one of them with gaps."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(num_things), rng.choice(sizes, num_things))
    place = rng.normal(size=(num_things, DIM))[truth] + 0.3 * rng.normal(size=(len(truth), DIM))
    table = pd.DataFrame(place, columns=[f"c{number}" for number in range(DIM)])
    table.loc[rng.random(len(table)) < 0.1, "c0"] = np.nan
    return table, truth


def asked(
    table: pd.DataFrame, truth: np.ndarray, share: float, near: int = 5, seed: int = 0
) -> dict[str, np.ndarray]:
    """Two answers each about a share of the pairs that look alike, so many for every item."""
    rng = np.random.default_rng(seed)
    rows = table.fillna(0.0).to_numpy()
    left, right = np.triu_indices(len(rows), 1)
    apart = np.linalg.norm(rows[left] - rows[right], axis=1)
    alike = apart.argsort()[: near * len(rows)]
    pair = np.repeat(rng.choice(alike, int(share * len(alike)), replace=False), 2)
    label = (truth[left[pair]] == truth[right[pair]]) ^ (rng.random(len(pair)) < 0.05)
    worker = np.tile(list("ab"), len(pair) // 2)
    return {"left": left[pair], "right": right[pair], "worker": worker, "label": label.astype(int)}


def listed(num_asked: int, num_others: int, share_same: float) -> CrowdData:
    """Answers about some of the listed pairs of 40 items, which are hardly more than asked."""
    rng = np.random.default_rng(0)
    ends = np.stack(np.triu_indices(40, 1), 1)
    ends = rng.permutation(ends)[: num_asked + num_others]
    asked = ends[:num_asked]
    label = (np.arange(num_asked) < share_same * num_asked).astype(int)
    pairs = {"left": asked[:, 0], "right": asked[:, 1], "worker": ["a"] * num_asked}
    table = {"left": ends[:, 0], "right": ends[:, 1], "alike": rng.random(len(ends))}
    return CrowdData(None, pairs=pairs | {"label": label}, likeness=table)


def test_a_list_of_candidates_that_mostly_differ_is_of_records():
    assert lists_candidates(listed(60, 60, 0.2))
    assert PairsAlone(listed(60, 60, 0.2)).look_alike
    assert not lists_candidates(listed(60, 60, 0.6))  # so they may be of few clusters
    assert not lists_candidates(listed(60, 0, 0.2))  # only what was asked about is known
    assert not lists_candidates(listed(60, 720, 0.2))  # these are all pairs
    data = listed(60, 60, 0.2)
    assert not lists_candidates(data.with_parts(likeness=None, likeness_names=pd.Index([])))


def test_pairs_that_look_alike_and_mostly_differ_are_of_records():
    table, truth = records(60)
    pairs = asked(table, truth, 0.5)
    data = CrowdData(table, pairs)
    assert are_records(data)
    assert isinstance(recipe_for(data), AnswersAlone)
    assert isinstance(recipe_for(data, num_clusters=20), Choice)
    assert not are_records(CrowdData(None, pairs, item_ids=range(len(table))))
    assert not are_records(CrowdData(table))
    known, apart = {0: "a", 1: "b"}, {"left": [0], "right": [1]}
    assert isinstance(recipe_for(CrowdData(table, pairs, known=known)), Choice)
    assert isinstance(recipe_for(CrowdData(table, pairs, cannot_link=apart)), Choice)
    words = {"label": ["can't tell"] * len(pairs["left"])}
    assert not may_be_records(CrowdData(table, pairs | words, grades=["no", "yes"]))


def test_random_pairs_are_of_clusters_that_a_mixture_has():
    table, truth = records(60)
    left, right = np.triu_indices(len(table), 1)
    pair = np.random.default_rng(0).choice(len(left), 600, replace=False)
    label = (truth[left[pair]] == truth[right[pair]]).astype(int)
    label[:3] = 1
    pairs = {"left": left[pair], "right": right[pair], "worker": ["a"] * 600, "label": label}
    assert not are_records(CrowdData(table, pairs))


def test_pairs_that_look_alike_of_few_clusters_are_mostly_the_same():
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 6
    table = pd.DataFrame(rng.normal(size=(6, 4))[truth] + 0.5 * rng.normal(size=(200, 4)))
    assert not are_records(CrowdData(table, asked(table, truth, 0.2)))


@pytest.fixture(scope="module")
def of_several():
    """Things of which there are so many records that most of what looks alike is the same."""
    table, truth = records(45, sizes=(4, 5, 6))
    table = table.drop(columns="c0")
    return CrowdData(table, asked(table, truth, 0.8, near=2)), truth


@pytest.fixture
def _short_search(monkeypatch):
    """Of ten parts of the answers six are held out in turn, which is enough here."""
    shorten(monkeypatch)
    monkeypatch.setattr(
        answer_predictiveness,
        "splits_of_pairs",
        lambda *given, **least: splits_of_pairs(*given, **least)[:6],
    )


def test_many_clusters_of_which_most_that_look_alike_are_the_same_are_compared(of_several):
    """With clusters of the features, as they may be few."""
    data, _ = of_several
    assert may_be_records(data)
    assert not are_records(data)
    assert recipe_for(data).may_be_records
    assert not recipe_for(data, num_clusters=20).may_be_records
    table, truth = records(6, sizes=(20, 30))
    assert not may_be_records(CrowdData(table, asked(table, truth, 0.4)))


@pytest.mark.long
@pytest.mark.usefixtures("_short_search")
def test_clusters_that_no_mixture_has_are_found(of_several):
    data, truth = of_several
    choice = small(data, 4, 8, forms=1)
    result = choice.fit(epochs=40, progress=False)
    assert isinstance(result.guide, PartitionGuide)
    assert adjusted_rand_index(truth, result.assignments) > 0.8
    assert "clearly likelier if there are clusters of any number and size" in result.chosen.reason


def test_where_a_part_alone_can_be_held_out_nothing_is_compared(of_several, monkeypatch):
    def one_part(*given):
        return splits_of_pairs(*given)[:1]

    monkeypatch.setattr(answer_predictiveness, "splits_of_pairs", one_part)
    assert not answer_predictiveness.partition_predicts_best(of_several[0], 0, pytest.fail)


@pytest.mark.long
@pytest.mark.usefixtures("_short_search")
def test_clusters_of_the_features_stay_where_a_partition_knows_no_more():
    """Answers about few of the pairs that look alike leave many items apart."""
    table, truth = records(6, sizes=(60,))
    data = CrowdData(table.drop(columns="c0"), asked(table, truth, 0.06))
    assert may_be_records(data)
    result = small(data, 6, forms=1).fit(progress=False)
    assert not isinstance(result.guide, PartitionGuide)
    assert adjusted_rand_index(truth, result.assignments) > 0.8


def test_likeness_is_the_cosine_and_the_distance_of_rows_in_their_units():
    """What is missing is what the other columns let expect."""
    rows = np.random.default_rng(0).normal(2.0, [1.0, 5.0, 0.1], size=(30, 3))
    rows[3, 1] = np.nan
    pairs = {"left": [0, 5, 0, 3], "right": [1, 2, 1, 4], "worker": list("aaba"), "label": [1] * 4}
    data = CrowdData(rows, pairs)
    likeness = with_likeness(data).likeness
    assert likeness.items.tolist() == [[0, 1], [2, 5], [3, 4]]
    units = (rows - np.nanmean(rows, 0)) / np.nanstd(rows, 0)
    mean, factors, residual = normal_of(torch.from_numpy(units))
    covariance = (factors.mT @ factors + residual * torch.eye(3)).numpy()
    by = np.linalg.solve(covariance[::2, ::2], covariance[::2, 1])
    units[3, 1] = mean[1] + (units[3, ::2] - mean.numpy()[::2]) @ by
    for (left, right), found in zip(likeness.items, likeness.values, strict=True):
        one, other = units[left], units[right]
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        np.testing.assert_allclose(found, [cosine, -np.linalg.norm(one - other)], rtol=1e-6)


def test_nearest_neighbors_are_candidates_and_categories_count():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=30), "kind": rng.choice(["x", "y"], 30)})
    pairs = {"left": [0, 0], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    near = with_likeness(CrowdData(table, pairs), near=True).likeness
    ends = {*map(tuple, near.items.tolist())}
    assert {(0, 1), (0, 2)} <= ends
    assert 30 * 5 / 2 <= len(ends) <= 30 * 5 + 2
    is_neighbor = torch.tensor([pair not in {(0, 1), (0, 2)} for pair in map(tuple, near.items)])
    kinds = table["kind"].to_numpy()[near.items[is_neighbor]]
    assert (kinds[:, 0] == kinds[:, 1]).mean() > 0.8


@pytest.mark.long
def test_records_are_clustered_saved_and_updated(tmp_path):
    table, truth = records(60)
    pairs = asked(table, truth, 0.6)
    result = cluster(table, pairs, epochs=40, progress=False)
    assert adjusted_rand_index(truth, result.assignments) > 0.6
    assert [*result.data.likeness_names] == ["cosine", "nearness"]
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors", data=CrowdData(table, pairs))
    np.testing.assert_array_equal(loaded.assignments, result.assignments)
    new, more = table.iloc[:2] + 0.01, len(table)
    answers = {"left": [0, 0], "right": [more, more + 1], "worker": ["a", "b"], "label": [1, 0]}
    updated = loaded.update(answers, features=new, item_ids=[more, more + 1])
    ends = {*map(tuple, updated.data.likeness.items.tolist())}
    assert updated.data.num_items == more + 2
    assert {(0, more), (0, more + 1)} <= ends


@pytest.mark.long
def test_records_from_files(tmp_path):
    table, truth = records(60)
    table.to_csv(tmp_path / "features.csv", index_label="item")
    pd.DataFrame(asked(table, truth, 0.3)).to_csv(tmp_path / "pairs.csv", index=False)
    files = [f"--{name}={tmp_path / name}.csv" for name in ("features", "pairs")]
    out = str(tmp_path / "fit")
    assert main(["fit", *files, "--epochs", "2", "--starts", "1", "--out", out, "--quiet"]) == 0
    assert "prior" in pd.read_csv(tmp_path / "fit" / "choice.csv")
    assert main(["report", out]) == 0
