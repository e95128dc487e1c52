"""Annotators who err together: against sums over the trait, quadrature and draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.infer import Trace_ELBO
from scipy.special import expit
from scipy.stats import bernoulli, beta, norm
from torch.distributions import Dirichlet, MultivariateNormal, kl_divergence

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import ConfusionMatrices, ItemTrait
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import DawidSkene, LatentTrait
from pyro_crowdclust.training import NaturalGradient

WORKERS = 3


def crowd(num_items: int = 6, seed: int = 0) -> CrowdData:
    """Two thirds of all possible answers."""
    rng = np.random.default_rng(seed)
    asked = np.argwhere(rng.random((num_items, WORKERS)) < 2 / 3)
    frame = pd.DataFrame(asked, columns=["item", "worker"])
    frame["label"] = rng.integers(2, size=len(frame))
    return CrowdData(None, labels=frame, item_ids=range(num_items), classes=range(2))


def random_guide(seed: int = 0) -> ClassLabelGuide:
    generator = torch.Generator().manual_seed(seed)
    guide = ClassLabelGuide(LatentTrait(ItemTrait(WORKERS, share=0.3, strength=20.0)))
    curves, trait = guide.posteriors["curves"], guide.posteriors["trait"]
    mean = torch.randn(WORKERS, 2, generator=generator, dtype=torch.float64) + 1
    root = torch.randn(WORKERS, 2, 2, generator=generator, dtype=torch.float64) / 2
    covariance = root @ root.mT + 0.1 * torch.eye(2, dtype=torch.float64)
    curves.set_natural_parameters(curves.family.natural(mean, covariance))
    alpha = torch.rand(trait.family.size, generator=generator, dtype=torch.float64) * 5 + 0.5
    trait.set_natural_parameters(trait.family.natural(alpha))
    return guide


def log_sigmoid_means(guide: ClassLabelGuide) -> np.ndarray:
    """``E[log p(label | t)]`` ``[worker, label, point]`` by the trapezoid rule over the score."""
    mean, covariance = (part.numpy() for part in guide.posteriors["curves"].standard())
    design = guide.model.annotators.design.numpy()
    z = np.linspace(-10, 10, 20_001)
    density = np.exp(-(z**2) / 2)
    found = np.empty((WORKERS, 2, len(design)))
    for j, g in np.ndindex(WORKERS, len(design)):
        score = design[g] @ mean[j] + np.sqrt(design[g] @ covariance[j] @ design[g]) * z
        for label, sign in enumerate((-1, 1)):
            values = -np.logaddexp(0, -sign * score)
            found[j, label, g] = (values * density).sum() / density.sum()
    return found


def looped(guide: ClassLabelGuide, data: CrowdData) -> tuple[np.ndarray, np.ndarray]:
    """Unnormalized log q(t) of every item, and the probability of class 1 at every point."""
    answers = log_sigmoid_means(guide)
    alpha = guide.posteriors["trait"].standard().concentration
    log_rho = (torch.digamma(alpha) - torch.digamma(alpha.sum())).numpy()
    logits = np.tile(log_rho, (data.num_items, 1))
    for item, worker, label in data.labels.itertuples(index=False):
        logits[item] += answers[worker, label]
    slope, threshold = guide.posteriors["curves"].standard().mean.numpy().T
    cuts = np.linspace(-3, 3, 61)
    right = expit(slope * cuts[:, None] - threshold)
    information = (slope**2 * right * (1 - right)).sum(1) / (slope**2).sum()
    points = guide.model.annotators.points.numpy()
    above = expit(2 * (points[:, None] - cuts))
    rho = np.exp(log_rho) / np.exp(log_rho).sum()
    share = rho @ above
    weight = information ** (0.2 * WORKERS) * np.exp(-(cuts**2) / 2)
    weight *= (share**0.3 * (1 - share) ** 0.7) ** 30
    weight *= (1 - rho @ bernoulli.entropy(above) / bernoulli.entropy(share)) ** (3 * WORKERS)
    upper = above @ (weight / weight.sum())
    return logits, upper


def test_elbo_is_that_of_a_sum_over_the_trait():
    guide, data = random_guide(), crowd()
    logits, upper = looped(guide, data)
    elbo = np.logaddexp.reduce(logits, 1).sum()
    mean, covariance = guide.posteriors["curves"].standard()
    q = MultivariateNormal(mean, covariance)
    p = MultivariateNormal(mean.new_tensor([1.0, 0.0]), torch.diag(mean.new_tensor([0.49, 1.0])))
    elbo -= float(kl_divergence(q, p).sum())
    prior = guide.model.annotators.trait
    alphas = (guide.posteriors["trait"].standard(), prior.family.standard(prior.natural_parameters))
    elbo -= float(kl_divergence(*(Dirichlet(alpha.concentration) for alpha in alphas)))
    batch = full_batch(data)
    found = -Trace_ELBO().differentiable_loss(guide.model, guide, batch).item()
    assert found == pytest.approx(elbo, rel=1e-5)
    q = np.exp(logits - logits.max(1, keepdims=True))
    q /= q.sum(1, keepdims=True)
    np.testing.assert_allclose(guide.infer(batch).assignments[:, 1], q @ upper, atol=1e-4)


def test_answers_to_come_are_told_by_a_sum_over_the_trait():
    """Of an item of either class, given what others said of it."""
    guide, data = random_guide(), crowd()
    logits, upper = looped(guide, data)
    mean, covariance = (part.numpy() for part in guide.posteriors["curves"].standard())
    design = guide.model.annotators.design.numpy()
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    item, worker, label = np.array([0, 3, 3, 5]), np.array([1, 0, 2, 2]), np.array([0, 1, 0, 1])
    expected = np.empty((4, 2))
    for row, (i, j, said) in enumerate(zip(item, worker, label, strict=True)):
        spread = np.sqrt(np.einsum("gf,fh,gh->g", design, covariance[j], design))
        right = expit((design @ mean[j])[:, None] + spread[:, None] * z) @ weight / weight.sum()
        for k, of_class in enumerate((1 - upper, upper)):
            q = np.exp(logits[i] - logits[i].max()) * of_class
            expected[row, k] = (q / q.sum()) @ (right if said else 1 - right)
    labels = full_batch(data).class_labels
    asked = (torch.from_numpy(part) for part in (item, worker, label))
    found = guide.model.annotators.answer_probabilities(guide.posteriors, labels, *asked)
    # Fifteen nodes against sixty.
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_natural_step_is_a_newton_step_averaged_over_q():
    guide, data = random_guide(), crowd()
    logits, _ = looped(guide, data)
    q = np.exp(logits - np.logaddexp.reduce(logits, 1)[:, None])
    mean, covariance = (part.numpy() for part in guide.posteriors["curves"].standard())
    annotators = guide.model.annotators
    design = annotators.design.numpy()
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    weight = weight / weight.sum()
    linear = np.tile([1 / 0.49, 0.0], (WORKERS, 1))
    precision = np.tile(np.diag([1 / 0.49, 1.0]), (WORKERS, 1, 1))
    for item, j, label in data.labels.itertuples(index=False):
        for g, x in enumerate(design):
            centre = x @ mean[j]
            right = expit(centre + np.sqrt(x @ covariance[j] @ x) * z)
            curvature = weight @ (right * (1 - right))
            linear[j] += q[item, g] * x * (label - weight @ right + curvature * centre)
            precision[j] += q[item, g] * curvature * np.outer(x, x)
    Trace_ELBO().differentiable_loss(guide.model, guide, full_batch(data)).backward()
    NaturalGradient(guide.posteriors.values(), 1.0).step()
    found = guide.posteriors["curves"].natural_parameters.detach()
    expected = annotators.family.pack(torch.tensor(linear), torch.tensor(-precision / 2))
    # Fifteen nodes against sixty.
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)
    counts = guide.posteriors["trait"].standard().concentration.detach()
    prior = annotators.trait.family.standard(annotators.trait.natural_parameters).concentration
    np.testing.assert_allclose(counts, prior + torch.tensor(q.sum(0)), atol=1e-3)


def test_elbo_never_falls_far_and_converges():
    model = LatentTrait(ItemTrait(WORKERS))
    result = fit(model, ClassLabelGuide(model), crowd(60), batch_size=None, step_size=0.5,
                 epochs=60, progress=False)  # fmt: skip
    elbo = result.history["elbo"].to_numpy()
    assert (np.diff(elbo)[5:] > -1e-4).all()
    assert abs(elbo[-1] - elbo[-2]) < 1e-3


def dependent_crowd(num_items: int = 600, seed: int = 0) -> tuple[CrowdData, np.ndarray]:
    """Sixteen workers, whose errors are about the same items; a sixth of the items is class 1."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(num_items) < 1 / 6).astype(int)
    trait = np.where(truth == 1, 2.2, -2.5) + 1.3 * rng.normal(size=num_items)
    slope, threshold = rng.uniform(1, 3, 16), rng.normal(size=16)
    said = rng.random((num_items, 16)) < expit(slope * trait[:, None] - threshold)
    item, worker = np.indices(said.shape)
    frame = pd.DataFrame(
        {"item": item.ravel(), "worker": worker.ravel(), "label": said.ravel().astype(int)}
    )
    return CrowdData(None, labels=frame), truth


SETTINGS = {"batch_size": None, "step_size": 0.5, "epochs": 60, "progress": False}


def test_probabilities_keep_what_they_promise_where_errors_are_shared():
    data, truth = dependent_crowd()
    losses = []
    for model in (
        LatentTrait(ItemTrait(16, share=0.2, strength=100.0)),
        DawidSkene(ConfusionMatrices(16, 2)),
    ):
        result = fit(model, ClassLabelGuide(model), data, **SETTINGS)
        named = result.probabilities[np.arange(len(truth)), truth]
        losses.append(-np.log(np.clip(named, 1e-15, 1)).mean())
    assert losses[0] < 0.12
    assert losses[0] < losses[1] / 2


def test_effective_number_is_that_of_drawn_answers():
    guide, data = random_guide(1), crowd()
    annotators = guide.model.annotators
    mean = guide.posteriors["curves"].standard().mean
    # Workers that are known exactly, so that the same answers can be drawn.
    covariance = 1e-8 * torch.eye(2, dtype=torch.float64).expand(WORKERS, 2, 2)
    guide.posteriors["curves"].set_natural_parameters(annotators.family.natural(mean, covariance))
    found = annotators.effective_number(guide.posteriors)
    values = {name: posterior.mean() for name, posterior in guide.posteriors.items()}
    torch.manual_seed(0)
    for k in range(2):
        classes = torch.eye(2, dtype=torch.float64)[[k] * 100_000]
        points = annotators.draw_states(values, classes) @ annotators.points
        slope, threshold = mean.unbind(-1)
        said = torch.bernoulli(torch.sigmoid(slope * points.unsqueeze(-1) - threshold))
        alone = said.mean(0) * (1 - said.mean(0))
        drawn = alone.sum() / WORKERS**2 / said.mean(1).var() * WORKERS
        assert found[k] == pytest.approx(float(drawn), rel=0.03)
    assert data.num_workers == WORKERS


def test_confusion_is_that_of_drawn_curves():
    guide = random_guide(2)
    annotators = guide.model.annotators
    summary = guide.confusion(0.9)
    posterior = guide.posteriors["curves"]
    drawn = MultivariateNormal(*posterior.standard()).sample((20_000,))
    # p(t | y), by Bayes' rule.
    upper = torch.from_numpy(looped(guide, crowd())[1])
    shares = guide.posteriors["trait"].mean().exp() * torch.stack([1 - upper, upper])
    points = shares / shares.sum(1, keepdim=True)
    right = torch.sigmoid(drawn @ annotators.design.mT) @ points.mT
    np.testing.assert_allclose(summary.mean[..., 1], right.mean(0), atol=0.01)
    np.testing.assert_allclose(summary.sd[..., 1], right.std(0), atol=0.01)
    np.testing.assert_allclose(summary.mean.sum(-1), 1.0)
    size = summary.mean * (1 - summary.mean) / summary.sd**2 - 1
    of_side = beta(summary.mean * size, (1 - summary.mean) * size)
    np.testing.assert_allclose(summary.lower, of_side.ppf(0.05), atol=1e-6)
    np.testing.assert_allclose(summary.upper, of_side.ppf(0.95), atol=1e-6)


def test_priors_are_two_bells_on_the_grid_and_gaussians_of_the_workers():
    annotators = ItemTrait(2, share=0.3, strength=50.0, slope=(1.5, 0.5), threshold=2.0)
    bells = norm([[-2.5], [2.5]], 1.5).pdf(np.linspace(-6, 6, 25))
    bells /= bells.sum(1, keepdims=True)
    alpha = annotators.trait.family.standard(annotators.trait.natural_parameters).concentration
    np.testing.assert_allclose(alpha, 50 * (0.7 * bells[0] + 0.3 * bells[1]))
    mean, covariance = annotators.family.standard(annotators.curves.natural_parameters)
    np.testing.assert_allclose(mean, [[1.5, 0.0]] * 2, atol=1e-12)
    np.testing.assert_allclose(covariance, [np.diag([0.25, 4.0])] * 2, atol=1e-12)


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_a_strong_share_puts_the_cut_where_it_is_that_of_the_trait(share):
    guide = random_guide(3)
    values = {name: one.mean() for name, one in guide.posteriors.items()}
    annotators = ItemTrait(WORKERS, share=share, share_items=1e5)
    shares = values["trait"].softmax(-1) @ annotators.sides(values)
    # Places of the cut are a tenth apart.
    assert shares[1] == pytest.approx(share, abs=0.02)


def cut_of_alike(number: int, labels_per_item: float | None = None) -> torch.Tensor:
    """The places of the cut if annotators have equal curves, of which some are lenient."""
    annotators = ItemTrait(number, share=0.2, labels_per_item=labels_per_item)
    mean = torch.tensor([[1.2, -0.8], [0.7, 0.3]], dtype=torch.float64).repeat(number // 2, 1)
    covariance = 0.1 * torch.eye(2, dtype=torch.float64).expand(number, 2, 2)
    posteriors = ClassLabelGuide(LatentTrait(annotators)).posteriors
    curves = posteriors["curves"]
    curves.set_natural_parameters(curves.family.natural(mean, covariance))
    return annotators.cut({name: one.mean() for name, one in posteriors.items()})


def test_more_than_twenty_annotators_count_as_twenty_where_the_cut_is():
    ten, twenty, fifty = (cut_of_alike(number) for number in (10, 20, 50))
    torch.testing.assert_close(fifty, twenty)
    assert (ten - twenty).abs().max() > 0.01


def test_few_labels_of_many_annotators_place_the_cut_as_few_annotators_do():
    torch.testing.assert_close(cut_of_alike(20, 4.0), cut_of_alike(4))


def test_a_simulated_model_has_the_shares_of_its_trait():
    model = LatentTrait(ItemTrait(WORKERS, share=0.2, strength=500.0))
    batch = full_batch(crowd(2000))
    torch.manual_seed(0)
    assert model(batch).mean(0)[1] == pytest.approx(0.2, abs=0.07)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"share": 0.0}, "share is 0.0"),
        ({"strength": -1.0}, "strength is -1.0"),
        ({"slope": (1.0, 0.0)}, "slope's deviation is 0.0"),
        ({"threshold": 0.0}, "threshold is 0.0"),
        ({"labels_per_item": 0.0}, "labels_per_item is 0.0"),
    ],
)
def test_bad_priors_are_named(arguments, error):
    with pytest.raises(ValueError, match=error):
        ItemTrait(WORKERS, **arguments)
