"""A fit without choices: what the data make of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import BernoulliEmission, Identity, Standardized
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.interface import DeepBernoulli, DeepNormal, cluster, mixture_for
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from .crowds import quiet_fit

PAIRS = {"left": [0, 1, 0], "right": [2, 3, 1], "worker": list("aab"), "label": [1, 1, 0]}


def two_groups(num_items: int = 40) -> np.ndarray:
    groups = np.arange(num_items) % 2
    return 6.0 * groups[:, None] + np.random.default_rng(0).normal(size=(num_items, 3))


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


@pytest.mark.parametrize(("scale", "shift"), [(1e8, 0.0), (1e-8, 0.0), (1.0, 1e6), (1e-3, -50.0)])
def test_units_of_the_features_do_not_matter(scale, shift):
    features = two_groups()
    before = cluster(features, PAIRS, num_clusters=4, progress=False)
    after = cluster(scale * features + shift, PAIRS, num_clusters=4, progress=False)
    np.testing.assert_allclose(after.probabilities, before.probabilities, atol=1e-6)


def test_a_constant_feature_says_nothing():
    features = two_groups()
    constant = np.column_stack([features, np.full(len(features), 0.1)])
    with_it = cluster(constant, num_clusters=2, progress=False)
    without = cluster(features, num_clusters=2, progress=False)
    assert np.array_equal(with_it.assignments, without.assignments)


@pytest.mark.parametrize("num_clusters", [1, 60])
def test_any_number_of_clusters(num_clusters):
    result = cluster(two_groups(), num_clusters=num_clusters, epochs=3, progress=False)
    assert result.probabilities.shape == (40, num_clusters)


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


def test_options_of_the_recipe_can_be_changed():
    recipe = mixture_for(CrowdData(two_groups()), num_clusters=2)
    assert len(recipe.fit(epochs=2, progress=False).history) == 2


def test_standardized_is_identity_in_other_units():
    location, scale = torch.tensor([1.0, -2.0]), torch.tensor([2.0, 0.5])
    x = torch.randn(7, 2)
    expected = Identity().latent((x - location) / scale)
    assert torch.equal(Standardized(location, scale).latent(x), expected)


def refuses(message):
    return pytest.raises(ValueError, match=message)


def test_bad_input_is_refused():
    with refuses("the data have no features to cluster by: pass features"):
        mixture_for(CrowdData(None, PAIRS))
    with refuses("features have no second axis: pass a column"):
        mixture_for(CrowdData(np.arange(5.0)))
    with refuses("num_starts is 0, but must be at least 1"):
        mixture_for(CrowdData(two_groups())).fit(num_starts=0)
    with refuses("num_clusters is 0, but a mixture needs at least 1"):
        cluster(two_groups(), num_clusters=0)
    with refuses(r"DeepNormal takes one row of numbers per item, but .*\[2, 2\]: .*\[item, 4\]"):
        mixture_for(CrowdData(np.ones((3, 2, 2))), networks=DeepNormal())
    with refuses("scale 0 is not above zero: give features that are constant a scale of 1"):
        Standardized(torch.zeros(2), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_networks_warn_of_features_far_from_unit_scale(scale):
    data = CrowdData(scale * two_groups())
    with pytest.warns(UserWarning, match="standard deviation of a feature is .*: standardize"):
        mixture_for(data, networks=DeepNormal())


def test_fits_with_a_start_of_their_own_are_unchanged():
    """The partition of the start is of the latents, which without units are the features."""
    features = two_groups()
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 3), Identity())
    result = quiet_fit(model, MessagePassingGuide(model), CrowdData(features))
    assert len(np.unique(result.assignments)) == 2
