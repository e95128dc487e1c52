"""Numbers that are repeated: told from the others, which keep coordinates and volume."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.transforms import WithAtoms

from .inner_emissions import EMISSIONS, tensor


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_atoms_are_told_from_other_numbers(make):
    """Beside them coordinates and volume are those of the numbers, as if atoms were missing."""
    inner, atoms = make(), tensor(0.5, torch.nan, -1.0)
    emission = WithAtoms(inner, atoms)
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    features[0, 0], features[1, 2], features[2, 2], features[3, 1] = 0.5, -1.0, torch.nan, 0.5
    latent = emission.latent(features)
    beside = inner.latent(features)
    at_atom = torch.zeros(6, 3, dtype=torch.bool)
    at_atom[0, 0] = at_atom[1, 2] = True
    expected = [beside.masked_fill(at_atom, 0.0), at_atom[:, [0, 2]].double()]
    expected[1][2, 1] = torch.nan
    torch.testing.assert_close(latent, torch.cat(expected, 1), equal_nan=True)
    torch.testing.assert_close(emission.features(latent), features, equal_nan=True)
    missing = features.masked_fill(at_atom, torch.nan)
    torch.testing.assert_close(emission.log_volume(features), inner.log_volume(missing))
    assert emission.latent_size(3) == 5
    assert emission.own_features(3) == [0, 1, 2, 0, 2]
    assert emission.coordinate_names(["a", "b", "c"]) == ["a", "b", "c", "a = 0.5", "c = -1"]
    units = inner.units(3)
    own = None if units is None else [[*units[0], 0, 0], [*units[1], 1, 1]]
    assert own == (units and [part.tolist() for part in emission.units(3)])
    # Of a summary numbers are in the units of the features, and shares stay what they are.
    found = emission.in_feature_units(latent[3:, [0, 4]], [0, 4])
    torch.testing.assert_close(found, torch.stack([features[3:, 0], latent[3:, 4]], 1))
