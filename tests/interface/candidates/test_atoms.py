"""Columns in which one number is repeated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.interface import choice_for
from pyro_crowdclust.interface.candidates.atoms import atoms_of
from pyro_crowdclust.interface.candidates.rounding import unrounded
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import HurdleGaussianComponents
from pyro_crowdclust.results import known_class_probabilities

from ..small_choices import answered, known_part, small


def often_zero(num_items: int = 150) -> tuple[np.ndarray, np.ndarray]:
    """Three clusters of six positive columns, each of them zero for a part of the items."""
    rng = np.random.default_rng(0)
    kinds = np.arange(num_items) % 3
    features = np.exp(rng.normal(size=(3, 6))[kinds] + 0.3 * rng.normal(size=(num_items, 6)))
    features[rng.random(features.shape) < 0.4] = 0
    return features, kinds


def test_a_number_that_few_have_beside_it_is_an_atom():
    rng = np.random.default_rng(0)
    columns = {
        "often zero": np.where(rng.random(200) < 0.3, 0.0, rng.normal(size=200)),
        "whole": rng.integers(0, 6, 200).astype(float),
        "of two": (rng.random(200) < 0.9) * 1.0,
        "smooth": rng.normal(size=200),
        "at a limit": np.maximum(rng.normal(size=200), -0.8),
        "with gaps": np.where(rng.random(200) < 0.5, np.nan, rng.normal(size=200)),
    }
    table = pd.DataFrame(columns)
    data = CrowdData(table, kinds=dict.fromkeys(columns, "real"))
    atoms = dict(zip(columns, atoms_of(data).tolist(), strict=True))
    assert {name: atom for name, atom in atoms.items() if not np.isnan(atom)} == {
        "often zero": 0.0,
        "at a limit": -0.8,
    }
    wide = CrowdData(np.repeat(table[["often zero"]].to_numpy(), 60, axis=1))
    assert bool(atoms_of(wide).isnan().all())


def test_atoms_are_not_spread_with_rounded_numbers():
    features, _ = often_zero()
    rounded = CrowdData(features.round(2))
    spread = unrounded(rounded, atoms_of(rounded)).features
    assert ((spread == 0) == (features.round(2) == 0)).all()
    assert (spread != features.round(2)).any()


@pytest.mark.long
@pytest.mark.parametrize("is_answered", [True, False], ids=["answers", "none"])
def test_patterns_of_zeros_are_no_clusters(is_answered, tmp_path):
    features, kinds = often_zero()
    data = answered(features, kinds) if is_answered else CrowdData(features)
    choice = small(data, 3, 6)
    assert {form.kind for form in choice_for(CrowdData(features)).forms} == {"diagonal Gaussians"}
    result = choice.fit(num_starts=1, progress=False)
    assert isinstance(result.model.components, HurdleGaussianComponents)
    assert clustering_accuracy(kinds, result.assignments) > 0.95
    for number in range(3):
        own, row = features[result.assignments == number], result.components.loc[number]
        np.testing.assert_allclose(row["0 = 0"], (own[:, 0] == 0).mean(), atol=0.02)
    result.save(tmp_path / "fit.safetensors")
    again = load(tmp_path / "fit.safetensors")
    gaps = np.where(np.arange(6) == 2, np.nan, features)
    assert clustering_accuracy(kinds, again.predict(gaps)) > 0.8
    np.testing.assert_allclose(again.predict_proba(gaps), result.predict_proba(gaps), atol=1e-9)


def test_atoms_stand_beside_columns_of_other_kinds():
    features, kinds = often_zero()
    table = pd.DataFrame(features[:, :3], columns=["rent", "fuel", "gifts"])
    table["age"] = 30.0 + 9 * kinds + np.random.default_rng(1).normal(size=len(kinds))
    table["town"] = np.array(["Bari", "Pisa", "Rome"])[kinds]
    result = small(CrowdData(table), 3, forms=1).fit(num_starts=1, progress=False)
    assert clustering_accuracy(kinds, result.assignments) > 0.95
    assert {"rent", "rent = 0", "age", "town=Rome"} <= {*result.components.columns}
    axes = result.to_arviz(5, log_likelihood=False)["posterior"].coords
    assert axes["dim_1_1"].values.tolist() == ["rent = 0", "fuel = 0", "gifts = 0"]
    assert torch.equal(torch.tensor(result.predict(table)), torch.tensor(result.assignments))


def test_atoms_with_known_labels_in_minibatches():
    features, kinds = often_zero(120)
    choice = small(CrowdData(features, **known_part(kinds)), 3, forms=1)
    result = choice.fit(num_starts=1, batch_size=32, epochs=10, progress=False)
    assert isinstance(result.model.components, HurdleGaussianComponents)
    assert (known_class_probabilities(result).argmax(1) == kinds).mean() > 0.95
