"""What full covariances take of memory is said before it is taken."""

from __future__ import annotations

import tracemalloc

import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    memory,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture


@pytest.fixture
def machine(monkeypatch):
    """A function that sets how many GB of memory the machine has."""

    def set_memory(gigabytes: float | None) -> None:
        size = None if gigabytes is None else int(gigabytes * 2**30)
        monkeypatch.setattr(memory, "physical_memory", lambda: size)

    return set_memory


def test_five_thousand_features(machine):
    machine(16)
    tracemalloc.start()
    with pytest.raises(
        ValueError,
        match=r"10 full Gaussians on 5,000 features take about 29\.8 GB of the 16 GB here: use "
        "DiagonalGaussianComponents, or fewer features .*, or a model with networks",
    ):
        GaussianComponents(10, 5000)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert DiagonalGaussianComponents(10, 5000).num_features == 5000


def test_a_large_share_is_a_warning(machine):
    machine(100)
    with pytest.warns(UserWarning, match="1 full Gaussians on 15,000 features take about 26.8 GB"):
        memory.check_covariance_memory(1, 15_000)
    machine(1000)
    memory.check_covariance_memory(1, 15_000)
    machine(None)
    memory.check_covariance_memory(10**6, 10**6)


def test_items_count_too(machine):
    machine(1)
    components = GaussianComponents(2, 200)
    model = SemiCrowdsourcedMixture(DirichletWeights(2), components, Identity())
    model.check(CrowdData(torch.randn(100, 200)))
    with pytest.raises(ValueError, match="200 features, 4,096 items at a time, take about 4.89"):
        model.check(CrowdData(torch.randn(5000, 200)))


def test_this_machine_tells():
    size = memory.physical_memory()
    assert size is None or 2**28 < size < 2**50
