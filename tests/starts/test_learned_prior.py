"""A start at a partition, under the prior that suits it best."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents, PoissonComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.starts import LearnedPriorStart, PartitionStart

from ..crowds import amortized_pair, crowd, quiet_fit

RNG = np.random.default_rng(0)
DIM = 20
KIND = np.arange(90) % 3
# The kinds differ by two standard deviations in a direction of their own each.
POINTS = 3.0 * np.eye(3, DIM)[KIND] + RNG.normal(size=(90, DIM))


def mixture(components) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    model = SemiCrowdsourcedMixture(DirichletWeights(3), components, Identity())
    return model, MessagePassingGuide(model)


def gaussians() -> GaussianComponents:
    """Components that are expected to be far wider than the kinds are."""
    return GaussianComponents(3, DIM, concentration=0.05, scale=5.0 * (DIM + 2), degrees=DIM + 2.0)


def started(start, components, points=POINTS):
    model, guide = mixture(components)
    start(model, guide, CrowdData(points), torch.Generator())
    return model, guide


def test_items_stay_where_a_wide_prior_would_move_them():
    options = {"epochs": 10, "batch_size": None, "step_size": 1.0, "dtype": torch.float64}
    found = []
    for start in (PartitionStart(KIND), LearnedPriorStart(PartitionStart(KIND))):
        pair = mixture(gaussians())
        result = quiet_fit(*pair, CrowdData(POINTS), initialize=start, **options)
        found.append(adjusted_rand_score(KIND, result.assignments))
    without, learned = found
    assert learned > 0.8 > 0.1 > without


def test_the_prior_is_where_the_bound_of_the_partition_is_stationary():
    model, guide = started(LearnedPriorStart(PartitionStart(KIND), rounds=300), gaussians())
    prior = model.components.prior
    eta = prior.natural_parameters[0].clone().requires_grad_()
    mean = guide.posteriors["components"].mean().mean(0)
    value = prior.family.inner_product(eta, mean) - prior.family.log_normalizer(eta)
    (gradient,) = torch.autograd.grad(value, eta)
    assert gradient.abs().max() < 1e-2 * mean.abs().max()


def test_items_count_as_in_the_start():
    _, guide = started(LearnedPriorStart(PartitionStart(KIND)), gaussians())
    counts = guide.posteriors["weights"].standard().concentration
    _, expected = started(PartitionStart(KIND), gaussians())
    torch.testing.assert_close(counts, expected.posteriors["weights"].standard().concentration)


@pytest.mark.parametrize(
    ("components", "points", "partition"),
    [
        (gaussians(), POINTS, np.zeros(90, int)),
        (PoissonComponents(3, DIM), RNG.poisson(2.0, size=(90, DIM)).astype(float), KIND),
    ],
    ids=["one component", "no learned prior"],
)
def test_a_prior_that_nothing_can_be_learned_about_stays(components, points, partition):
    before = components.prior.natural_parameters.clone()
    model, _ = started(LearnedPriorStart(PartitionStart(partition)), components, points)
    assert torch.equal(model.components.prior.natural_parameters, before)


def test_a_guide_without_posteriors_is_refused():
    model, guide = amortized_pair()
    start = LearnedPriorStart(lambda *arguments: None)
    with pytest.raises(ValueError, match="AmortizedGuide has none"):
        start(model, guide, crowd(), torch.Generator())
