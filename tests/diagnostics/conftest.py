"""Fits of every kind of guide, the export of one, and a fit that is exact."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust import Fitted
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import crowd, in_double, plain_mixture, quiet_fit
from .exports import DRAWS, IDS, MAKERS, NUM_ITEMS, separated


@pytest.fixture(scope="session")
def fits() -> dict[str, Fitted]:
    torch.manual_seed(0)  # of networks: the seed of a test comes after what is shared
    data = crowd(NUM_ITEMS, item_ids=IDS)
    options = {
        "plain": {"batch_size": None, "step_size": 0.5, "epochs": 20},
        "deep": {"batch_size": None, "step_size": 0.5, "epochs": 15},
    }
    return in_double(
        lambda: {
            name: quiet_fit(*make(), data, **{"epochs": 5, **options.get(name, {})})
            for name, make in MAKERS.items()
        }
    )


@pytest.fixture(scope="session")
def plain(fits) -> Fitted:
    return fits["plain"]


@pytest.fixture(scope="session")
def tree(plain):
    return to_arviz(plain, DRAWS)


@pytest.fixture(scope="session")
def known() -> Fitted:
    """A fit whose q is the exact posterior, but for clusters changing places."""
    model = SemiCrowdsourcedMixture(
        DirichletWeights(3, 1.0), GaussianComponents(3, 2), plain_mixture().emission
    )
    return in_double(
        lambda: quiet_fit(
            model, MessagePassingGuide(model), separated(), batch_size=None, step_size=1.0, epochs=9
        )
    )
