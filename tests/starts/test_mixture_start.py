"""What a partition says to the posterior of a mixture."""

from __future__ import annotations

import torch
from torch import nn

from pyro_crowdclust.families import Moments
from pyro_crowdclust.starts import MixtureStart

from ..crowds import NUM_CLUSTERS, NUM_FEATURES, amortized_pair, plain_pair


def test_a_start_adds_the_statistics_of_its_partition():
    model, guide = plain_pair()
    x = torch.randn(9, NUM_FEATURES)
    responsibilities = torch.randn(9, NUM_CLUSTERS).softmax(-1)
    latent = model.components.observe(x)
    guide.start_at(MixtureStart(latent, responsibilities, 2.5))
    counts = 2.5 * responsibilities.sum(0)
    alpha = guide.posteriors["weights"].standard().concentration
    torch.testing.assert_close(alpha, 1.0 + counts)
    location, kappa, _, degrees = guide.posteriors["components"].standard()
    prior = model.components.family.standard(model.components.prior.natural_parameters)
    torch.testing.assert_close(kappa, prior.concentration + counts)
    torch.testing.assert_close(degrees, prior.degrees + counts)
    sums = 2.5 * responsibilities.mT @ x
    torch.testing.assert_close(location, sums / kappa.unsqueeze(-1))


def test_rows_without_gaps_of_data_with_some_start_as_others_do():
    """As where a sample of the items, or the columns that are not left out, have none."""
    features, responsibilities = torch.randn(9, NUM_FEATURES), torch.eye(NUM_CLUSTERS)
    responsibilities = responsibilities[torch.arange(9) % NUM_CLUSTERS]
    found = []
    for has_gaps in (False, True):
        model, guide = plain_pair()
        observed = model.components.observe(features, has_gaps)
        guide.start_at(MixtureStart(observed, responsibilities, 2.0))
        found.append(guide.posteriors["components"].natural_parameters)
    torch.testing.assert_close(*found)


def test_a_start_of_point_estimates_is_near_the_posterior_mode():
    model, guide = amortized_pair()
    latent = torch.randn(40, 2)
    responsibilities = nn.functional.one_hot(torch.arange(40) % NUM_CLUSTERS).double()
    observed = Moments.point(latent).flat()
    guide.start_at(MixtureStart(observed, responsibilities, 1.0))
    family, prior = model.components.family, model.components.prior.natural_parameters
    statistics = responsibilities.mT @ family.observation_statistics(observed)

    def log_posterior(unconstrained):
        theta = family.sufficient_statistics(family.from_unconstrained(unconstrained))
        return ((prior + statistics) * theta).sum()

    at = guide.points["components"].unconstrained.detach().requires_grad_()
    log_posterior(at).backward()
    assert at.grad[:, :2].abs().max() < 1e-9
    best = log_posterior(at).item()
    for _ in range(50):
        assert log_posterior(at + 0.05 * torch.randn_like(at)).item() < best
    weights = guide.points["weights"].value()
    torch.testing.assert_close(weights, (1 + responsibilities.sum(0)) / (40 + NUM_CLUSTERS))
