"""The guide of plain mixtures: many items in parts, and features that count less."""

from __future__ import annotations

import pytest
import torch
from pyro.infer import Trace_ELBO

import pyro_crowdclust.guides.message_passing as module
from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import answered_batch, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import SkipMLP
from pyro_crowdclust.supervision import HiddenMarkovField
from pyro_crowdclust.training import NaturalGradient

from ..crowds import crowd, message_passing_pair, plain_pair
from ..oracles import random_natural


def test_many_items_are_inferred_in_parts(monkeypatch):
    data = crowd()
    model, guide = plain_pair()
    options = {"batch_size": None, "step_size": 0.5, "dtype": torch.float64, "progress": False}
    guide = fit(model, guide, data, epochs=3, **options).guide
    batches = [batch.to(None, torch.float64) for batch in (full_batch(data), answered_batch(data))]
    whole = [guide.infer(batch).logits for batch in batches]
    monkeypatch.setattr(module, "_ROWS", 7)
    for batch, expected in zip(batches, whole, strict=True):
        torch.testing.assert_close(guide.infer(batch).logits, expected)


@pytest.mark.parametrize("kind", ["networks", "a field"])
def test_what_cannot_be_in_parts_is_not(kind, monkeypatch):
    data = crowd()
    if kind == "networks":
        guide = message_passing_pair()[1]
    else:
        data = CrowdData(data.features, known=[0, 1, None] * 20)
        field = HiddenMarkovField.of(data, 3)
        field.divergence.copy_(0.1 * (1 - torch.eye(3)))
        parts = DirichletWeights(3), GaussianComponents(3, data.features.shape[1]), Identity()
        guide = MessagePassingGuide(SemiCrowdsourcedMixture(*parts, supervision=field))
    posterior = guide.posteriors["components"]
    posterior.set_natural_parameters(random_natural(posterior.family, 3))
    batch = full_batch(data).to(None, torch.float64)
    whole = guide.infer(batch).logits
    monkeypatch.setattr(module, "_ROWS", 7)
    assert torch.equal(guide.infer(batch).logits, whole)


def test_features_of_a_smaller_weight_count_as_fewer_items():
    data = crowd()
    size = data.features.shape[1]
    parts = DirichletWeights(3, 1.0), GaussianComponents(3, size), Identity()
    model = SemiCrowdsourcedMixture(*parts, feature_weight=0.3)
    guide = MessagePassingGuide(model)
    posterior = guide.posteriors["components"]
    noise = torch.zeros_like(posterior.natural_parameters)
    noise[:, :size] = torch.randn(3, size, dtype=noise.dtype) / 3
    posterior.set_natural_parameters(posterior.natural_parameters + noise)
    batch = full_batch(data.with_parts(answers=None)).to(None, torch.float64)
    q = guide.infer(batch).assignments
    observed = model.components.observe(batch.features)
    Trace_ELBO().differentiable_loss(model, guide, batch).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    counts = q.mT @ model.components.family.observation_statistics(observed)
    expected = model.components.prior.natural_parameters + 0.3 * counts
    torch.testing.assert_close(posterior.natural_parameters.detach(), expected)


def test_weights_of_features_are_checked():
    parts = DirichletWeights(3), GaussianComponents(3, 2)
    for weight in (0.0, 1.5):
        with pytest.raises(ValueError, match="must be in"):
            SemiCrowdsourcedMixture(*parts, Identity(), feature_weight=weight)
    with pytest.raises(ValueError, match="behind networks"):
        SemiCrowdsourcedMixture(*parts, NormalEmission(SkipMLP((2, 5, 4)), 4), feature_weight=0.5)
