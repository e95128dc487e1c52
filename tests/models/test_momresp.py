"""MomResp: its bound, its special case without features, and what features bring."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.infer import Trace_ELBO
from scipy.special import gammaln, logsumexp

from pyro_crowdclust import CrowdData, fit, load
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.emissions import Standardized
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import GaussianComponents, MultinomialComponents
from pyro_crowdclust.models import DawidSkene, MomResp
from pyro_crowdclust.training import NaturalGradient, RobbinsMonro


def labels_of(truth: np.ndarray, items: range, seed: int) -> pd.DataFrame:
    """Two of four workers label each item; half the workers guess a third of the time."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in items:
        for worker in rng.choice(4, 2, replace=False):
            guesses = rng.random() < (0.1 if worker % 2 else 0.4)
            rows.append((item, worker, rng.integers(3) if guesses else truth[item]))
    return pd.DataFrame(rows, columns=["item", "worker", "label"])


def documents(num_items: int, seed: int, length: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Word counts of three topics over six words."""
    rng = np.random.default_rng(seed)
    topics = 0.4 / 6 + 0.3 * np.repeat(np.eye(3), 2, axis=1)
    truth = rng.integers(3, size=num_items)
    return rng.multinomial(length, topics[truth]).astype(float), truth


def train(data: CrowdData, components=None, **options: object):
    annotators = ConfusionMatrices(data.num_workers, data.num_classes)
    model = MomResp(components or MultinomialComponents(3, 6), annotators)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 40, "progress": False} | options
    return fit(model, ClassLabelGuide(model), data, **options)


def test_without_words_it_is_dawid_skene():
    truth = np.arange(30) % 3
    data = CrowdData(np.zeros((30, 6)), labels=labels_of(truth, range(30), 0))
    ours = train(data)
    model = DawidSkene(ConfusionMatrices(4, 3))
    plain = fit(
        model,
        ClassLabelGuide(model),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=40,
        progress=False,
    )
    assert ours.elbo == pytest.approx(plain.elbo, abs=1e-10)
    np.testing.assert_allclose(ours.probabilities, plain.probabilities, atol=1e-12)
    np.testing.assert_allclose(ours.guide.confusion(), plain.guide.confusion(), atol=1e-12)


def test_a_natural_step_counts_words_by_class():
    words, truth = documents(8, 1)
    data = CrowdData(words, labels=labels_of(truth, range(8), 1))
    guide = ClassLabelGuide(MomResp(MultinomialComponents(3, 6, 0.7), ConfusionMatrices(4, 3)))
    batch = full_batch(data)
    q = guide.infer(batch).assignments.numpy()
    Trace_ELBO().differentiable_loss(guide.model, guide, batch).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    concentration = guide.posteriors["components"].standard()[0].numpy()
    expected = 0.7 + q.T @ batch.features.numpy()
    np.testing.assert_allclose(concentration, expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:class . is in no answer")
def test_elbo_is_below_the_evidence_summed_over_all_assignments():
    words, truth = documents(3, 2, length=4)
    data = CrowdData(words, labels=labels_of(truth, range(3), 2), classes=range(3))
    result = train(data, MultinomialComponents(3, 6, 0.7))

    def log_normalizer(alpha: np.ndarray) -> float:
        return float((gammaln(alpha).sum(-1) - gammaln(alpha.sum(-1))).sum())

    prior = np.full((4, 3, 3), 1.0) + 3 * np.eye(3)
    prior = prior[: data.num_workers]
    terms = []
    for classes in np.ndindex(3, 3, 3):
        z = np.eye(3)[list(classes)]
        gamma = prior.copy()
        for item, worker, label in zip(
            data.class_labels.item, data.class_labels.worker, data.class_labels.label, strict=True
        ):
            gamma[worker, classes[item], label] += 1
        parts = [(1 + z.sum(0), np.ones(3)), (0.7 + z.T @ words, np.full((3, 6), 0.7))]
        parts.append((gamma, prior))
        terms.append(sum(log_normalizer(a) - log_normalizer(b) for a, b in parts))
    base = (gammaln(words.sum(1) + 1) - gammaln(words + 1).sum(1)).sum()
    evidence = logsumexp(terms) + base
    assert evidence - 3.0 < result.elbo < evidence


@pytest.mark.long
def test_ascent_and_minibatches():
    words, truth = documents(60, 3)
    data = CrowdData(words, labels=labels_of(truth, range(30), 3))
    whole = train(data)
    assert (np.diff(whole.history["elbo"]) > -1e-8).all()
    schedule = RobbinsMonro(0.5, 20.0, 0.9)
    parts = train(data, batch_size=20, epochs=60, step_size=schedule)
    assert whole.elbo == pytest.approx(parts.elbo, abs=0.05)


def test_words_help_with_few_labels_and_predict_new_items():
    words, truth = documents(200, 4)
    data = CrowdData(words[:150], labels=labels_of(truth, range(40), 4))
    result = train(data)
    assert (result.assignments[:40] == truth[:40]).mean() > 0.95
    assert (result.assignments[40:] == truth[40:150]).mean() > 0.9
    assert (result.predict(words[150:]) == truth[150:]).mean() > 0.9
    assert result.predict_class_probabilities(words[150:]).columns.tolist() == [0, 1, 2]


def test_any_components_serve():
    rng = np.random.default_rng(5)
    truth = rng.integers(3, size=60)
    points = 3 * np.eye(3)[truth] + rng.standard_normal((60, 3))
    data = CrowdData(points, labels=labels_of(truth, range(30), 5))
    result = train(data, GaussianComponents(3, 3))
    assert (result.assignments == truth).mean() > 0.9


def test_an_emission_gives_the_coordinates():
    rng = np.random.default_rng(5)
    truth = rng.integers(2, size=40)
    x = rng.normal(size=(40, 2)) + 3 * truth[:, None]
    labels = labels_of(truth, range(15), seed=6)
    location, scale = torch.tensor([0.5, -1.0]).double(), torch.tensor([2.0, 0.5]).double()
    coordinates = ((torch.from_numpy(x) - location) / scale).numpy()
    found = []
    for features, emission in ((x, Standardized(location, scale)), (coordinates, None)):
        data = CrowdData(features, labels=labels)
        workers = ConfusionMatrices(data.num_workers, data.num_classes)
        components = GaussianComponents(data.num_classes, 2)
        model = MomResp(components, workers, emission=emission)
        options = {"batch_size": None, "step_size": 1.0, "epochs": 5, "dtype": torch.float64}
        result = fit(model, ClassLabelGuide(model), data, progress=False, **options)
        found.append((result.probabilities, result.predict_proba(features[:7]), result.elbo))
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_parts_and_features_that_do_not_fit():
    with pytest.raises(ValueError, match="components have 2 clusters, but the annotators have 3"):
        MomResp(MultinomialComponents(2, 6), ConfusionMatrices(4, 3))
    with pytest.raises(ValueError, match="with heavy tails cannot be the components of MomResp"):
        MomResp(GaussianComponents(3, 2, tails=3.0), ConfusionMatrices(4, 3))
    words, truth = documents(30, 6)
    labels = labels_of(truth, range(30), 6)
    with pytest.raises(ValueError, match="built for 6 features, but every item has 2"):
        train(CrowdData(words[:, :2], labels=labels))
    with pytest.raises(ValueError, match="features is -"):
        train(CrowdData(words - words[0, 0] - 1, labels=labels))


@pytest.mark.parametrize("weight", [2.0, 3.0])
def test_features_count_as_much_as_they_weigh(weight):
    """A document counted w times is one with w times the words, up to the constant of its bound."""
    words, truth = documents(24, 6, length=8)
    labels = labels_of(truth, range(20), 6)
    annotators = ConfusionMatrices(4, 3)
    settings = {"batch_size": None, "step_size": 1.0, "epochs": 15, "progress": False}
    found = []
    for x, one in ((words, weight), (weight * words, 1.0)):
        data = CrowdData(x, labels=labels)
        model = MomResp(MultinomialComponents(3, 6), annotators, feature_weight=one)
        found.append(fit(model, ClassLabelGuide(model), data, **settings))
    weighted, repeated = found
    np.testing.assert_allclose(weighted.probabilities, repeated.probabilities, atol=1e-10)
    np.testing.assert_allclose(
        *(one.guide.posteriors["components"].natural_parameters.detach() for one in found),
        rtol=1e-10,
    )


def test_a_weight_that_is_none():
    with pytest.raises(ValueError, match="feature_weight is 0, but must be above 0"):
        MomResp(MultinomialComponents(3, 6), ConfusionMatrices(4, 3), feature_weight=0)


def test_words_are_read_with_less_weight_and_trained_in_full(tmp_path):
    """Another weight changes neither what was trained nor how much the shares of classes count."""
    words, truth = documents(60, 0)
    truth, words = truth[truth < 2], words[truth < 2]
    data = CrowdData(words, labels=labels_of(truth, range(20), 0))
    plain = train(data)
    sharp = dataclasses.replace(plain, guide=plain.guide.read_at(0.3))
    weaker = MomResp(plain.model.components, plain.model.annotators, feature_weight=0.3)
    guide = ClassLabelGuide(weaker)
    guide.load_state_dict(plain.guide.state_dict())
    expected = dataclasses.replace(plain, model=weaker, guide=guide).probabilities
    np.testing.assert_allclose(sharp.probabilities, expected, atol=1e-12)
    assert abs(sharp.probabilities - plain.probabilities).max() > 0.05
    model = plain.model
    again = fit(
        model,
        ClassLabelGuide(model, feature_weight=0.3),
        data,
        batch_size=None,
        step_size=1.0,
        epochs=40,
        progress=False,
    )
    assert again.elbo == plain.elbo
    np.testing.assert_allclose(again.probabilities, expected, atol=1e-12)
    sharp.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit", data=data)
    np.testing.assert_allclose(loaded.probabilities, expected, atol=1e-12)
    more = {"item": [25], "worker": [0], "label": [0]}
    assert loaded.update(labels=more, epochs=1).guide.feature_weight == 0.3
    for wrong in (0, np.inf, np.nan):
        with pytest.raises(ValueError, match=f"feature_weight is {wrong}"):
            plain.guide.read_at(wrong)
