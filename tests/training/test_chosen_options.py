"""What ``fit`` chooses where options are left out."""

from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import nn

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.training import RobbinsMonro
from pyro_crowdclust.training.chosen_options import (
    _MAX_EPOCHS,
    _MAX_STEPS,
    Trained,
    adam,
    budget_of,
    chosen_options,
)

from ..crowds import crowd, message_passing_pair, plain_pair
from ..registries import PAIRS_OF_MODEL_AND_GUIDE

LEFT_OUT = {"batch_size": "auto", "step_size": "auto", "optim": "auto"}
PLAIN, NETWORKS = Trained(False, False), Trained(True, False)
SMALL = CrowdData(torch.zeros(10, 2))
LARGE = CrowdData(torch.zeros(200_001, 1))


def heights(batch):
    mean = pyro.sample("mean", dist.Normal(0.0, 10.0))
    sd = pyro.sample("sd", dist.LogNormal(0.0, 1.0))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_scale):
        pyro.sample("o", dist.Normal(mean, sd), obs=batch.features[:, 0])


class Amplifier(nn.Module):
    """A guide with a parameter of its own, which is no layer of a network."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))
        self.frozen = nn.Linear(1, 1).requires_grad_(False)


@pytest.mark.parametrize(
    ("guide", "has_networks"),
    [
        (AutoNormal(heights), False),
        (plain_pair()[1], False),
        (Amplifier(), False),
        (message_passing_pair()[1], True),
        (nn.Sequential(nn.Linear(1, 1)), True),
        (partial(heights), False),
    ],
)
def test_networks_are_layers_of_torch_that_are_trained(guide, has_networks):
    assert Trained.of(heights, guide).has_networks is has_networks


@pytest.mark.parametrize(
    ("name", "ties_items"),
    [
        ("answers alone", True),
        ("pages alone", True),
        ("class table", False),
    ],
)
def test_every_step_of_a_partition_takes_all_answers(name, ties_items):
    model, guide, _ = PAIRS_OF_MODEL_AND_GUIDE[name]()
    assert Trained.of(model, guide).ties_items is ties_items


def test_what_is_given_stays_and_the_rest_is_as_the_length_of_training_asks():
    given = {"batch_size": None, "step_size": 1.0, "optim": torch.optim.SGD}
    for is_open in (True, False):
        assert chosen_options(given, NETWORKS, LARGE, is_open=is_open) == given
    found = chosen_options(LEFT_OUT, PLAIN, SMALL, is_open=False)
    assert found == {"batch_size": 128, "step_size": 0.01, "optim": adam}


@pytest.mark.parametrize(
    ("trained", "data", "batch_size", "step_size", "rate"),
    [
        (PLAIN, SMALL, None, 0.5, 0.05),
        (PLAIN, LARGE, 1024, RobbinsMonro(0.5, delay=20.0), 0.05),
        (NETWORKS, SMALL, 128, RobbinsMonro(0.1, delay=200.0), 3e-3),
        (NETWORKS, LARGE, 128, RobbinsMonro(0.1, delay=200.0), 3e-3),
        (Trained(False, True), crowd(), None, 0.5, 0.05),
    ],
)
def test_training_that_goes_on_until_the_elbo_no_longer_rises(
    trained, data, batch_size, step_size, rate
):
    found = chosen_options(LEFT_OUT, trained, data, is_open=True)
    assert (found["batch_size"], found["step_size"]) == (batch_size, step_size)
    assert found["optim"].keywords["lr"] == rate


def test_the_budget_is_of_steps_unless_twenty_epochs_are_more():
    assert (budget_of(PLAIN, 1), budget_of(NETWORKS, 1)) == (6000, 2000)
    assert budget_of(PLAIN, 500) == 10_000


def test_the_docstring_of_fit_names_the_budget():
    plain, networks = (f"{_MAX_STEPS[has_networks]:,}" for has_networks in (False, True))
    said = " ".join(fit.__doc__.split())
    assert f"at most {plain} steps ({networks} with networks), or {_MAX_EPOCHS} epochs" in said


@pytest.mark.long
@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e2])
def test_plain_parameters_arrive_wherever_the_data_are(scale):
    """Heights in centimetres, metres and tenths of millimetres."""
    measured = 170 + 10 * torch.randn(100, 1, generator=torch.Generator().manual_seed(0))

    def anywhere(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1e5))
        sd = pyro.sample("sd", dist.LogNormal(0.0, 5.0))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("o", dist.Normal(mean, sd), obs=batch.features[:, 0])

    result = fit(anywhere, AutoNormal(anywhere), CrowdData(scale * measured), progress=False)
    assert result.stop_reason == "converged: the ELBO no longer rises"
    median = result.guide.median()
    assert median["mean"] == pytest.approx(scale * measured.mean().item(), abs=3 * scale)
    assert median["sd"] == pytest.approx(scale * measured.std().item(), rel=0.2)


@pytest.mark.long
def test_paced_steps_go_on_from_a_checkpoint_as_if_never_stopped(tmp_path):
    def tall(batch):
        mean = pyro.sample("mean", dist.Normal(0.0, 1e3))
        with pyro.plate("items", len(batch.items)):
            pyro.sample("o", dist.Normal(mean, 10.0), obs=batch.features[:, 0])

    def stopped(run):
        if run.steps_done == 133:  # in the middle of a window
            raise KeyboardInterrupt

    measured = 170 + 10 * torch.randn(40, 1, generator=torch.Generator().manual_seed(0))
    parts = tall, AutoNormal(tall), CrowdData(measured)
    whole = fit(*parts, progress=False)
    fit(*parts, progress=False, checkpoint=tmp_path / "run", callbacks=[stopped])
    resumed = fit(*parts, progress=False, checkpoint=tmp_path / "run", callbacks=[lambda run: None])
    assert len(resumed.history) == len(whole.history)
    assert resumed.guide.median()["mean"] == whole.guide.median()["mean"]


def two_groups():
    model = SemiCrowdsourcedMixture(DirichletWeights(2), GaussianComponents(2, 2), Identity())
    points = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    points[:40] += 4
    return model, MessagePassingGuide(model), CrowdData(points)


def test_a_fit_with_defaults_ends_where_a_long_one_does():
    parts = two_groups()
    result = fit(*parts, progress=False)
    assert result.stop_reason == "converged: the ELBO no longer rises"
    long = fit(*parts, epochs=400, batch_size=None, step_size=0.5, progress=False)
    assert result.elbo == pytest.approx(long.elbo, abs=0.01)
    assert len(result.history) < 200


@pytest.mark.long
def test_a_plain_pyro_model_reaches_its_posterior_by_defaults():
    generator = torch.Generator().manual_seed(0)
    measured = 3 + 2 * torch.randn(200, 1, generator=generator)
    result = fit(heights, AutoNormal(heights), CrowdData(measured), progress=False)
    assert result.stop_reason == "converged: the ELBO no longer rises"
    median = result.guide.median()
    assert median["mean"].item() == pytest.approx(measured.mean().item(), abs=0.05)
    assert median["sd"].item() == pytest.approx(measured.std().item(), abs=0.05)


def test_an_update_goes_on_as_the_fit_did():
    result = fit(*two_groups(), progress=False)
    further = result.train_on
    assert (further.epochs, further.batch_size, further.step_size) == (None, None, 0.5)
    assert further.is_open
    short = fit(*two_groups(), epochs=3, progress=False).train_on
    assert (short.epochs, short.batch_size, short.step_size) == (3, 128, 0.01)
    assert not short.is_open
