"""What two values, or draws and their mean, may differ by."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def same(actual: Any, expected: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def assert_mean(samples: Tensor, expected: Tensor) -> None:
    """The mean over the first axis is within six standard errors of what it should be."""
    error = samples.std(0) / math.sqrt(len(samples))
    distance = (samples.mean(0) - expected).abs()
    assert (distance <= 6 * error + 1e-9).all(), (distance / error).max()
