"""A fit without choices: what the data make of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission, Identity, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import (
    DeepBernoulli,
    DeepNormal,
    cluster,
    mixture_for,
)
from pyro_crowdclust.mixture import (
    DirichletWeights,
    GaussianComponents,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import quiet_fit
from ..mixture_parts import CLUSTERS, COMPONENTS, mixture, simulated
from ..refusals import refuses
from .small_choices import LINK, PAIRS, two_groups


def test_plain_mixture_is_the_long_hand_one_on_standardized_features():
    features = two_groups()
    recipe = mixture_for(CrowdData(features, PAIRS), num_clusters=4)
    short = recipe.fit(progress=False, seed=3)
    data = CrowdData((features - features.mean(0)) / features.std(0), PAIRS)
    model = SemiCrowdsourcedMixture(
        DirichletWeights(4), GaussianComponents(4, 3), Identity(), TwoCoin(2)
    )
    long = fit(model, MessagePassingGuide(model), data, seed=3, progress=False, **recipe.options)
    np.testing.assert_allclose(short.probabilities, long.probabilities, atol=1e-9)
    assert short.elbo == pytest.approx(long.elbo, abs=1e-9 * abs(long.elbo))
    assert short.stop_reason == long.stop_reason


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 16}, r"pass \(16,\) for one layer"),
        ({"hidden": (16, 0)}, "hidden is 0, but must be at least 1"),
        ({"hidden": (1.5,)}, "hidden is 1.5, but must be a whole number"),
        ({"dim": 0}, "dim is 0, but must be at least 1"),
    ],
)
def test_sizes_of_networks_are_whole_numbers(sizes, message):
    with pytest.raises(ValueError, match=message):
        DeepBernoulli(**sizes)


def test_networks_of_ones_own_lack_no_verb():
    class Own:
        dim = 2
        emission = recognition = DeepBernoulli.emission

    with pytest.raises(ValueError, match="an object with their methods; this one has no check"):
        mixture_for(CrowdData(np.eye(4)), networks=Own())


def test_images_keep_their_shape():
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(30, 2, 4)) * (np.arange(30) % 2)[:, None, None]
    networks = DeepBernoulli(dim=2, hidden=(8, 6))
    recipe = mixture_for(CrowdData(images, PAIRS), num_clusters=3, networks=networks)
    emission = recipe.model.emission
    assert isinstance(emission, BernoulliEmission)
    assert emission(torch.zeros(5, 2)).event_shape == (2, 4)
    result = recipe.fit(epochs=2, progress=False)
    assert result.latent_means.shape == (30, 2)
    assert "merges" in result.history


def test_networks_are_mirror_images():
    networks = DeepNormal(dim=2, hidden=(8, 6))
    decoder, encoder = networks.decoder(5), networks.recognition((5,)).network
    assert [layer.out_features for layer in decoder.hidden[::2]] == [6, 8]
    assert [layer.out_features for layer in encoder.hidden[::2]] == [8, 6]
    assert (decoder.output.out_features, encoder.output.out_features) == (5, 4)


def test_data_too_large_for_one_step_come_in_minibatches():
    small, large = (
        mixture_for(CrowdData(np.random.default_rng(0).normal(size=(n, 100)))) for n in (50, 2000)
    )
    assert small.options["batch_size"] is None
    assert large.options["batch_size"] == 1024


def test_networks_train_longer_on_few_items():
    epochs = [
        mixture_for(
            CrowdData(np.ones((n, 2)) * np.arange(n)[:, None] / n), networks=DeepNormal()
        ).options["epochs"]
        for n in (100, 30_000, 100_000)
    ]
    assert epochs == [40, 18, 10]


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_of_every_kind(name):
    features, _ = simulated(mixture("dirichlet", name))
    made = COMPONENTS[name]()

    def components(num_clusters: int, num_features: int):
        assert (num_clusters, num_features) == (CLUSTERS, features.shape[1])
        return made

    recipe = mixture_for(CrowdData(features), num_clusters=CLUSTERS, components=components)
    emission = recipe.model.emission
    real = made.is_continuous
    mean, deviation = features.mean(0), features.std(0, correction=0)
    torch.testing.assert_close(emission.location, torch.where(real, mean, 0.0))
    torch.testing.assert_close(emission.scale, torch.where(real, deviation, 1.0))
    result = recipe.fit(epochs=5, progress=False)
    assert np.isfinite(result.elbo)
    assert result.components.shape == (CLUSTERS, len(made.column_labels()))


def test_mixed_rows_are_real_in_their_real_columns():
    made = COMPONENTS["mixed"]()
    assert made.columns == [[1], [0]]  # a Gaussian and a Poisson
    assert made.is_continuous.tolist() == [False, True]


def test_assignments_are_summed_out_where_nothing_ties_items():
    features = two_groups()
    alone, asked = (
        mixture_for(CrowdData(features, pairs), num_clusters=4) for pairs in (None, PAIRS)
    )
    linked = mixture_for(CrowdData(features, must_link=LINK), num_clusters=4)
    summed = [recipe.model.sum_out_assignments for recipe in (alone, asked, linked)]
    assert summed == [torch.float64, None, None]
    data = CrowdData((features - features.mean(0)) / features.std(0))
    model = SemiCrowdsourcedMixture(DirichletWeights(4), GaussianComponents(4, 3), Identity())
    long = fit(model, MessagePassingGuide(model), data, progress=False, **alone.options)
    short = alone.fit(progress=False)
    np.testing.assert_allclose(short.probabilities, long.probabilities, atol=1e-9)


def test_draws_of_mixed_rows_have_the_names_of_their_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "height": rng.normal(size=40),
        "smokes": rng.random(40) < 0.5,
        "weight": rng.normal(size=40),
        "visits": rng.poisson(4, 40),
    })  # fmt: skip
    data = CrowdData(table, kinds={"visits": "count"})
    result = mixture_for(data, num_clusters=2).fit(epochs=2, progress=False)
    drawn = result.to_arviz(10)["posterior"]
    assert {dim: own.values.tolist() for dim, own in drawn.coords.items() if "dim" in dim} == {
        **dict.fromkeys(("dim_0", "dim_other_0"), ["height", "weight"]),
        **{"dim_1": ["visits"], "dim_2": ["smokes"]},
    }


def test_options_of_the_recipe_can_be_changed():
    recipe = mixture_for(CrowdData(two_groups()), num_clusters=2)
    assert len(recipe.fit(epochs=2, progress=False).history) == 2


def test_standardized_is_identity_in_other_units():
    location, scale = torch.tensor([1.0, -2.0]), torch.tensor([2.0, 0.5])
    x = torch.randn(7, 2)
    expected = Identity().latent((x - location) / scale)
    assert torch.equal(Standardized(location, scale).latent(x), expected)


def test_bad_input_is_refused():
    with refuses("the data have no features to cluster by: pass features.*at random first"):
        mixture_for(CrowdData(None, PAIRS))
    with refuses("features have no second axis: pass a column"):
        mixture_for(CrowdData(np.arange(5.0)))
    with refuses("pass components or networks, not both"):
        mixture_for(CrowdData(two_groups()), components=GaussianComponents, networks=DeepNormal())
    with refuses("num_starts is 0, but must be at least 1"):
        mixture_for(CrowdData(two_groups())).fit(num_starts=0)
    for name, wrong in (("epochs", "5"), ("epochs", 2.5), ("batch_size", 7.5)):
        with refuses(f"{name} is {wrong!r}, but must be a whole number"):
            mixture_for(CrowdData(two_groups())).fit(**{name: wrong})
    with refuses("num_clusters is 0, but must be at least 1"):
        cluster(two_groups(), num_clusters=0)
    with refuses(r"DeepNormal takes one row of numbers per item, but .*\[2, 2\]: .*\[item, 4\]"):
        mixture_for(CrowdData(np.ones((3, 2, 2))), networks=DeepNormal())
    with refuses(
        "column 0 has a mean of .* deviation of .*e-40, but networks need numbers between"
    ):
        mixture_for(CrowdData(1e-40 * two_groups()), networks=DeepNormal())
    with refuses(
        "scale has the value 0, but must be above zero: use 1 for features that are constant"
    ):
        Standardized(torch.zeros(2), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (1e4, -30.0)])
def test_networks_standardize_for_themselves(scale, shift):
    torch.set_default_dtype(torch.float64)
    networks = DeepNormal(dim=2, hidden=(8,))
    features = two_groups(60)
    before, after = (
        mixture_for(CrowdData(own), num_clusters=3, networks=networks).fit(
            epochs=3, dtype=torch.float64, progress=False
        )
        for own in (features, scale * features + shift)
    )
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-5)
    # The bound is that of the features in their own units.
    jacobian = 60 * 3 * np.log(scale)
    assert after.elbo == pytest.approx(before.elbo - jacobian, abs=1e-3)


def test_networks_keep_the_units_in_a_file(tmp_path):
    features = 100 * two_groups(60) + 7
    networks = DeepNormal(dim=2, hidden=(8,))
    result = cluster(features, networks=networks, num_clusters=3, epochs=2, progress=False)
    result.save(tmp_path / "fit.safetensors")
    loaded = load(tmp_path / "fit.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(features), result.predict_proba(features))
    torch.testing.assert_close(loaded.model.emission.location, result.model.emission.location)


def test_fits_with_a_start_of_their_own_are_unchanged():
    """The partition of the start is of the latents, which without units are the features."""
    features = two_groups()
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 3), Identity())
    result = quiet_fit(model, MessagePassingGuide(model), CrowdData(features))
    assert len(np.unique(result.assignments)) == 2
