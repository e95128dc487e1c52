"""Where a fit begins that is given no start."""

from __future__ import annotations

import torch

from pyro_crowdclust.starts import PrincipalComponentStart, default_start

from ..crowds import crowd, message_passing_pair


def test_principal_components_are_the_default():
    (model, guide), (_, other) = message_passing_pair(), message_passing_pair()
    default_start(model, guide, crowd(), torch.Generator().manual_seed(0))
    PrincipalComponentStart()(model, other, crowd(), torch.Generator().manual_seed(0))
    for name, posterior in guide.posteriors.items():
        expected = other.posteriors[name].natural_parameters
        torch.testing.assert_close(posterior.natural_parameters, expected)
    assert guide.posteriors["weights"].standard().concentration.sum() > len(crowd().features)
