"""Averaged predictions: their average, their bound against brute force, and what stays fixed."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logsumexp, softmax

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.mixture import GaussianComponents, SoftmaxRegression
from pyro_crowdclust.models import AveragedPredictions, DawidSkene, LogResp, MomResp

WEIGHTS = (0.5, 0.3, 0.2)
OPTIONS = {
    "batch_size": None,
    "step_size": 0.7,
    "epochs": 30,
    "dtype": torch.float64,
    "progress": False,
}


def confusion() -> ConfusionMatrices:
    return ConfusionMatrices(2, 2)


@pytest.fixture(scope="module")
def data() -> CrowdData:
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=30)
    item = np.repeat(np.arange(20), 2)
    right = rng.random(40) < 0.8
    said = np.where(right, kind[item], 1 - kind[item])
    labels = pd.DataFrame({"item": item, "worker": [0, 1] * 20, "label": said})
    return CrowdData(rng.normal(size=(30, 2)) + 1.5 * kind[:, None], labels=labels)


@pytest.fixture(scope="module")
def members(data):
    models = [
        LogResp(SoftmaxRegression(2, 2), confusion()),
        MomResp(GaussianComponents(2, 2), confusion()),
        DawidSkene(confusion()),
    ]
    return [fit(model, ClassLabelGuide(model), data, **OPTIONS) for model in models]


@pytest.fixture(scope="module")
def averaged(data, members):
    model = AveragedPredictions([one.guide for one in members], WEIGHTS, confusion())
    return fit(model, ClassLabelGuide(model), data, **OPTIONS)


def predictions(members: list, features: np.ndarray) -> list[np.ndarray]:
    return [one.predict_class_probabilities(features).to_numpy() for one in members]


def test_new_items_have_the_average_of_what_the_members_predict(members, averaged):
    new = np.random.default_rng(1).normal(size=(7, 2))
    expected = sum(w * p for w, p in zip(WEIGHTS, predictions(members, new), strict=True))
    found = averaged.predict_class_probabilities(new).to_numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_labels_and_the_average_are_combined_by_bayes_rule(data, members, averaged):
    """``q(y_i = k) prop. to sum_c w_c p_c(k | x_i) exp(sum_j E[log gamma_jk(a_ij)])``."""
    each = predictions(members, np.asarray(data.features))
    logits = np.log(sum(w * p for w, p in zip(WEIGHTS, each, strict=True)))
    eta = averaged.guide.posteriors["confusion"].natural_parameters.detach() + 1
    expected_log = torch.digamma(eta) - torch.digamma(eta.sum(-1, keepdim=True))
    expected_log = expected_log.reshape(2, 2, 2).numpy()  # worker, class, label
    for item, worker, label in data.labels.astype(int).to_numpy():
        logits[item] += expected_log[worker, :, label]
    np.testing.assert_allclose(averaged.probabilities, softmax(logits, axis=1), atol=1e-6)


def test_the_bound_is_below_the_evidence_and_near(data, members):
    """All classes of the labelled items and, in closed form, all confusion matrices."""
    few = data.labels[data.labels["item"] < 8]
    part = CrowdData(data.features[:8], labels=few)
    model = AveragedPredictions([one.guide for one in members], WEIGHTS, confusion())
    result = fit(model, ClassLabelGuide(model), part, **OPTIONS | {"epochs": 200})
    each = predictions(members, np.asarray(part.features))
    log_p = np.log(sum(w * p for w, p in zip(WEIGHTS, each, strict=True)))
    prior = model.annotators.priors()["confusion"].natural_parameters.reshape(-1, 2, 2) + 1
    rows = few.astype(int).to_numpy()
    terms = []
    for classes in itertools.product(range(2), repeat=8):
        counts = torch.zeros(2, 2, 2, dtype=torch.float64)
        for item, worker, label in rows:
            counts[worker, classes[item], label] += 1

        def log_norm(alpha: torch.Tensor) -> torch.Tensor:
            return torch.lgamma(alpha).sum(-1) - torch.lgamma(alpha.sum(-1))

        of_labels = (log_norm(prior + counts) - log_norm(prior)).sum().item()
        terms.append(of_labels + sum(log_p[item, k] for item, k in enumerate(classes)))
    evidence = logsumexp(terms)
    assert evidence - 1.0 < result.elbo < evidence


def test_training_leaves_the_members_as_they_are(members, averaged):
    for member, kept in zip(members, averaged.model.members, strict=True):
        before, after = member.guide.state_dict(), kept.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_file_holds_the_members(data, averaged, tmp_path):
    averaged.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=data)
    np.testing.assert_array_equal(loaded.probabilities, averaged.probabilities)
    new = np.random.default_rng(2).normal(size=(5, 2))
    np.testing.assert_array_equal(loaded.predict_proba(new), averaged.predict_proba(new))
    more = {"item": [25], "worker": ["new"], "label": [1]}
    assert loaded.update(labels=more).probabilities[25, 1] > averaged.probabilities[25, 1]


@pytest.mark.parametrize(
    ("number", "weights", "said"),
    [
        (0, [], "0 members and 0 weights: pass one member or more"),
        (1, [0.5, 0.5], "1 members and 2 weights"),
        (2, [1.0, -0.5], r"weights are \[1.0, -0.5\], but must be finite numbers of at least 0"),
        (2, [0.0, 0.0], "not all 0"),
        (1, [float("nan")], "finite"),
    ],
)
def test_members_need_weights(members, number, weights, said):
    with pytest.raises(ValueError, match=said):
        AveragedPredictions([one.guide for one in members[:number]], weights, confusion())


def test_members_have_the_classes_of_the_annotators(members):
    with pytest.raises(ValueError, match="a member has 2 classes, but the annotators have 3"):
        AveragedPredictions([members[0].guide], [1.0], ConfusionMatrices(2, 3))
