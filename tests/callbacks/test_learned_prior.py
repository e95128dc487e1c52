"""A learned prior is the one that suits the components best."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.callbacks import LearnedPrior
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    MixedComponents,
    PoissonComponents,
    gain_of_learned_prior,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.training import default_elbo

from ..crowds import amortized_pair, crowd, quiet_fit

KINDS = {"full": GaussianComponents, "diagonal": DiagonalGaussianComponents}


def blobs(spread: float = 0.2, num_items: int = 120) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    centers = torch.tensor([[0.0, 0.0, 0.0], [3.0, 0.0, 1.0], [0.0, 3.0, -1.0]])
    noise = torch.randn(num_items, 3, generator=generator)
    return (centers[torch.arange(num_items) % 3] + spread * noise).double()


def mixture(make, num_clusters: int = 3) -> SemiCrowdsourcedMixture:
    return SemiCrowdsourcedMixture(
        DirichletWeights(num_clusters), make(num_clusters, 3), Identity()
    )


def fitted(make, callbacks, **options):
    model = mixture(make)
    options = {"epochs": 30, "batch_size": None, "step_size": 1.0, "dtype": torch.float64} | options
    return quiet_fit(
        model, MessagePassingGuide(model), CrowdData(blobs()), callbacks=callbacks, **options
    )


@pytest.mark.long
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_it_is_where_the_bound_is_stationary(make):
    """The gradient of ``sum_k <eta, E[t_k]> - log Z(eta)`` is zero."""
    result = fitted(make, [LearnedPrior()], epochs=200)
    prior = result.model.components.prior
    eta = prior.natural_parameters[0].clone().requires_grad_()
    mean = result.guide.posteriors["components"].mean().mean(0)
    value = prior.family.inner_product(eta, mean) - prior.family.log_normalizer(eta)
    (gradient,) = torch.autograd.grad(value, eta)
    assert gradient.abs().max() < 1e-3 * mean.abs().max()


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_the_bound_only_rises_and_ends_higher(make):
    learned, fixed = fitted(make, [LearnedPrior()]), fitted(make, [])
    assert learned.history["elbo"].diff().dropna().min() > -1e-6
    assert learned.elbo > fixed.elbo + 10


def test_the_prior_moves_its_components_along():
    """Statistics of the items stay, so that the next bound is that of the same items."""
    result = fitted(GaussianComponents, [LearnedPrior()], step_size=1.0)
    model, guide = result.model, result.guide
    batch = full_batch(result.data)
    counts = guide.infer(batch).assignments.sum(0)
    eta = (
        guide.posteriors["components"].natural_parameters
        - model.components.prior.natural_parameters
    )
    torch.testing.assert_close(eta[:, -1], counts, atol=1e-3, rtol=1e-3)


def test_components_that_do_not_say_how_keep_their_prior():
    counts = CrowdData(np.random.default_rng(0).poisson(3.0, size=(30, 3)))
    model = mixture(PoissonComponents)
    result = quiet_fit(
        model,
        MessagePassingGuide(model),
        counts,
        epochs=4,
        batch_size=None,
        step_size=1.0,
        dtype=torch.float64,
        callbacks=[LearnedPrior()],
    )
    before, after = (m.components.prior.natural_parameters for m in (model, result.model))
    assert torch.equal(before, after)


def test_one_component_teaches_nothing():
    result = fitted(GaussianComponents, [LearnedPrior(first_epoch=31)])
    untouched = mixture(GaussianComponents).components.prior.natural_parameters
    assert torch.equal(result.model.components.prior.natural_parameters, untouched)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_a_column_of_few_values_has_no_infinite_density(make):
    features = blobs()
    features[:, 2] = (features[:, 2] > 0).double()
    model = mixture(make)
    result = quiet_fit(
        model,
        MessagePassingGuide(model),
        CrowdData(features),
        epochs=60,
        batch_size=None,
        step_size=1.0,
        dtype=torch.float64,
        callbacks=[LearnedPrior()],
    )
    assert np.isfinite(result.history["elbo"]).all()
    assert default_elbo(False).loss(result.model, result.guide, full_batch(result.data)) < 1e6


def test_with_many_degrees_components_of_any_width_share_the_covariance_within_them():
    """Linear discriminant analysis: one covariance, that of all items around their centres."""
    centers = blobs(0.0)
    width = torch.tensor([0.1, 0.2, 0.3])[torch.arange(120) % 3, None]
    x = centers + width * (blobs(1.0) - centers)
    model = mixture(lambda *sizes: GaussianComponents(*sizes, least_degrees=400.0))
    result = quiet_fit(
        model,
        MessagePassingGuide(model),
        CrowdData(x),
        epochs=100,
        batch_size=None,
        step_size=1.0,
        dtype=torch.float64,
        callbacks=[LearnedPrior()],
    )
    q = torch.tensor(result.probabilities)
    away = x[:, None] - (q.mT @ x) / q.sum(0)[:, None]
    within = torch.einsum("ik,ikd,ike->de", q, away, away) / len(x)
    prior = result.model.components.prior
    _, _, scale, degrees = prior.family.standard(prior.natural_parameters)
    torch.testing.assert_close(degrees, torch.full_like(degrees, 400.0))
    torch.testing.assert_close(scale[0] / 400, within, rtol=0.05, atol=1e-3)


def test_parts_side_by_side_learn_their_own_priors():
    parts = [GaussianComponents(3, 2), PoissonComponents(3, 1), DiagonalGaussianComponents(3, 1)]
    mixed = MixedComponents(parts)
    means = [part.family.expected_statistics(part.prior.natural_parameters[0]) for part in parts]
    learned = mixed.family.split(mixed.learned_prior(torch.cat(means)))
    torch.testing.assert_close(learned[0], parts[0].learned_prior(means[0]))
    assert torch.equal(learned[1], parts[1].prior.natural_parameters[0])
    torch.testing.assert_close(learned[2], parts[2].learned_prior(means[2]))


def test_a_guide_of_points_is_refused():
    with pytest.raises(ValueError, match="AmortizedGuide has none: leave the callback out"):
        quiet_fit(*amortized_pair(), crowd(), epochs=1, callbacks=[LearnedPrior()])


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_the_gain_is_what_the_bound_rises_by(make):
    """At a q that stays where it is; without items there is nothing to gain."""
    result = fitted(make, [], epochs=3)
    prior, posterior = result.model.components.prior, result.guide.posteriors["components"]
    gain = gain_of_learned_prior(result.model, result.guide.posteriors)
    family, mean = prior.family, posterior.mean()

    def bound(eta):
        return (family.inner_product(eta, mean) - family.log_normalizer(eta)).sum()

    learned = result.model.components.learned_prior(mean.mean(0))
    assert gain == pytest.approx(float(bound(learned) - bound(prior.natural_parameters[0])))
    assert gain > 0
    empty = mixture(make)
    assert gain_of_learned_prior(empty, MessagePassingGuide(empty).posteriors) == 0
