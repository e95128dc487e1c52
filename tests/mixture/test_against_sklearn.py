"""Without answers the model is a Bayesian Gaussian mixture, which scikit-learn has as well."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from pyro.infer import Trace_ELBO
from sklearn.mixture import BayesianGaussianMixture

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import Moments
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.starts import MixtureStart
from pyro_crowdclust.training import NaturalGradient

K, DIM, SWEEPS = 4, 3, 50
PRIOR = {
    "location": np.array([0.2, -0.5, 1.0]),
    "concentration": 0.7,
    "scale": np.array([[2.0, 0.3, 0.0], [0.3, 1.5, -0.2], [0.0, -0.2, 1.0]]),
    "degrees": 4.5,
}
ALPHA = 0.6

# Every fit ends at the number of sweeps that is asked for.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def overlapping_clusters() -> np.ndarray:
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(K, DIM)) * 1.5
    return centres[rng.integers(K, size=120)] + rng.normal(size=(120, DIM))


def theirs(seed: int = 0) -> BayesianGaussianMixture:
    """One sweep a fit, going on from where the last fit stopped, with our priors."""
    return BayesianGaussianMixture(
        n_components=K,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=ALPHA,
        mean_prior=PRIOR["location"],
        mean_precision_prior=PRIOR["concentration"],
        covariance_prior=PRIOR["scale"],
        degrees_of_freedom_prior=PRIOR["degrees"],
        reg_covar=0.0,
        init_params="random_from_data",
        random_state=seed,
        max_iter=1,
        tol=0.0,
        warm_start=True,
    )


def ours(x: np.ndarray, responsibilities: np.ndarray) -> tuple[MessagePassingGuide, Batch]:
    """The posterior that the responsibilities alone imply, with the same priors."""
    components = GaussianComponents(
        K,
        DIM,
        location=torch.tensor(PRIOR["location"]),
        concentration=PRIOR["concentration"],
        scale=torch.tensor(PRIOR["scale"]),
        degrees=PRIOR["degrees"],
    )
    model = SemiCrowdsourcedMixture(DirichletWeights(K, ALPHA), components, Identity())
    guide = MessagePassingGuide(model)
    latent = Moments.point(torch.tensor(x)).flat()
    guide.start_at(MixtureStart(latent, torch.tensor(responsibilities), 1.0))
    return guide, full_batch(CrowdData(x))


def sweep(guide: MessagePassingGuide, batch: Batch, count: int) -> list[float]:
    """Full-batch natural steps at rate 1; the ELBO before each and after the last."""
    optimizer = NaturalGradient(guide.posteriors.values(), step_size=1.0)
    elbos = []
    for _ in range(count + 1):
        guide.zero_grad()
        loss = Trace_ELBO(max_plate_nesting=1).differentiable_loss(guide.model, guide, batch)
        elbos.append(-loss.item())
        if len(elbos) <= count:
            loss.backward()
            optimizer.step()
    return elbos


def assert_same(guide: MessagePassingGuide, batch: Batch, fitted: BayesianGaussianMixture) -> None:
    alpha = guide.posteriors["weights"].standard().concentration
    location, concentration, scale, degrees = guide.posteriors["components"].standard()
    # scikit-learn divides the scale by the degrees of freedom.
    covariance = scale / degrees[:, None, None]
    responsibilities = guide.infer(batch).assignments
    for our, their in [
        (alpha, fitted.weight_concentration_),
        (location, fitted.means_),
        (concentration, fitted.mean_precision_),
        (degrees, fitted.degrees_of_freedom_),
        (covariance, fitted.covariances_),
        (responsibilities, fitted.predict_proba(batch.features.numpy())),
    ]:
        np.testing.assert_allclose(our.numpy(), their, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sweeps", [1, SWEEPS])
def test_posterior_is_that_of_sklearn_sweep_by_sweep(sweeps):
    x = overlapping_clusters()
    fitted = theirs().fit(x)
    guide, batch = ours(x, fitted.predict_proba(x))
    sweep(guide, batch, sweeps)
    # A start from their responsibilities is their next sweep.
    fitted.set_params(max_iter=1 + sweeps).fit(x)
    assert_same(guide, batch, fitted)


def test_start_from_responsibilities_is_one_sweep_of_sklearn():
    x = overlapping_clusters()
    fitted = theirs().fit(x)
    guide, batch = ours(x, fitted.predict_proba(x))
    assert_same(guide, batch, fitted.fit(x))


def test_fit_on_the_full_data_is_the_same_ascent():
    x = overlapping_clusters()
    fitted = theirs().fit(x)
    guide, batch = ours(x, fitted.predict_proba(x))
    result = fit(
        guide.model,
        guide,
        CrowdData(x),
        epochs=20,
        batch_size=None,
        step_size=1.0,
        initialize=None,
        dtype=torch.float64,
        progress=False,
    )
    assert_same(result.guide, batch, fitted.set_params(max_iter=21).fit(x))


def test_start_from_a_sample_counts_every_item_as_often_as_it_stands_for():
    x = overlapping_clusters()
    q = torch.tensor(np.random.default_rng(1).dirichlet(np.ones(K), size=len(x)))
    guide, _ = ours(np.tile(x, (3, 1)), q.repeat(3, 1).numpy())
    sample, _ = ours(x, q.numpy())
    sample.start_at(MixtureStart(Moments.point(torch.tensor(x)).flat(), q, 3.0))
    for name, posterior in guide.posteriors.items():
        torch.testing.assert_close(
            posterior.natural_parameters, sample.posteriors[name].natural_parameters
        )


def test_bounds_differ_from_those_of_sklearn_by_one_constant():
    """Their bound leaves constants out; it then ranks different solutions as ours does."""
    x = overlapping_clusters()
    our_bounds, their_bounds = [], []
    for seed in range(3):
        fitted = theirs(seed).set_params(max_iter=300, tol=1e-8).fit(x)
        their_bounds.append(fitted.lower_bound_)
        our_bounds.append(sweep(*ours(x, fitted.predict_proba(x)), 1)[-1])
    assert np.ptp(our_bounds) > 1e-2
    np.testing.assert_allclose(np.diff(our_bounds), np.diff(their_bounds), atol=1e-6)


def test_coordinate_ascent_never_lowers_the_elbo():
    x = overlapping_clusters()
    rng = np.random.default_rng(0)
    guide, batch = ours(x, rng.dirichlet(np.ones(K), size=len(x)))
    elbos = sweep(guide, batch, SWEEPS)
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(elbos))
    assert elbos[-1] > elbos[0] + 1
