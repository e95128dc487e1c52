"""A start at a fit to other items: what counts items grows with them, and nothing else does."""

from __future__ import annotations

import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.starts import FittedStart


def pair(prior: float) -> tuple[SemiCrowdsourcedMixture, MessagePassingGuide]:
    model = SemiCrowdsourcedMixture(
        DirichletWeights(2, prior), GaussianComponents(2, 3), Identity(), TwoCoin(4)
    )
    return model, MessagePassingGuide(model)


def test_what_counts_items_grows_with_their_number():
    fitted, other = pair(0.7), pair(1.0)
    for posterior in fitted[1].posteriors.values():
        eta = posterior.natural_parameters.detach()
        posterior.set_natural_parameters(eta + torch.rand_like(eta))
    FittedStart(*fitted, 20)(*other, CrowdData(torch.zeros(50, 3)), torch.Generator())
    for name, prior in fitted[0].priors().items():
        eta0, eta = prior.natural_parameters, fitted[1].posteriors[name].natural_parameters
        times = 2.5 if name in ("weights", "components") else 1.0
        expected = eta0 + times * (eta - eta0)
        torch.testing.assert_close(other[0].priors()[name].natural_parameters, eta0)
        torch.testing.assert_close(other[1].posteriors[name].natural_parameters, expected)
