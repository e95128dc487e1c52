"""Features in other coordinates keep their density."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity, Standardized
from pyro_crowdclust.files.description import build, describe
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.transforms import (
    Filled,
    OneHot,
    PowerTransformed,
    Projected,
    Selected,
    WithAtoms,
)
from pyro_crowdclust.transforms.power import inverse_yeo_johnson, yeo_johnson

from ..crowds import fit_plain

POWERS = [-1.5, 0.0, 0.4, 1.0, 2.0, 3.5]


def tensor(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


EMISSIONS = {
    "identity": Identity,
    "standardized": lambda: Standardized(tensor(1.0, -2.0, 0.0), tensor(0.5, 3.0, 1.0)),
    "powers": lambda: PowerTransformed(
        tensor(0.0, 0.4, 2.0),
        tensor(0.1, -0.2, 0.3),
        tensor(2.0, 0.3, 1.0),
        tensor(-0.5, 0.2, 0.0),
        tensor(0.7, 1.0, 3.0),
    ),
}


@pytest.mark.parametrize("power", POWERS)
def test_the_transform_is_that_of_scipy(power):
    x = np.array([-30.0, -2.0, -1e-9, 0.0, 1e-9, 0.3, 5.0, 200.0])
    ours = yeo_johnson(torch.from_numpy(x), torch.tensor(power))
    np.testing.assert_allclose(ours, scipy.stats.yeojohnson(x, power), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("power", POWERS)
def test_the_inverse_returns_what_went_in(power):
    x = tensor(-30.0, -2.0, 0.0, 0.3, 5.0, 200.0)
    back = inverse_yeo_johnson(yeo_johnson(x, torch.tensor(power)), torch.tensor(power))
    torch.testing.assert_close(back, x, rtol=1e-6, atol=1e-9)


def test_beyond_its_range_the_inverse_is_far_and_finite():
    assert inverse_yeo_johnson(tensor(10.0), torch.tensor(-1.0)).isfinite().all()


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


@pytest.mark.parametrize("scale", [1.7, tensor(1.7, 0.6)], ids=["common", "each"])
def test_a_projection_has_the_density_of_probabilistic_principal_components(scale):
    """A Gaussian on the directions and noise on the rest is one Gaussian of all features."""
    generator = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(5, 2, generator=generator).double()).Q.mT
    mean, residual = torch.randn(5, generator=generator).double(), 0.3
    projected = Projected(Identity(), mean, directions, scale, residual)
    location, covariance = tensor(0.4, -0.2), torch.tensor([[1.0, 0.3], [0.3, 0.5]]).double()
    features = torch.randn(4, 5, generator=generator).double()
    latent = torch.distributions.MultivariateNormal(location, covariance)
    ours = latent.log_prob(projected.latent(features)) + projected.log_volume(features)
    rest = torch.eye(5).double() - directions.mT @ directions
    units = torch.diag(scale * torch.ones(2).double())
    whole = torch.distributions.MultivariateNormal(
        mean + (scale * location) @ directions,
        directions.mT @ units @ covariance @ units @ directions + residual * rest,
    )
    torch.testing.assert_close(ours, whole.log_prob(features))
    assert projected.latent_size(5) == 2
    back = projected.latent(projected.features(projected.latent(features)))
    torch.testing.assert_close(back, projected.latent(features))


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_a_selection_is_of_some_features(make):
    """Its coordinates are those of the kept features; the others come back at their origin."""
    inner, kept = make(), torch.tensor([True, False, True])
    emission = Selected(inner, kept)
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    latent = emission.latent(features)
    torch.testing.assert_close(latent, inner.latent(features)[:, kept])
    back = emission.features(latent)
    torch.testing.assert_close(back[:, kept], features[:, kept])
    torch.testing.assert_close(back[:, ~kept], inner.features(torch.zeros(6, 3).double())[:, ~kept])
    assert emission.latent_size(3) == 2
    assert emission.own_features(3) == [0, 2]
    # Two columns about the last feature, as of one with two categories.
    twice = emission.in_feature_units(latent[:, [1, 1]], [1, 1])
    torch.testing.assert_close(twice, features[:, [2, 2]])


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


@pytest.mark.parametrize("make", EMISSIONS.values(), ids=EMISSIONS.keys())
def test_categories_are_numbers_of_their_own(make):
    inner, sizes = make(), [0, 3, 0]
    emission = OneHot(inner, sizes)
    features = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    features[:, 1] = tensor(0.0, 1.0, 2.0, 2.0, 0.0, torch.nan)
    latent = emission.latent(features)
    torch.testing.assert_close(latent[:, :2], inner.latent(features)[:, [0, 2]])
    codes = torch.nn.functional.one_hot(features[:5, 1].long(), 3).double()
    torch.testing.assert_close(latent[:5, 2:], codes)
    assert latent[5, 2:].isnan().all()
    torch.testing.assert_close(emission.features(latent[:5]), features[:5])
    assert emission.latent_size(3) == latent.shape[1]
    assert emission.own_features(3) == [0, 2, 1, 1, 1]
    names = emission.coordinate_names(["a", "b", "c"])
    assert names == ["a", "c", "b = 0", "b = 1", "b = 2"]
    found = emission.in_feature_units(latent[:5, [1, 3]], [1, 3])
    torch.testing.assert_close(found, torch.stack([features[:5, 2], latent[:5, 3]], 1))
    units = emission.units(3)
    if units is not None:
        back = units[0] + units[1] * latent[:5]
        torch.testing.assert_close(back, torch.cat([features[:5, [0, 2]], codes], 1))
    of_some = OneHot(Selected(inner, torch.tensor([False, True, True])), sizes)
    torch.testing.assert_close(of_some.latent(features), latent[:, 1:], equal_nan=True)


@pytest.mark.parametrize(("scale", "residual"), [(0.0, 1.0), (1.0, 0.0)])
def test_a_projection_needs_units(scale, residual):
    with pytest.raises(ValueError, match="must be above zero"):
        Projected(Identity(), torch.zeros(2), torch.eye(2)[:1], scale, residual)


def test_directions_need_whole_rows():
    """A direction is a sum over all features; powers are of one each."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3)) + 6 * (np.arange(60) % 2)[:, None]
    gappy = features.copy()
    gappy[0, 1] = np.nan
    for emission in (
        PowerTransformed(torch.ones(3), torch.zeros(3), torch.ones(3)),
        Selected(Identity(), torch.tensor([True, True, False])),
        Projected(Identity(), torch.zeros(3), torch.eye(3)[:2], 1.0, 1.0),
    ):
        dim = emission.latent_size(3)
        model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, dim), emission)
        result = fit_plain(model, MessagePassingGuide(model), CrowdData(features), epochs=5)
        if emission.mixes_features:
            with pytest.raises(ValueError, match="1 feature of the data are missing"):
                result.predict(gappy)
        else:
            assert np.isfinite(result.predict_proba(gappy)).all()


def test_gaps_are_filled_and_the_rest_is_that_of_the_inner_coordinates():
    inner = OneHot(EMISSIONS["powers"](), [0, 2, 0])
    emission = Filled(inner, tensor(0.5, -1.0, 0.25, 0.75))
    features = tensor(0.3, 1.0, -2.0, torch.nan, torch.nan, 4.0).reshape(2, 3)
    points, plain = emission.latent(features), inner.latent(features)
    torch.testing.assert_close(points[0], plain[0])
    torch.testing.assert_close(points[1], tensor(0.5, float(plain[1, 1]), 0.25, 0.75))
    assert emission.latent_size(3) == 4
    torch.testing.assert_close(emission.features(points[:1]), features[:1])
    assert emission.coordinate_names("abc") == inner.coordinate_names("abc")
    assert emission.own_features(3) == [0, 2, 1, 1]
    assert emission.units(3) is None  # as of powers
    torch.testing.assert_close(emission.log_volume(features), inner.log_volume(features))
    here = emission.in_feature_units(points, [0, 1, 2, 3])
    torch.testing.assert_close(here, inner.in_feature_units(points, [0, 1, 2, 3]))
    directed = Projected(emission, torch.zeros(4), torch.eye(4)[:2], 1.0, 0.1)
    assert emission.fills_gaps
    assert directed.fills_gaps
    assert not inner.fills_gaps
    assert directed.latent(features).isfinite().all()


@pytest.mark.parametrize("name", ["powers", "selected", "atoms", "codes", "projected", "filled"])
def test_a_file_can_say_what_they_are(name):
    inner = EMISSIONS["powers"]()
    emission = {
        "powers": inner,
        "selected": Selected(inner, torch.tensor([True, False, True])),
        "atoms": WithAtoms(inner, tensor(0.5, torch.nan, -1.0)),
        "codes": OneHot(inner, [0, 2, 0]),
        "projected": Projected(inner, torch.zeros(3), torch.eye(3)[:2], 1.0, 0.1),
        "filled": Filled(inner, tensor(0.5, 0.0, -1.0)),
    }[name]
    tensors: dict[str, torch.Tensor] = {}
    again = build(describe(emission, tensors), tensors)
    features = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.latent(features), emission.latent(features))
    torch.testing.assert_close(again.log_volume(features), emission.log_volume(features))
