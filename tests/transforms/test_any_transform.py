"""Features in other coordinates keep their density, come back, and can be described in a file."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.files.description import build, describe

from .inner_emissions import EMISSIONS, TRANSFORMS, tensor


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


@pytest.mark.parametrize("make", TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_a_file_can_say_what_they_are(make):
    emission = make(EMISSIONS["powers"]())
    tensors: dict[str, torch.Tensor] = {}
    again = build(describe(emission, tensors), tensors)
    features = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = emission.latent(features)
    torch.testing.assert_close(again.latent(features), expected, equal_nan=True)
    torch.testing.assert_close(again.log_volume(features), emission.log_volume(features))


@pytest.mark.parametrize("inner", EMISSIONS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_verb_writes_into_its_argument(name, inner):
    emission = TRANSFORMS[name](EMISSIONS[inner]())
    given = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    given[0] = tensor(0.5, 1.0, -1.0)  # of which two are atoms
    latent = emission.latent(given)
    written = [(emission.latent, given), (emission.log_volume, given)]
    if name != "landmarks":  # which nobody can invert
        written += [(emission.features, latent), (emission, latent)]
    for verb, argument in written:
        before = argument.clone()
        verb(argument)
        torch.testing.assert_close(argument, before, rtol=0, atol=0, equal_nan=True)
