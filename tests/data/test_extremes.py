"""Legal data at the edge of what there is: a fit ends with something right, or says why not."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.callbacks import DropMoves, MergeMoves
from pyro_crowdclust.emissions import Identity, NormalEmission, Standardized
from pyro_crowdclust.guides import AmortizedGuide, MessagePassingGuide
from pyro_crowdclust.metrics import clustering_accuracy
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.networks import AmortizedRecognition, GaussianRecognition, SkipMLP

from ..crowds import NUM_FEATURES, blobs, quiet_fit

KINDS = ["plain", "message passing", "amortized"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def trained(kind: str, data: CrowdData, num_clusters: int = 3, **options) -> Fitted:
    """A few epochs of a kind of model, with all callbacks."""
    weights = DirichletWeights(num_clusters, 1.0)
    annotators = TwoCoin(max(data.num_workers, 1))
    num_features = data.features.shape[1]
    if kind == "plain":
        components = GaussianComponents(num_clusters, num_features)
        model = SemiCrowdsourcedMixture(weights, components, Identity(), annotators)
        guide = MessagePassingGuide(model)
    else:
        emission = NormalEmission(SkipMLP((2, 5, num_features)), num_features)
        components = GaussianComponents(num_clusters, 2)
        model = SemiCrowdsourcedMixture(weights, components, emission, annotators)
        if kind == "amortized":
            recognition = AmortizedRecognition((num_features, 5), 2, num_clusters)
            guide = AmortizedGuide(model, recognition)
        else:
            guide = MessagePassingGuide(model, GaussianRecognition(SkipMLP((num_features, 4)), 2))
    callbacks = [MergeMoves()] if kind == "amortized" else [MergeMoves(), DropMoves()]
    return quiet_fit(model, guide, data, callbacks=callbacks, step_size=0.3, **options)


def check(result: Fitted) -> None:
    """Everything that can be read is a number."""
    assert result.stop_reason.startswith("budget")
    assert np.isfinite(result.elbo)
    assert result.probabilities.sum(1) == pytest.approx(1.0)
    assert np.isfinite(result.clusters.to_numpy()).all()
    rates = result.workers[["sensitivity", "specificity", "weight"]]
    assert np.isfinite(rates.to_numpy()).all()
    assert rates[["sensitivity", "specificity"]].stack().between(0, 1).all()
    proba = result.predict_proba(result.data.features[:3])
    assert proba.sum(1) == pytest.approx(1.0)


def answers(left: list, right: list, label: list, worker: list | None = None) -> pd.DataFrame:
    worker = ["ann"] * len(left) if worker is None else worker
    return pd.DataFrame({"left": left, "right": right, "worker": worker, "label": label})


@every_kind
@pytest.mark.parametrize("label", [0, 1])
def test_one_worker_and_one_pair(kind, label):
    data = CrowdData(blobs()[0], answers([3], [8], [label]))
    result = trained(kind, data)
    check(result)
    # One answer tells one rate a little, or nothing.
    assert len(result.workers) == 1
    assert result.workers["answers"].tolist() == [1]


@every_kind
@pytest.mark.parametrize("label", [0, 1])
def test_one_answer_for_all(kind, label):
    """All "same", or all "different": the rates go where they must, and nothing breaks."""
    rng = np.random.default_rng(0)
    left = rng.integers(0, 59, 200)
    pairs = answers(left, left + 1, [label] * 200, rng.integers(0, 3, 200))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*repeats an earlier answer")
        data = CrowdData(blobs()[0], pairs)
    result = trained(kind, data)
    check(result)
    rate = result.workers["sensitivity" if label else "specificity"]
    assert (rate > 0.8).all()


@every_kind
def test_more_clusters_than_items(kind):
    result = trained(kind, CrowdData(blobs(5)[0], answers([0], [1], [1])), num_clusters=12)
    check(result)
    assert result.probabilities.shape == (5, 12)
    assert result.clusters["expected_items"].sum() == pytest.approx(5)


@every_kind
def test_two_items(kind):
    check(trained(kind, CrowdData(blobs(2)[0], answers([0], [1], [0])), batch_size=None))


@every_kind
def test_one_item(kind):
    """There is nothing to compare it with; it is one cluster."""
    result = trained(kind, CrowdData(blobs(1)[0]), batch_size=None)
    assert result.stop_reason.startswith("budget")
    assert result.probabilities.sum() == pytest.approx(1.0)


@every_kind
@pytest.mark.parametrize("which", [slice(None), slice(1)], ids=["all", "one"])
def test_constant_features(kind, which):
    features = blobs()[0].copy()
    features[:, which] = 7.0
    check(trained(kind, CrowdData(features, answers([0], [1], [1]))))


def test_a_hundred_thousand_workers():
    """Most gave one answer, and are known as little as that tells."""
    rng = np.random.default_rng(0)
    features, truth = blobs(300)
    left = rng.integers(0, 299, 100_000)
    right = left + 1
    label = (truth[left] == truth[right]).astype(int)
    data = CrowdData(features, answers(left, right, label, np.arange(100_000)))
    assert data.num_workers == 100_000
    result = trained("plain", data, epochs=1, batch_size=None)
    check(result)
    assert len(result.workers) == 100_000
    assert (result.workers["answers"] == 1).all()


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_features_of_every_scale(scale):
    """In units of their spread they are the same features."""
    features, truth = blobs()
    pairs = answers([0], [1], [int(truth[0] == truth[1])])
    results = []
    for factor in (1.0, scale):
        scaled = torch.as_tensor(features * factor)
        emission = Standardized(scaled.mean(0), scaled.std(0))
        components = GaussianComponents(3, NUM_FEATURES)
        model = SemiCrowdsourcedMixture(DirichletWeights(3, 1.0), components, emission, TwoCoin(1))
        data = CrowdData(scaled, pairs)
        options = {"batch_size": None, "step_size": 1.0, "epochs": 30}
        results.append(quiet_fit(model, MessagePassingGuide(model), data, **options))
        check(results[-1])
    assert clustering_accuracy(results[0].assignments, results[1].assignments) == 1.0
    assert results[0].elbo == pytest.approx(results[1].elbo, rel=1e-6)


@every_kind
@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_features_of_every_scale_as_they_are(kind, scale):
    """Priors and networks expect a scale near one; training ends, or says where it went bad."""
    data = CrowdData(blobs()[0] * scale, answers([0], [1], [1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = trained(kind, data)
    if result.stop_reason.startswith("budget"):
        check(result)
    else:
        assert "not finite after" in str(caught[0].message)
        assert "check the features" in str(caught[0].message)
    assert result.probabilities.sum(1) == pytest.approx(1.0)


def test_numbers_whose_squares_are_infinite_are_refused():
    rows = np.eye(3)
    rows[1, 2] = -1e200
    with pytest.raises(ValueError, match=r"features row 1, column 2 is -1e\+200, beyond 1e\+100"):
        CrowdData(rows)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, pd.DataFrame])
def test_large_integers_keep_what_tells_them_apart(make):
    seconds = 1_700_000_000 + np.array([[0, 5], [7, 1], [3, 9]])
    data = CrowdData(make(seconds))
    np.testing.assert_array_equal(data.rows(torch.arange(3)).numpy(), seconds)
    with pytest.raises(ValueError, match="column 0 holds integers around 1.15e.18 that differ by"):
        CrowdData(make(2**60 + np.array([[0, 5], [7, 1], [3, 9]])))
