"""LogResp: its bound against quadrature and brute force, its steps, and what it predicts."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.polynomial.hermite_e import hermegauss
from pyro.infer import Trace_ELBO
from scipy.special import gammaln, log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.emissions import Standardized
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import DirichletWeights, SoftmaxRegression
from pyro_crowdclust.mixture.softmax_regression import expected_log_sum_exp
from pyro_crowdclust.models import DawidSkene, LogResp
from pyro_crowdclust.training import NaturalGradient, RobbinsMonro


def gauss_expectation(mean: np.ndarray, variance: np.ndarray) -> float:
    """E[lse] by Gauss-Hermite quadrature in three dimensions."""
    nodes, weights = hermegauss(40)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=3)))
    mass = np.prod(list(itertools.product(weights, repeat=3)), axis=1)
    return float(mass @ logsumexp(mean + np.sqrt(variance) * points, axis=1))


def test_draws_of_the_prior_have_its_scales():
    torch.manual_seed(0)
    regression = SoftmaxRegression(1000, 2, scale=0.3, intercept_scale=5.0)
    mean, _ = regression.family.unpack(regression.distribution().sample())
    expected = torch.tensor([0.3, 0.3, 5.0], dtype=torch.float64)
    torch.testing.assert_close(mean.std(0), expected, rtol=0.1, atol=0)


def test_moderated_scores_are_those_of_mackay():
    """``m / sqrt(1 + pi v / 8)`` with mean m and variance v of every score, row by row."""
    regression = SoftmaxRegression(3, 2)
    root = torch.randn(3, 3, 3, dtype=torch.float64)
    mean, covariance = torch.randn(3, 3, dtype=torch.float64), root @ root.mT + torch.eye(3)
    precision = torch.linalg.inv(covariance)
    linear = (precision @ mean.unsqueeze(-1)).squeeze(-1)
    eta = regression.family.pack(linear, -precision / 2)
    statistics = regression.family.expected_statistics(eta)
    x = torch.randn(5, 2, dtype=torch.float64)
    expected = torch.zeros(5, 3, dtype=torch.float64)
    for item, row in enumerate(x):
        own = torch.cat([row, torch.ones(1, dtype=row.dtype)])
        for k in range(3):
            v = own @ covariance[k] @ own
            expected[item, k] = mean[k] @ own / torch.sqrt(1 + torch.pi * v / 8)
    found = regression.log_moderated(statistics, x)
    torch.testing.assert_close(found, expected.log_softmax(-1))


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 4.0])
def test_log_sum_exp_is_bounded_from_above_and_tightly(spread):
    mean, variance = torch.randn(3), spread * (0.5 + torch.rand(3))
    exact = gauss_expectation(mean.numpy(), variance.numpy())
    bound = expected_log_sum_exp(mean[None], variance[None]).item()
    jensen = (mean + variance / 2).logsumexp(0).item()
    assert exact - 1e-9 <= bound <= jensen + 1e-9
    assert bound - exact < 0.02 + 0.1 * spread
    if spread == 0:
        assert bound == pytest.approx(exact, abs=1e-12)


def test_at_the_best_tilt_the_slope_in_the_variance_is_half_a_curvature():
    mean, variance = torch.randn(4, 3), torch.rand(4, 3).requires_grad_()
    expected_log_sum_exp(mean, variance).sum().backward()
    tilt = mean.softmax(-1)
    for _ in range(200):
        tilt = (mean + (0.5 - tilt) * variance.detach()).softmax(-1)
    torch.testing.assert_close(variance.grad, tilt * (1 - tilt) / 2, atol=1e-3, rtol=0)


def test_for_one_point_the_classes_are_those_of_softmax():
    regression = SoftmaxRegression(3, 2)
    phi, x = torch.randn(3, 3), torch.randn(5, 2)
    statistics = regression.family.sufficient_statistics(phi)
    expected = (x @ phi[:, :2].mT + phi[:, 2]).log_softmax(-1)
    torch.testing.assert_close(regression.log_classes(statistics, x), expected)


def test_the_prior_is_a_gaussian_and_draws_from_it():
    regression = SoftmaxRegression(2, 3, scale=0.7, intercept_scale=2.0)
    site = regression.distribution()
    drawn = site.sample()
    phi = regression.family.unpack(drawn)[0]
    scale = torch.tensor([0.7, 0.7, 0.7, 2.0])
    expected = torch.distributions.Normal(0.0, scale).log_prob(phi).sum(-1)
    torch.testing.assert_close(site.log_prob(drawn), expected)
    same = regression.prior.distribution().log_prob(drawn)
    torch.testing.assert_close(same, expected)


def tiny() -> CrowdData:
    rows = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1), (2, 0, 0)]
    labels = pd.DataFrame(rows, columns=["item", "worker", "label"])
    return CrowdData(np.array([[-1.0], [0.5], [-0.3]]), labels=labels)


def log_evidence(data: CrowdData, scale: float, intercept_scale: float) -> float:
    """Sum over all classes, confusion matrices in closed form, the regression by quadrature."""
    nodes, weights = hermegauss(60)
    weights = weights / weights.sum()
    # Only the difference of the two classes' weights matters.
    slope, intercept = np.meshgrid(
        nodes * scale * np.sqrt(2), nodes * intercept_scale * np.sqrt(2), indexing="ij"
    )
    mass = np.outer(weights, weights)
    prior = np.array([[2.0, 1.5], [1.5, 2.0]])
    total = 0.0
    for classes in itertools.product(range(2), repeat=3):
        likelihood = np.ones_like(slope)
        for x, y in zip(data.features[:, 0], classes, strict=True):
            scores = np.stack([slope * x + intercept, np.zeros_like(slope)])
            likelihood *= np.exp(log_softmax(scores, axis=0)[y])
        counts = np.stack([prior, prior])
        for item, worker, label in data.labels.itertuples(index=False):
            counts[worker, classes[item], label] += 1
        of_labels = gammaln(counts).sum() - gammaln(counts.sum(-1)).sum()
        of_labels -= 2 * (gammaln(prior).sum() - gammaln(prior.sum(-1)).sum())
        total += (mass * likelihood).sum() * np.exp(of_labels)
    return float(np.log(total))


def test_elbo_stays_below_the_evidence():
    data = tiny()
    regression = SoftmaxRegression(2, 1, scale=1.2, intercept_scale=0.8, learn_scale=False)
    model = LogResp(regression, ConfusionMatrices(2, 2, 2.0, 1.5))
    guide = ClassLabelGuide(model)
    batch = full_batch(data)
    optimizer = NaturalGradient(guide.posteriors.values(), 0.5)
    elbos = []
    for _ in range(40):
        guide.zero_grad()
        loss = Trace_ELBO().differentiable_loss(model, guide, batch)
        loss.backward()
        optimizer.step()
        elbos.append(-loss.item())
    assert (np.diff(elbos) > -1e-9).all()
    evidence = log_evidence(data, 1.2, 0.8)
    assert evidence - 1.5 < elbos[-1] < evidence


def test_a_natural_step_adds_the_curvature_at_the_best_tilt():
    data = tiny()
    regression = SoftmaxRegression(2, 1, scale=1.2, intercept_scale=0.8, learn_scale=False)
    model = LogResp(regression, ConfusionMatrices(2, 2))
    guide = ClassLabelGuide(model)
    Trace_ELBO().differentiable_loss(model, guide, full_batch(data)).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    _, covariance = guide.posteriors["coefficients"].standard()
    # By symmetry both tilts are one half at the prior.
    x = np.c_[data.features, np.ones(3)]
    precision = np.diag([1.2**-2, 0.8**-2]) + 0.25 * x.T @ x
    np.testing.assert_allclose(np.linalg.inv(covariance[0]), precision, rtol=1e-9)


def test_without_information_in_the_features_it_is_dawid_skene():
    data = CrowdData(np.zeros((3, 1)), labels=tiny().labels)
    annotators = ConfusionMatrices(2, 2)
    options = {"batch_size": None, "step_size": 1.0, "epochs": 40, "progress": False}
    tight = SoftmaxRegression(2, 1, scale=1e-4, intercept_scale=1e-4, learn_scale=False)
    model = LogResp(tight, annotators)
    ours = fit(model, ClassLabelGuide(model), data, **options)
    plain = DawidSkene(annotators, DirichletWeights(2, 1e8))
    theirs = fit(plain, ClassLabelGuide(plain), data, **options)
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=1e-6)
    assert ours.elbo == pytest.approx(theirs.elbo, abs=1e-5)


def classification(num_items: int, seed: int) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_items, 4))
    truth = (x @ rng.standard_normal((4, 3))).argmax(1)
    rows = []
    for item in range(num_items // 2):
        for worker in rng.choice(6, 2, replace=False):
            right = rng.random() < (0.85 if worker % 2 else 0.5)
            rows.append((item, worker, truth[item] if right else rng.integers(3)))
    return x, truth, pd.DataFrame(rows, columns=["item", "worker", "label"])


def test_it_predicts_items_without_labels_and_new_ones():
    x, truth, labels = classification(300, seed=0)
    data = CrowdData(x[:200], labels=labels)
    model = LogResp(SoftmaxRegression(3, 4), ConfusionMatrices(6, 3))
    options = {"step_size": 0.5, "epochs": 40, "optim": partial(torch.optim.Adam, lr=0.1)}
    result = fit(model, ClassLabelGuide(model), data, batch_size=None, progress=False, **options)
    assert (result.assignments[150:] == truth[150:200]).mean() > 0.85
    assert (result.predict(x[200:]) == truth[200:]).mean() > 0.85
    frame = result.predict_class_probabilities(pd.DataFrame(x[200:], index=range(900, 1000)))
    assert frame.index.tolist() == list(range(900, 1000))
    assert frame.columns.tolist() == [0, 1, 2]


@pytest.mark.long
@pytest.mark.parametrize("learn_scale", [False, True])
def test_items_without_labels_teach_nothing(learn_scale):
    """They once pulled all weights to zero, and a learned scale with them."""
    x, truth, labels = classification(600, seed=2)
    labels = labels[labels["item"] < 30]
    regression = SoftmaxRegression(3, 4, learn_scale=learn_scale)
    model = LogResp(regression, ConfusionMatrices(6, 3))
    options = {"step_size": 0.5, "epochs": 40, "optim": partial(torch.optim.Adam, lr=0.1)}
    few, many = (
        fit(model, ClassLabelGuide(model), data, batch_size=None, progress=False, **options)
        for data in (CrowdData(x[:30], labels=labels), CrowdData(x, labels=labels))
    )
    assert many.elbo == pytest.approx(few.elbo, abs=1e-5)
    scales = [one.model.regression.log_scale.exp().item() for one in (few, many)]
    assert scales[1] == pytest.approx(scales[0], rel=1e-5)
    assert (scales[0] != 1.0) == learn_scale
    assert (many.assignments[30:] == truth[30:]).mean() > 0.6
    np.testing.assert_allclose(many.probabilities[:30], few.probabilities, atol=1e-5)


def test_an_emission_gives_the_coordinates():
    x, _, labels = classification(60, 3)
    location, scale = torch.tensor([0.5, -1.0]).double(), torch.tensor([2.0, 0.5]).double()
    x = x[:, :2]
    coordinates = (torch.from_numpy(x) - location) / scale
    found = []
    for features, emission in ((x, Standardized(location, scale)), (coordinates.numpy(), None)):
        workers = ConfusionMatrices(labels["worker"].nunique(), labels["label"].nunique())
        model = LogResp(SoftmaxRegression(workers.num_classes, 2), workers, emission)
        result = fit(
            model,
            ClassLabelGuide(model),
            CrowdData(features, labels=labels),
            **{"batch_size": None, "step_size": 0.5, "epochs": 5, "progress": False},
            dtype=torch.float64,
        )
        found.append((result.probabilities, result.predict_proba(features[:7]), result.elbo))
    for one, other in zip(*found, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


@pytest.mark.long
def test_minibatches_reach_the_elbo_of_the_full_batch():
    x, _, labels = classification(60, seed=1)
    model = LogResp(SoftmaxRegression(3, 4, scale=1.0, learn_scale=False), ConfusionMatrices(6, 3))
    data = CrowdData(x, labels=labels)
    whole = fit(
        model,
        ClassLabelGuide(model),
        data,
        batch_size=None,
        step_size=0.7,
        epochs=60,
        progress=False,
    )
    schedule = RobbinsMonro(0.3, 30.0, 0.9)
    parts = fit(
        model,
        ClassLabelGuide(model),
        data,
        batch_size=20,
        step_size=schedule,
        epochs=80,
        progress=False,
    )
    assert whole.elbo == pytest.approx(parts.elbo, abs=0.1)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "no features, but this model needs them"),
        (np.zeros((3, 2)), "the model was built for 1 features, but every item has 2"),
    ],
)
def test_features_that_do_not_fit(features, message):
    data = CrowdData(features, labels=tiny().labels)
    model = LogResp(SoftmaxRegression(2, 1), ConfusionMatrices(2, 2))
    with pytest.raises(ValueError, match=message):
        fit(model, ClassLabelGuide(model), data, progress=False)


def test_parts_that_do_not_fit():
    with pytest.raises(ValueError, match="regression has 3 classes, but the annotators have 2"):
        LogResp(SoftmaxRegression(3, 1), ConfusionMatrices(2, 2))
    with pytest.raises(ValueError, match="^scale is 0, but must be above 0"):
        SoftmaxRegression(3, 1, scale=0)
    with pytest.raises(ValueError, match="^intercept_scale is -1.0, but must be above 0"):
        SoftmaxRegression(3, 1, intercept_scale=-1.0)


def test_a_regression_on_no_features_needs_no_scale():
    regression = SoftmaxRegression(3, 0)
    assert regression.precision().tolist() == [regression.intercept_scale**-2]


@pytest.mark.long
def test_a_point_estimate_is_the_logistic_regression_on_q():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    truth = (x @ rng.normal(size=(2, 3)) * 2).argmax(1)
    items = np.repeat(np.arange(50), 3)
    said = np.where(rng.random(150) < 0.8, truth[items], rng.integers(3, size=150))
    labels = pd.DataFrame({"item": items, "worker": np.tile(range(3), 50), "label": said})
    model = LogResp(
        SoftmaxRegression(3, 2, scale=1.5, intercept_scale=1e3), ConfusionMatrices(3, 3)
    )
    guide = ClassLabelGuide(model, points=["coefficients"])
    data = CrowdData(x, labels=labels)
    decay = {"step_size": 0.5, "optim": partial(torch.optim.Adam, lr=0.02), "dtype": torch.float64}
    result = fit(model, guide, data, batch_size=None, epochs=600, progress=False, **decay)
    phi = result.guide.posteriors["coefficients"].value().detach().numpy()
    peer = LogisticRegression(C=1.5**2, tol=1e-8, max_iter=1000)
    q = result.probabilities[:50]
    peer.fit(np.repeat(x[:50], 3, 0), np.tile(range(3), 50), sample_weight=q.ravel())
    np.testing.assert_allclose(phi[:, :2], peer.coef_, atol=2e-3)
    expected = peer.predict_proba(x[50:])
    np.testing.assert_allclose(result.predict_proba(x[50:]), expected, atol=1e-3)


@pytest.mark.parametrize("site", ["confusion", "weights"])
def test_sites_without_a_point_estimate(site):
    model = LogResp(SoftmaxRegression(2, 1), ConfusionMatrices(2, 2))
    with pytest.raises(ValueError, match=f"points has '{site}', but only 'coefficients'"):
        ClassLabelGuide(model, points=[site])


def test_predictions_are_read_more_or_less_surely():
    data = tiny()
    model = LogResp(SoftmaxRegression(2, 1), ConfusionMatrices(data.num_workers, 2))
    options = {"batch_size": None, "epochs": 5, "progress": False}
    plain = fit(model, ClassLabelGuide(model), data, **options)
    sure = dataclasses.replace(plain, guide=plain.guide.read_at(2.0))
    new = np.linspace(-2, 2, 5).reshape(-1, 1)
    expected = plain.predict_proba(new) ** 2
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(sure.predict_proba(new), expected)
