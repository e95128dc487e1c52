"""Features in other coordinates keep their density, come back, and can be described in a file."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.transforms import (
    Clipped,
    EqualLength,
    Filled,
    Landmarks,
    OneHot,
    Projected,
    Selected,
    WithAtoms,
    Within,
)

from .inner_emissions import EMISSIONS, tensor


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_the_volume_is_the_jacobian(make):
    emission = make()
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for row in range(6):
        jacobian = torch.autograd.functional.jacobian(
            lambda o: emission.latent(o[None])[0], features[row]
        )
        expected = torch.linalg.slogdet(jacobian).logabsdet
        torch.testing.assert_close(emission.log_volume(features)[row], expected)


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_features_come_back(make):
    emission = make()
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(emission.features(emission.latent(features)), features)


@pytest.mark.parametrize(
    "name",
    [
        "powers",
        "selected",
        "atoms",
        "codes",
        "projected",
        "filled",
        "clipped",
        "within",
        "length",
        "landmarks",
    ],
)
def test_a_file_can_say_what_they_are(name):
    inner = EMISSIONS["powers"]()
    emission = {
        "powers": inner,
        "selected": Selected(inner, torch.tensor([True, False, True])),
        "atoms": WithAtoms(inner, tensor(0.5, torch.nan, -1.0)),
        "codes": OneHot(inner, [0, 2, 0]),
        "projected": Projected(inner, torch.zeros(3), torch.eye(3)[:2], 1.0, 0.1),
        "filled": Filled(inner, tensor(0.5, 0.0, -1.0), torch.eye(3)[:2], 0.3),
        "clipped": Clipped(inner, tensor(-0.5, -1.0, 0.0), tensor(0.5, 0.0, torch.inf)),
        "within": Within(inner, tensor(-0.5, -1.0, 0.0), tensor(0.5, 0.0, torch.inf)),
        "length": EqualLength(inner, tensor(0.2, 0.0, -1.0), 2.5),
        "landmarks": Landmarks(inner, torch.eye(3), 0.7),
    }[name]
    tensors: dict[str, torch.Tensor] = {}
    again = build(describe(emission, tensors), tensors)
    features = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = emission.latent(features)
    torch.testing.assert_close(again.latent(features), expected, equal_nan=True)
    torch.testing.assert_close(again.log_volume(features), emission.log_volume(features))
