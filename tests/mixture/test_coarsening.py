"""The evidence of a coarsened posterior where it is known, and of a mixture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import betaln

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.distributions import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.families import Beta
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.mixture.coarsening import coarsened_elbo
from pyro_crowdclust.models import SemiCrowdsourcedMixture


@pytest.mark.parametrize("num_items", [20, 500, 20_000])
def test_it_is_the_evidence_of_a_coin(num_items):
    """Three heads in ten, under a uniform prior."""
    heads = 3 * num_items // 10
    rates = torch.tensor([1.0 + heads, 1.0 + num_items - heads], dtype=torch.float64)
    prior = ConjugatePrior(Beta(), Beta().natural(*torch.ones(2, dtype=torch.float64)))
    posterior = ConjugatePosterior(prior)
    posterior.set_natural_parameters(Beta().natural(*rates))
    zeta = 2002 / (2002 + num_items)
    exact = betaln(1 + zeta * heads, 1 + zeta * (num_items - heads))
    found = coarsened_elbo(
        betaln(*rates.tolist()), {"components": prior}, {"components": posterior}, num_items
    )
    assert found == pytest.approx(exact)


def test_the_elbo_of_a_mixture_is_that_of_full_weight():
    """In between, log-evidence is convex in zeta (Hoelder), and so is the bound; it begins at 0."""
    x = torch.tensor([[-2.0], [-1.7], [-2.2], [1.8], [2.1]], dtype=torch.float64)
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 1), Identity())
    options = {"batch_size": None, "step_size": 1.0, "epochs": 60, "progress": False}
    result = fit(model, MessagePassingGuide(model), CrowdData(x), dtype=torch.float64, **options)
    priors, posteriors = result.model.priors(), result.guide.posteriors
    numbers = 0, 5, 500, 5_000, 10**12
    found = [coarsened_elbo(result.elbo, priors, posteriors, number) for number in numbers]
    zetas = np.array([2004 / (2004 + number) for number in numbers])
    assert found[0] == pytest.approx(result.elbo)
    assert found[-1] == pytest.approx(0, abs=1e-6)
    slopes = np.diff(found) / np.diff(zetas)
    assert (np.diff(slopes) < 0).all()  # zetas fall
