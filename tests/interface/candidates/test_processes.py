"""Gaussian processes beside all that can be said of items, and what is done with their fits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import choice_for, classify
from pyro_crowdclust.simulation import simulate_pairs, simulate_placements

from ..small_choices import two_rings

FEATURES, RING = two_rings(150)
PAIRS = simulate_pairs(RING, [0.95] * 3, [0.95] * 3, pairs_per_worker=150, seed=0)
SAID = {
    "pairs": {"pairs": PAIRS},
    "known labels": {"pairs": PAIRS, "known": np.where(np.arange(150) < 20, RING, -1)},
    "links": {"pairs": PAIRS, "must_link": [(0, 2)], "cannot_link": [(0, 1)]},
    "pages": {
        "placements": simulate_placements(RING, [0.95] * 3, pages_per_worker=6, page_size=8, seed=0)
    },
}


@pytest.mark.long
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_clusters_of_any_shape_are_kept_and_go_on(said, tmp_path):
    data = CrowdData(FEATURES, **said)
    choice = choice_for(data)
    forms = [form for form in choice.forms if form.kind == "narrow Gaussian process"]
    choice = dataclasses.replace(choice, forms=forms, sizes=(2, 4), first_size=4)
    result = choice.fit(progress=False)
    assert "Gaussian process on powers" in result.chosen.winner
    assert adjusted_rand_score(RING, result.assignments) > 0.75
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(loaded.predict_proba(FEATURES), result.predict_proba(FEATURES))
    with_a_gap = FEATURES[:1].copy()
    with_a_gap[0, 0] = np.nan
    assert np.isfinite(loaded.predict_proba(with_a_gap)).all()
    if "placements" not in said:
        updated = loaded.update(PAIRS.head(4).assign(worker="new"), progress=False)
        assert adjusted_rand_score(RING, updated.assignments) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("options", [{"batch_size": 50}, {"dtype": torch.float32}], ids=str)
def test_classes_of_any_shape_beside_somebody_trusted(options, tmp_path):
    workers = np.random.default_rng(0).choice(["expert", "ann"], 100)
    labels = {"item": range(100), "worker": workers, "label": RING[:100]}
    result = classify(FEATURES, labels, trusted=["expert"], progress=False, folds=2, **options)
    assert "Gaussian process" in result.chosen.winner
    assert np.mean(result.class_probabilities.idxmax(axis=1) == RING) > 0.97
    result.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=result.data)
    np.testing.assert_allclose(loaded.probabilities, result.probabilities, atol=1e-6)
    updated = loaded.update(labels={"item": [140], "worker": ["new"], "label": [RING[140]]})
    assert np.mean(updated.class_probabilities.idxmax(axis=1) == RING) > 0.97
