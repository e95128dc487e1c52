"""Devices: what torch knows and has here passes, all else is refused in words."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.minibatches.devices import check_device, on_device


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


class Traveller:
    """What notes where it was taken."""

    def __init__(self) -> None:
        self.places: list[object] = []

    def parameters(self):
        return iter([torch.empty(1)])

    def to(self, device: object) -> None:
        self.places.append(device)


def test_modules_come_back_from_a_stay_also_after_an_error():
    first, second = Traveller(), Traveller()
    with pytest.raises(RuntimeError, match="stop"), on_device("meta", first, second):
        raise RuntimeError("stop")
    assert first.places == second.places == ["meta", torch.device("cpu")]
