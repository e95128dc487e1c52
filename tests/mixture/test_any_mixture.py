"""Any weights with any components, supervision and emission: sample, fit, read the result."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyro_crowdclust import CrowdData, Fitted

from ..crowds import quiet_fit
from ..mixture_parts import (
    CLUSTERS,
    COMPONENTS,
    EMISSIONS,
    FEATURES,
    ITEMS,
    ON_LATENTS,
    SUPERVISION,
    WEIGHTS,
    guide_of,
    mixture,
    simulated,
)

DEEP = [name for name in EMISSIONS if name != "identity"]
plain = pytest.mark.parametrize(
    ("weights", "components", "supervision"), [*itertools.product(WEIGHTS, COMPONENTS, SUPERVISION)]
)
deep = pytest.mark.parametrize(
    ("weights", "components", "supervision", "emission"),
    [*itertools.product(WEIGHTS, ON_LATENTS, SUPERVISION, DEEP)],
)


def assert_usable(result: Fitted, features: np.ndarray) -> None:
    assert result.stop_reason.startswith("budget")
    assert result.probabilities.shape == (ITEMS, CLUSTERS)
    np.testing.assert_allclose(result.probabilities.sum(1), 1)
    assert (result.assignments == result.probabilities.argmax(1)).all()
    np.testing.assert_allclose(result.predict_proba(features).sum(1), 1)
    assert result.predict(features[:3]).shape == (3,)
    assert 0 <= result.same_cluster_probability(0, 1) <= 1
    assert result.clusters["expected_items"].sum() == pytest.approx(ITEMS)
    assert result.clusters["weight"].sum() == pytest.approx(1)
    assert np.isfinite(result.elbo)
    assert (result.components.index == result.clusters.index).all()
    assert np.isfinite(result.components).all(axis=None)


@plain
def test_on_the_features(weights, components, supervision):
    """At rate 1 on all data every step is coordinate ascent, and the ELBO never falls."""
    model = mixture(weights, components, "identity", supervision)
    features, clusters = simulated(model)
    data = SUPERVISION[supervision].helped(features, clusters)
    result = quiet_fit(model, guide_of(model), data, batch_size=None, step_size=1.0, epochs=8)
    elbos = result.history["elbo"].to_numpy()
    assert (np.diff(elbos) > -1e-9 * np.abs(elbos[0])).all(), elbos
    assert elbos[-1] > elbos[0]
    assert_usable(result, data.features.numpy())


@deep
def test_on_latents(weights, components, supervision, emission):
    model = mixture(weights, components, emission, supervision)
    features, clusters = simulated(model)
    assert features.shape == (ITEMS, FEATURES)
    data = SUPERVISION[supervision].helped(features, clusters)
    result = quiet_fit(model, guide_of(model), data, epochs=1)
    assert_usable(result, data.features.numpy())
    assert result.latent_means.shape == (ITEMS, model.components.num_features)


@pytest.mark.parametrize("components", [name for name in COMPONENTS if name not in ON_LATENTS])
@pytest.mark.parametrize("emission", DEEP)
def test_components_on_features_alone(components, emission):
    with pytest.raises(ValueError, match="components are on latents, which must be normal"):
        mixture("dirichlet", components, emission)


@pytest.mark.parametrize("components", COMPONENTS)
def test_minibatches(components):
    model = mixture("stick-breaking", components)
    features, _ = simulated(model)
    result = quiet_fit(model, guide_of(model), CrowdData(features), step_size=0.2)
    assert_usable(result, features.numpy())
