"""Numbers far from all others of their column count as missing, and no small cluster does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import classify, cluster
from pyro_crowdclust.interface.candidates.deviating import deviation_bounds, without_deviating
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.simulation import simulate_pairs

from ..small_choices import known_part, linked_part, small, sorted_part

KIND = np.arange(120) % 3


def column(seed=0, number=400):
    return np.random.default_rng(seed).normal(size=number)


def blobs(seed=0):
    return 6 * np.eye(3)[KIND] + np.random.default_rng(seed).normal(size=(len(KIND), 3))


def with_slips(rows):
    """A decimal point in the wrong place, a code in one row of 15, and a row in other units."""
    slips = rows.copy()
    slips[4, 0] *= 1000
    slips[::15, 1] = -999
    slips[50] *= 100
    return slips


@pytest.mark.parametrize("number", [25, 150, 5000])
@pytest.mark.parametrize("tail", ["normal", "uniform", "logistic"])
def test_light_tails_are_believed(tail, number):
    rows = getattr(np.random.default_rng(number), tail)(size=(number, 8))
    assert deviation_bounds(CrowdData(rows)) is None


@pytest.mark.parametrize(
    ("tail", "of"), [("standard_t", [3]), ("exponential", []), ("pareto", [2])]
)
def test_of_tails_that_thin_out_hardly_any_number_is_doubted(tail, of):
    data = CrowdData(getattr(np.random.default_rng(0), tail)(*of, size=(2000, 20)))
    bounds = deviation_bounds(data)
    assert bounds is None or without_deviating(data, *bounds).num_missing < 1e-3 * 2000 * 20


@pytest.mark.parametrize(
    ("far", "doubted"),
    [
        ([300.0], 1),
        ([-300.0, 200.0], 2),
        ([-999.0] * 30, 30),
        ([-999.0] * 60, 0),
        (40 + 0.1 * column(1, 3), 0),
        ([40.0, 80.0, 160.0, -40.0], 4),
        (100.0 * np.arange(1, 21), 0),
    ],
    ids=["slip", "both ends", "code", "atom", "cluster", "slips", "too many"],
)
def test_what_is_alone_beyond_a_gap_is_doubted(far, doubted):
    numbers = np.concatenate([column(), far])
    data = CrowdData(np.column_stack([numbers, column(2, len(numbers))]))
    bounds = deviation_bounds(data)
    assert (0 if bounds is None else without_deviating(data, *bounds).num_missing) == doubted
    if bounds is not None:
        assert float(bounds.low[0]) in (-np.inf, column().min())
        assert float(bounds.high[0]) in (np.inf, column().max())
        assert bounds.low[1] == -np.inf


def test_numbers_beside_an_atom_have_their_own_tail():
    numbers = np.where(np.arange(400) % 2 == 0, 0.0, 5 + 0.1 * column())
    numbers[7] = 7  # which is not far away in units of all numbers
    low, high = deviation_bounds(CrowdData(numbers[:, None]))
    assert low.item() == -np.inf
    assert high.item() == np.delete(numbers, 7).max()


@pytest.mark.parametrize(("scale", "zero"), [(1.0, 1e3), (1e-4, -7.0), (1e5, 0.0)])
def test_units_and_zeros_are_no_matter(scale, zero):
    numbers = np.concatenate([column(), [30.0, -80.0]])
    bounds = deviation_bounds(CrowdData((zero + scale * numbers)[:, None]))
    expected = zero + scale * np.array([column().min(), column().max()])
    np.testing.assert_allclose(torch.cat(bounds), expected)


def test_counts_are_doubted_and_codes_of_categories_are_not():
    rng = np.random.default_rng(0)
    visits, town = rng.poisson(30, 90), np.array([f"town {one}" for one in "abcdefghijkl"])
    visits[5] = 9999
    table = pd.DataFrame({"visits": visits, "town": town[np.minimum(rng.geometric(0.4, 90), 11)]})
    bounds = deviation_bounds(CrowdData(table))
    assert bounds.high.tolist() == [np.delete(visits, 5).max(), np.inf]


@pytest.mark.parametrize(
    "numbers",
    [np.append(column(0, 15), 1e6), np.append(np.arange(200) % 3, 1e6), np.full(50, 7.0)],
    ids=["few", "few values", "constant"],
)
def test_where_little_is_known_all_is_believed(numbers):
    assert deviation_bounds(CrowdData(numbers[:, None])) is None


@pytest.mark.long
@pytest.mark.parametrize("said", [{}, "pairs"], ids=["alone", "pairs"])
def test_slips_take_no_item_from_its_cluster(said, tmp_path):
    said = answered_pairs() if said else {}
    table = pd.DataFrame(with_slips(blobs()), columns=["x", "y", "z"])
    result = cluster(table, **said, num_clusters=4, progress=False)
    away = np.arange(len(KIND)) == 50  # of which nothing is left
    assert clustering_accuracy(KIND[~away], result.assignments[~away]) > 0.97
    assert (
        "numbers far from all others counted as missing, in 'x', 'y', 'z'" in result.chosen.reason
    )
    np.testing.assert_array_equal(result.data.features, table.to_numpy())

    predicted = result.predict_proba(table)
    assert bool(np.isfinite(predicted).all())
    result.save(tmp_path / "result.safetensors")
    again = load(tmp_path / "result.safetensors").predict_proba(table)
    np.testing.assert_allclose(again, predicted)
    if not said:
        np.testing.assert_allclose(predicted, result.probabilities, atol=1e-6)
        assert result.components.abs().to_numpy().max() < 10


SAID = {
    "known": lambda: known_part(KIND),
    "links": lambda: linked_part(KIND),
    "pages": lambda: sorted_part(KIND),
    "links and pairs": lambda: linked_part(KIND) | answered_pairs(),
}


def answered_pairs():
    return {"pairs": simulate_pairs(KIND, [0.9] * 3, [0.9] * 3, pairs_per_worker=60, seed=0)}


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"batch_size": 50}], ids=["whole", "minibatches"])
@pytest.mark.parametrize("said", SAID.values(), ids=SAID.keys())
def test_slips_and_gaps_together_beside_all_that_is_said(said, options, tmp_path):
    rows = with_slips(blobs())
    rows[np.random.default_rng(1).random(rows.shape) < 0.05] = np.nan
    data = CrowdData(rows, **said())
    result = small(data, 3, forms=2).fit(num_starts=2, progress=False, **options)
    whole = ~np.isnan(np.where(np.abs(rows) > 30, np.nan, rows)).any(1)
    assert clustering_accuracy(KIND[whole], result.assignments[whole]) > 0.9
    result.save(tmp_path / "result.safetensors")
    again = load(tmp_path / "result.safetensors", data=data)
    np.testing.assert_allclose(again.probabilities, result.probabilities)


@pytest.mark.long
def test_an_update_reads_new_items_within_the_bounds():
    rows = with_slips(blobs())
    data = CrowdData(rows, **answered_pairs())
    result = small(data, 3, forms=1).fit(num_starts=1, progress=False)
    new = pd.DataFrame(blobs(1)[:6], index=[f"new {row}" for row in range(6)])
    new.iloc[0, 0] = -1e6
    updated = result.update(features=new.to_numpy(), item_ids=new.index)
    assert updated.data.num_items == len(rows) + 6
    assert bool(np.isfinite(updated.probabilities).all())
    assert clustering_accuracy(KIND[1:6], updated.assignments[-5:]) == 1.0


@pytest.mark.long
def test_classes_are_told_in_spite_of_slips():
    items = np.arange(0, len(KIND), 4)
    labels = {"item": items, "worker": ["ann"] * len(items), "label": KIND[items]}
    result = classify(with_slips(blobs()), labels, folds=2, progress=False)
    found = result.class_probabilities.to_numpy().argmax(1)
    away = np.arange(len(KIND)) == 50
    assert float((found == KIND)[~away].mean()) > 0.95
    assert result.chosen.reason.endswith(
        "numbers far from all others counted as missing, in 0, 1, 2"
    )


def test_rounded_numbers_are_spread_over_a_step_that_no_slip_hides():
    rows = with_slips(blobs().round(0))
    result = cluster(rows, num_clusters=4, progress=False)
    away = np.arange(len(KIND)) == 50
    assert clustering_accuracy(KIND[~away], result.assignments[~away]) > 0.95
    assert bool(torch.isfinite(torch.tensor(result.elbo)))
