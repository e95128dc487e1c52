"""What steps the parameters of networks is an optimizer of torch's; others are refused in words."""

from __future__ import annotations

from functools import partial

import pyro
import pytest
import torch
from pyro.infer.autoguide import AutoNormal

from ..crowds import quiet_fit
from ..plain_pyro import autoguide_location, noise_around
from ..problems import location_model
from ..refusals import refuses


def fit_location(optim: object) -> float:
    result = quiet_fit(location_model, AutoNormal(location_model), noise_around(3.0), optim=optim)
    return autoguide_location(result)


def decayed(parameters):
    return torch.optim.lr_scheduler.ExponentialLR(torch.optim.Adam(parameters), 0.9)


@pytest.mark.parametrize(
    ("optim", "message"),
    [
        (
            pyro.optim.Adam({"lr": 0.02, "betas": (0.9, 0.99)}),
            r"of Pyro, which works with Pyro's SVI only: pass "
            r"partial\(torch.optim.Adam, lr=0.02, betas=\(0.9, 0.99\)\)",
        ),
        (
            pyro.optim.ExponentialLR(
                {"optimizer": torch.optim.SGD, "optim_args": {"lr": 0.1}, "gamma": 0.9}
            ),
            r"pass partial\(torch.optim.SGD, lr=0.1\)",
        ),
        (pyro.optim.ClippedAdam({"lr": 0.1}), r"such as partial\(torch.optim.Adam, lr=0.05\)"),
        (pyro.optim.Adam(lambda name: {"lr": 0.1}), r"such as partial\(torch.optim.Adam, lr"),
        (lambda parameters: None, "optim made a NoneType of the parameters, but must make an op"),
        (decayed, "optim made a ExponentialLR of the parameters"),
        (torch.optim.LBFGS, "optim made an LBFGS, which evaluates the loss several times"),
    ],
)
def test_what_is_no_optimizer_of_torchs(optim, message):
    with refuses(message):
        fit_location(optim)


def test_an_optimizer_like_those_of_torch_is_taken():
    """One that derives from none of them."""

    class Steepest:
        def __init__(self, parameters):
            self.param_groups = [{"params": parameters}]

        @torch.no_grad()
        def step(self):
            for parameter in self.param_groups[0]["params"]:
                parameter -= 0.001 * parameter.grad

        def state_dict(self):
            return {"state": {}}

    assert fit_location(Steepest) == pytest.approx(
        fit_location(partial(torch.optim.SGD, lr=0.001)), rel=1e-12
    )
