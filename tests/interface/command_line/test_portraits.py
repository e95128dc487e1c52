"""What the report says a cluster is, against plain counts and means."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import cluster, mixture_for
from pyro_crowdclust.interface.command_line.portraits import (
    items_in_doubt,
    pairs_in_dispute,
    typical_items,
    what_sets_apart,
)
from pyro_crowdclust.interface.command_line.report import report_page
from pyro_crowdclust.simulation import simulate_pairs

KINDS = np.repeat([0, 1, 2], [40, 30, 20])


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "height": rng.normal(150 + 15 * KINDS, 3),
            "noise": rng.normal(size=90),
            "town": np.array(["Rome", "Bari", "Lecce"])[KINDS],
            "smokes": KINDS == 2,
        },
        index=[f"person {i}" for i in range(90)],
    )
    frame.iloc[5, 0] = np.nan
    rates = [0.9, 0.9, 0.6]
    pairs = simulate_pairs(KINDS, rates, rates, pairs_per_worker=60, seed=1)
    named = pairs.assign(**{end: frame.index[pairs[end]] for end in ("left", "right")})
    return mixture_for(CrowdData(frame, named), num_clusters=4).fit(progress=False)


def test_typical_items_are_in_the_middle_of_their_cluster(result):
    found = typical_items(result)
    assert found.index.tolist() == [0, 1, 2]
    heights = result.data.features[:, 0]
    for number, names in found["items"].items():
        chosen = result.data.item_positions(names.split(", ")).numpy()
        assert (result.assignments[chosen] == number).all()
        own = heights[result.assignments == number]
        spread = np.abs(heights[chosen] - np.nanmedian(own))
        assert (spread < 1.5 * np.nanstd(own)).all()


def test_columns_that_set_clusters_apart(result):
    found = what_sets_apart(result)
    assert "noise" not in set(found["column"])
    heights, inside = result.data.features[:, 0], result.assignments == 0
    row = found.loc[0].set_index("column").loc["height"]
    assert row["mean"] == pytest.approx(np.nanmean(heights[inside]))
    assert row["mean of others"] == pytest.approx(np.nanmean(heights[~inside]))
    expected = (row["mean"] - row["mean of others"]) / np.nanstd(heights, ddof=1)
    assert row["apart"] == pytest.approx(expected)
    towns = {number: set(rows["column"]) for number, rows in found.groupby(level=0)}
    assert "town=Rome" in towns[0]
    assert "smokes=True" in towns[2]


def test_items_in_doubt_are_the_least_sure(result):
    found = items_in_doubt(result)
    surest = np.sort(result.probabilities.max(1))
    np.testing.assert_allclose(found["probability"], surest[surest < 0.99][:10])
    assert (found["probability"] >= found["its probability"]).all()
    one = cluster(result.data.features[:, :1], num_clusters=1, epochs=1, progress=False)
    assert items_in_doubt(one).empty


def test_pairs_in_dispute_are_those_that_most_answers_are_against(result):
    found = pairs_in_dispute(result)
    pairs = result.data.pairs
    for row in found.itertuples(index=False):
        about = pairs[pairs[["left", "right"]].isin([row.left, row.right]).all(axis=1)]
        assert (about["label"].sum(), len(about)) == (row[2], row[2] + row[3])
        expected = result.same_cluster_probability(row.left, row.right)
        assert row[4] == pytest.approx(expected)
        assert row[2] * (1 - expected) + row[3] * expected > 0.5
    alone = cluster(result.data.features[:, :1], num_clusters=2, epochs=1, progress=False)
    assert pairs_in_dispute(alone) is None


@pytest.mark.long
def test_the_page_tells_what_the_clusters_are(result, tmp_path):
    page = report_page(result)
    for text in ("Typical items", "What sets it apart", "town=Rome", "Pairs in dispute"):
        assert text in page
    assert page.count('<li><span style="background:#') == 3
    assert "prefers-color-scheme: dark" in page
    assert "max-width: 40rem" in page
    result.save(tmp_path / "fit.safetensors")
    without = report_page(load(tmp_path / "fit.safetensors"))  # whose features are not at hand
    assert "Typical items" in without
    assert "What sets it apart" not in without
