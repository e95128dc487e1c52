from __future__ import annotations

import signal
import zlib

import numpy as np
import pyro
import pytest
import torch

from pyro_crowdclust.families import IndependentMoments

from .deep_twin import NOISE


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _hears_ctrl_c():
    """A shell that starts the suite in the background has it ignore the interrupts it sends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(autouse=True)
def _seed(request, monkeypatch):
    """The same random numbers for a test whatever runs before it, and others for each test."""
    seed = zlib.crc32(request.node.name.encode())
    torch.manual_seed(seed)
    if hasattr(getattr(request.node, "module", None), "RNG"):
        monkeypatch.setattr(request.node.module, "RNG", np.random.default_rng(seed))


@pytest.fixture(autouse=True)
def _no_global_parameters():
    """Nothing in the library may leave anything in Pyro's global parameter store."""
    pyro.clear_param_store()
    yield
    left = sorted(pyro.get_param_store().keys())
    pyro.clear_param_store()
    assert not left, f"parameters left in Pyro's global store: {left}"


@pytest.fixture
def known_noise(monkeypatch):
    """Every draw is its mean and NOISE deviations."""
    monkeypatch.setattr(IndependentMoments, "draw", lambda m, noise: m.mean + NOISE * m.scale)
