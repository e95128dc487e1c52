"""What fit is given: functions around a model of a guide, and guides that run another."""

from __future__ import annotations

import pytest
import torch
from pyro.infer.autoguide import AutoNormalMessenger

from ..crowds import crowd, plain_pair, quiet_fit
from ..plain_pyro import noise_around
from ..problems import location_model
from ..registries import PAIRS_OF_MODEL_AND_GUIDE


def test_a_function_around_the_model_of_a_guide_is_refused():
    model, guide = plain_pair()
    with pytest.raises(
        ValueError, match="model is the function <lambda>, but the guide MessagePassingGuide"
    ):
        quiet_fit(lambda batch: model(batch), guide, crowd())


def test_guides_that_run_a_model_of_their_own_are_refused():
    with pytest.raises(ValueError, match="AutoNormalMessenger is a GuideMessenger .* AutoNormal"):
        quiet_fit(location_model, AutoNormalMessenger(location_model), noise_around(3.0))


@pytest.mark.parametrize("name", ["answers alone", "pages alone"])
@pytest.mark.parametrize("device", ["meta", torch.device("meta")])
def test_sweeps_on_another_device_are_refused(name, device):
    pair = PAIRS_OF_MODEL_AND_GUIDE[name]()
    with pytest.raises(ValueError, match=r"device is 'meta', but \w+Guide runs on processors only"):
        quiet_fit(*pair, device=device)
