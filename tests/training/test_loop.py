"""Training shows how far it is, and ends in words where it is interrupted or goes bad."""

from __future__ import annotations

from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from torch import nn

from pyro_crowdclust import fit
from pyro_crowdclust.minibatches import Batch
from pyro_crowdclust.plots import plot_history
from pyro_crowdclust.training import chosen_options

from ..crowds import crowd, message_passing_pair, plain_pair, quiet_fit
from ..plain_pyro import hand_guide_location, noise_around
from ..problems import location_guide, location_model
from ..same_fits import every_pair, parameters, same_fit


def test_interrupted_between_epochs():
    def stop(trainer):
        if trainer.epochs_done == 2:
            raise KeyboardInterrupt

    data = crowd()
    result = quiet_fit(*message_passing_pair(), data, epochs=5, callbacks=[stop])
    assert result.stop_reason == "interrupted by the user after 4 steps"
    assert list(result.history["epoch"]) == [1, 2]
    assert same_fit(result, quiet_fit(*message_passing_pair(), data, epochs=2))


def test_the_budget_of_fit_itself_says_how_to_have_more(monkeypatch):
    monkeypatch.setattr(chosen_options, "_MAX_STEPS", {True: 4, False: 4})
    monkeypatch.setattr(chosen_options, "_MAX_EPOCHS", 4)
    data = noise_around(30.0)
    options = {"optim": "auto", "step_size": "auto", "batch_size": None}
    open_end = quiet_fit(location_model, location_guide, data, epochs=None, **options)
    assert open_end.stop_reason == "budget: 4 steps in 4 epochs (give epochs= for more)"
    given = quiet_fit(location_model, location_guide, data, epochs=4, batch_size=None)
    assert given.stop_reason == "budget: 4 steps in 4 epochs"


class Faulty(nn.Module):
    """A model that goes wrong from a call on; each step of training is one call."""

    def __init__(self, fault: str, call: int) -> None:
        super().__init__()
        self.fault, self.call, self.calls = fault, call, 0
        self.shift = nn.Parameter(torch.tensor(0.0))

    def forward(self, batch: Batch) -> None:
        self.calls += 1
        wrong = self.calls >= self.call
        if wrong and self.fault == "interrupt":
            raise KeyboardInterrupt
        nan = torch.tensor(float("nan") if wrong else 1.0)
        mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
        mean = mean * nan if self.fault == "argument" else mean
        weight = batch.item_weight
        with pyro.plate("items", len(weight)), poutine.scale(scale=weight):
            pyro.sample("o", dist.Normal(mean + self.shift, 1.0), obs=batch.features[:, 0])
        if self.fault == "factor":
            pyro.factor("penalty", self.shift**2 * nan)


def test_interrupted_inside_a_step():
    # One call checks the sites before training.
    result = quiet_fit(Faulty("interrupt", 1 + 3), location_guide, noise_around(1.0), batch_size=10)
    assert result.stop_reason == "interrupted by the user after 2 steps"
    assert result.history.empty
    assert hand_guide_location(result) != 0.5


@pytest.mark.parametrize(
    ("fault", "site"), [("argument", "site 'o'"), ("factor", "site 'penalty'")]
)
@pytest.mark.parametrize(("step", "whole_epochs"), [(1, 0), (2, 0), (11, 2)])
def test_a_loss_that_is_no_number_stops_the_fit(fault, site, step, whole_epochs):
    data = noise_around(1.0)
    train = partial(quiet_fit, guide=location_guide, data=data, batch_size=10)
    with pytest.warns(UserWarning, match=f"not finite after {step - 1} steps: .*{site}.*kept"):
        result = train(Faulty(fault, 1 + step), epochs=5)
    assert result.stop_reason.startswith(f"not finite after {step - 1} steps: the log-density of")
    assert site in result.stop_reason
    assert len(result.history) == whole_epochs
    if whole_epochs:
        healthy = train(Faulty(fault, 10**6), epochs=whole_epochs)
        assert hand_guide_location(result) == hand_guide_location(healthy)
        assert torch.equal(result.model.shift, healthy.model.shift)
    else:
        assert hand_guide_location(result) == 0.5
        assert result.model.shift == 0


@every_pair
def test_networks_that_explode_stop_the_fit(make):
    """The first step throws them far away; the second finds no finite latent."""
    model, guide = make()
    throw = partial(torch.optim.SGD, lr=1e300)
    with pytest.warns(UserWarning, match="not finite after 1 steps"):
        result = quiet_fit(model, guide, crowd(), optim=throw)
    assert "not finite after 1 steps" in result.stop_reason
    for name, value in parameters(result.model, result.guide).items():
        assert value.isfinite().all(), name


def test_a_fit_that_ended_within_its_first_epoch_is_read_as_any_other():
    throw = partial(torch.optim.SGD, lr=1e300)
    with pytest.warns(UserWarning, match="not finite after 1 steps"):
        result = quiet_fit(*message_passing_pair(), crowd(), optim=throw)
    assert result.history.empty
    tree = result.to_arviz(2, log_likelihood=False)
    assert tree["sample_stats"]["elbo"].shape == (1, 0)
    assert tree["posterior"].attrs["steps"] == [0]
    assert tree["posterior"].attrs["elbo"] == [pytest.approx(result.elbo)]
    assert not len(plot_history(result).axes[0].lines[0].get_xdata())


def test_progress_shows_the_bound_and_the_clusters_in_use(capsys):
    fit(*plain_pair(), crowd(), epochs=2, dtype=torch.float64, progress=True)
    shown = capsys.readouterr().err
    assert "ELBO/item" in shown
    assert "clusters in use" in shown
