"""Fits alone by themselves, and whether others agree with them bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch

from pyro_crowdclust import Fitted

from .crowds import amortized_pair, crowd, message_passing_pair, quiet_fit

every_pair = pytest.mark.parametrize(
    "make", [message_passing_pair, amortized_pair], ids=["message passing", "amortized"]
)


def parameters(*parts: object) -> dict[str, torch.Tensor]:
    """A copy of everything in modules."""
    return {
        f"{number}.{name}": value.clone()
        for number, part in enumerate(parts)
        for name, value in part.state_dict().items()
    }


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def same_fit(one: Fitted, other: Fitted) -> bool:
    """Whether two fits agree bit for bit."""
    histories = [result.history.drop(columns="seconds") for result in (one, other)]
    return (
        equal(parameters(one.model, one.guide), parameters(other.model, other.guide))
        and histories[0].equals(histories[1])
        and (one.probabilities == other.probabilities).all()
        and one.elbo == other.elbo
    )


@cache
def alone(make: Callable, data_seed: int) -> Fitted:
    """A fit with nothing around it, to compare others with."""
    return quiet_fit(*make(), crowd(seed=data_seed))
