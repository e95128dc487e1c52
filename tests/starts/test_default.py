"""Where a fit begins that is given no start."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.starts import PrincipalComponentStart, default_start

from ..crowds import crowd, message_passing_pair, plain_mixture, quiet_fit


def start(model, guide):
    default_start(model, guide, crowd(), torch.Generator().manual_seed(0))


def parameters(guide):
    return torch.cat([one.detach().flatten() for one in guide.parameters()])


class Composed(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, batch):
        for part in self.parts:
            part(batch)

    def infer(self, batch):
        return self.parts[-1].infer(batch)


def test_principal_components_are_the_default():
    (model, guide), (_, other) = message_passing_pair(), message_passing_pair()
    default_start(model, guide, crowd(), torch.Generator().manual_seed(0))
    PrincipalComponentStart()(model, other, crowd(), torch.Generator().manual_seed(0))
    for name, posterior in guide.posteriors.items():
        expected = other.posteriors[name].natural_parameters
        torch.testing.assert_close(posterior.natural_parameters, expected)
    assert guide.posteriors["weights"].standard().concentration.sum() > len(crowd().features)


def test_a_guide_inside_another_is_started_with_its_own_model():
    """Another model around it has no components and no emission."""
    alone, inside = (MessagePassingGuide(plain_mixture()) for _ in range(2))
    start(alone.model, alone)
    start(nn.Linear(1, 1), Composed(nn.Linear(1, 1), Composed(inside)))
    assert torch.equal(parameters(alone), parameters(inside))


def test_several_guides_inside_another_are_told_of():
    parts = [MessagePassingGuide(plain_mixture()) for _ in range(2)]
    before = parameters(parts[0])
    with pytest.warns(UserWarning, match="Composed has several parts with a start, MessageP"):
        start(parts[0].model, Composed(*parts))
    assert torch.equal(parameters(parts[0]), before)


@pytest.mark.parametrize("batch_size", [None, 10])
def test_a_composed_guide_fits_as_well_as_its_part_alone(batch_size):
    """A site that nothing depends on adds nothing to the bound at its prior."""

    class Extended(nn.Module):
        def __init__(self):
            super().__init__()
            self.mixture = plain_mixture()

        def forward(self, batch):
            pyro.sample("apart", dist.Normal(0.0, 0.1))
            self.mixture(batch)

    model, options = Extended(), {"epochs": 4, "batch_size": batch_size, "step_size": 0.5}
    of_rest = AutoNormal(poutine.block(model, expose=["apart"]), init_scale=0.1)
    guide = Composed(of_rest, MessagePassingGuide(model.mixture))
    found = quiet_fit(model, guide, crowd(), optim=lambda p: torch.optim.SGD(p, lr=0.0), **options)
    alone = plain_mixture()
    expected = quiet_fit(alone, MessagePassingGuide(alone), crowd(), **options)
    assert found.assignments.tolist() == expected.assignments.tolist()
    assert found.elbo == pytest.approx(expected.elbo, abs=1e-3)
