"""Copies of what training changes."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.training.copies import copied_into


def test_memory_that_fits_is_written_again():
    first = torch.rand(3, 2)
    old = copied_into(None, first)
    assert old.data_ptr() != first.data_ptr()
    new = torch.rand(3, 2, requires_grad=True)
    assert copied_into(old, new) is old
    torch.testing.assert_close(old, new.detach(), rtol=0, atol=0)
    assert not old.requires_grad


@pytest.mark.parametrize("new", [torch.rand(2, 3), torch.rand(3, 2, dtype=torch.float32)])
def test_memory_that_does_not_fit_is_left_alone(new):
    old = torch.zeros(3, 2, dtype=torch.float64)
    copy = copied_into(old, new)
    assert copy.dtype == new.dtype
    assert torch.equal(copy, new)
    assert copy.data_ptr() != new.data_ptr()
    assert not old.any()
