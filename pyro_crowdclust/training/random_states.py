"""Getting and setting the states of the random generators that training uses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def random_states(device: Any) -> dict[str, Any]:
    """States of all generators that a model, a guide or a callback may draw from."""
    return torch_states(device) | {
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002, the state of callers' code
        "python": random.getstate(),
    }


def set_random_states(states: dict[str, Any], device: Any) -> None:
    """Set the states of all of them."""
    set_torch_states(states, device)
    np.random.set_state(states["numpy"])  # noqa: NPY002
    random.setstate(states["python"])


def torch_states(device: Any) -> dict[str, Any]:
    """States of torch's generators alone, which Pyro uses; this takes microseconds."""
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if _is_cuda(device) else None,
    }


def set_torch_states(states: dict[str, Any], device: Any) -> None:
    """Set the states of torch's generators."""
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None and _is_cuda(device):
        torch.cuda.set_rng_state(states["cuda"], device)


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"
