"""Many columns, some of them with gaps and some of other kinds, with all that is said of items."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import load
from pyro_crowdclust.interface import classify, cluster
from pyro_crowdclust.simulation import simulate_pairs

NUMBER, DIM = 240, 60
KIND = np.arange(NUMBER) % 4


def table(seed=0):
    """Four kinds, told by none of 60 columns alone, beside what many columns share."""
    rng = np.random.default_rng(seed)
    rows = 0.6 * rng.normal(size=(4, DIM))[KIND] + rng.normal(size=(NUMBER, DIM))
    rows += 0.3 * rng.normal(size=(NUMBER, 5)) @ rng.normal(size=(5, DIM))
    return pd.DataFrame(rows).add_prefix("wave ")


def scattered(frame, share=0.2):
    return frame.mask(np.random.default_rng(1).random(frame.shape) < share)


def in_blocks(frame):
    """Half of the columns were not measured of two items in five."""
    gone = np.random.default_rng(1).random(NUMBER) < 0.4
    return frame.mask(gone[:, None] & (np.arange(frame.shape[1]) < frame.shape[1] / 2))


def with_colours(frame):
    return frame.assign(colour=np.array(["red", "green", "blue"])[np.arange(NUMBER) // 7 % 3])


def with_spikes(frame):
    """One number in five hundred is wrong by far."""
    spikes = np.random.default_rng(2).random(frame.shape) < 0.002
    return frame + 80 * spikes * np.random.default_rng(3).normal(size=frame.shape)


def loud(frame):
    return frame * np.exp(0.7 * np.random.default_rng(4).normal(size=(NUMBER, 1)))


def with_one_loud_row(frame):
    return frame.mul(np.where(np.arange(NUMBER) == 3, 100.0, 1.0), axis=0)


MADE = {
    "spikes": lambda: with_spikes(table()),
    "loud": lambda: loud(table()),
    "loud, with gaps": lambda: scattered(loud(table())),
    "one loud row": lambda: with_one_loud_row(table()),
    "one gap": lambda: table().mask(table() == table().iloc[3, 3]),
    "scattered": lambda: scattered(table()),
    "blocks": lambda: in_blocks(table()),
    "a category": lambda: with_colours(table()),
    "a category and gaps": lambda: scattered(with_colours(table())),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MADE)
def test_clusters_are_found_in_them(name):
    frame = MADE[name]()
    result = cluster(frame, progress=False)
    assert adjusted_rand_score(KIND, result.assignments) > 0.8
    assert [name for name in result.components.columns if name in frame] == [
        name for name in frame.columns if name != "colour"
    ]
    spread = np.nanstd(table().to_numpy())
    clusters = table().groupby(np.asarray(result.assignments))
    means = clusters.mean()[clusters.size() > 10]
    found = result.components.loc[means.index, means.columns]
    assert np.abs(found.to_numpy() - means.to_numpy()).mean() < 0.3 * spread


@pytest.mark.long
def test_gaps_pairs_files_updates_and_new_items_go_together(tmp_path):
    frame = scattered(with_colours(table()))
    rates = {"sensitivity": [0.9, 0.85, 0.8], "specificity": [0.9, 0.95, 0.9]}
    pairs = simulate_pairs(KIND, **rates, pairs_per_worker=150, items=range(80), seed=0)
    result = cluster(frame, pairs, progress=False)
    assert adjusted_rand_score(KIND, result.assignments) > 0.8
    assert result.to_arviz(5)["posterior"]["component_0_mean"].shape[-1] >= 10
    result.save(tmp_path / "fit.safetensors")
    again = load(tmp_path / "fit.safetensors")
    new = frame[:5]
    np.testing.assert_allclose(again.predict_proba(new), result.predict_proba(new))
    np.testing.assert_allclose(result.predict_proba(new).sum(1), 1)
    more = simulate_pairs(KIND, **rates, pairs_per_worker=40, items=range(80, 160), seed=1)
    updated = result.update(more)
    assert adjusted_rand_score(KIND, updated.assignments) > 0.8


@pytest.mark.long
@pytest.mark.parametrize(
    "given",
    [
        {"known": {item: int(KIND[item]) for item in range(0, 60, 3)}},
        {"must_link": [(0, 4), (1, 5)], "cannot_link": [(0, 1), (2, 3), (6, 7)]},
        {"batch_size": 80, "step_size": 0.3},
    ],
    ids=["known", "links", "minibatches"],
)
def test_what_is_known_and_minibatches_go_with_gaps(given):
    given = {name: pd.Series(one) if name == "known" else one for name, one in given.items()}
    result = cluster(scattered(with_colours(loud(table()))), **given, progress=False)
    assert adjusted_rand_score(KIND, result.assignments) > 0.75


@pytest.mark.long
def test_classes_are_found_beside_gaps():
    rng = np.random.default_rng(0)
    items = np.repeat(np.arange(0, NUMBER, 3), 3)
    right = rng.random(len(items)) < 0.75
    said = np.where(right, KIND[items], rng.integers(0, 4, len(items)))
    labels = pd.DataFrame(
        {"item": items, "worker": np.resize([0, 1, 2], len(items)), "label": said}
    )
    result = classify(scattered(with_colours(table())), labels, progress=False)
    assert result.chosen.table.query("chosen")["features"].item() != "none"
    assert (result.class_probabilities.to_numpy().argmax(1) == KIND).mean() > 0.9
    assert {"regression", "full Gaussians"} <= {*result.chosen.table["kind"]}
