"""Devices: what torch knows and has here passes, all else is refused in words."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.minibatches.devices import check_device


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu"), "meta"])
def test_what_is_there_passes(device):
    check_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="device is 'cuda', which torch cannot use here"):
        check_device("cuda")


def test_what_is_no_device_is_named():
    with pytest.raises(ValueError, match="device is 7.5, but must be one that torch knows"):
        check_device(7.5)
