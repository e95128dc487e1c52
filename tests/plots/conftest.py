"""Short fits to draw: with networks, without any, and amortized."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust import Fitted

from ..crowds import amortized_pair, crowd, in_double, message_passing_pair, plain_pair, quiet_fit
from .pictures import NUM_ITEMS

PAIRS = {"deep": message_passing_pair, "plain": plain_pair, "amortized": amortized_pair}


@pytest.fixture(scope="session")
def fits() -> dict[str, Fitted]:
    torch.manual_seed(0)  # of networks: the seed of a test comes after what is shared
    return in_double(
        lambda: {
            name: quiet_fit(*make(), crowd(NUM_ITEMS), epochs=4) for name, make in PAIRS.items()
        }
    )


@pytest.fixture
def deep(fits) -> Fitted:
    return fits["deep"]
