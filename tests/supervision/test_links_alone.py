"""Links without answers and labels: every model that takes supervision is fitted by its start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity, NormalEmission
from pyro_crowdclust.guides import MessagePassingGuide, PairRegressionGuide, StructuredGuide
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    SoftmaxRegression,
)
from pyro_crowdclust.models import DeepLatentMixture, PairRegression, SemiCrowdsourcedMixture
from pyro_crowdclust.networks import ClusterRecognition, CodedMLP, SkipMLP
from pyro_crowdclust.supervision import CertainLinks, HiddenMarkovField, Supervision

from ..crowds import NUM_CLUSTERS, NUM_FEATURES, blobs


def linked() -> CrowdData:
    """Blobs, and forty links that are right."""
    features, truth = blobs()
    left, right = np.random.default_rng(0).permuted(np.tile(np.arange(60), (2, 1)), axis=1)[:, :40]
    same = truth[left] == truth[right]
    links = {
        name: {"left": left[of], "right": right[of]}
        for name, of in (("must_link", same & (left != right)), ("cannot_link", ~same))
    }
    return CrowdData(features, **links)


def mixture(supervision: Supervision) -> MessagePassingGuide:
    model = SemiCrowdsourcedMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        GaussianComponents(NUM_CLUSTERS, NUM_FEATURES),
        Identity(),
        supervision=supervision,
    )
    return MessagePassingGuide(model)


def regression(supervision: Supervision) -> PairRegressionGuide:
    coefficients = SoftmaxRegression(NUM_CLUSTERS, NUM_FEATURES)
    return PairRegressionGuide(PairRegression(coefficients, None, supervision=supervision))


def deep(supervision: Supervision) -> StructuredGuide:
    decoder = CodedMLP((2, 5, NUM_FEATURES), NUM_CLUSTERS)
    model = DeepLatentMixture(
        DirichletWeights(NUM_CLUSTERS, 1.0),
        DiagonalGaussianComponents(NUM_CLUSTERS, 2),
        NormalEmission(decoder, NUM_FEATURES, num_clusters=NUM_CLUSTERS),
        supervision=supervision,
    )
    head = CodedMLP((5, 6, 4), NUM_CLUSTERS)
    recognition = ClusterRecognition(SkipMLP((NUM_FEATURES, 6, 5)), head, [2])
    return StructuredGuide(model, recognition, num_draws=2)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (mixture, CertainLinks),
        (mixture, HiddenMarkovField),
        (deep, CertainLinks),
        (deep, HiddenMarkovField),
        (regression, CertainLinks),
    ],
)
def test_most_links_are_kept(make: Callable[[Supervision], Any], kind: type[Any], monkeypatch):
    monkeypatch.setattr("pyro_crowdclust.guides.answer_draws._STEPS", 12)
    data = linked()
    guide = make(kind.of(data, NUM_CLUSTERS))
    found = fit(guide.model, guide, data, epochs=20, batch_size=None, step_size=0.5, progress=False)
    together = found.assignments[data.links.left] == found.assignments[data.links.right]
    must = data.links.must.numpy()
    assert together[must].mean() > 0.8
    assert together[~must].mean() < 0.2
