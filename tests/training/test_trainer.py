"""The trainer: what callbacks see of it, its step sizes, and the site at which a step failed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from pyro.nn import PyroModule
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface import mixture_for
from pyro_crowdclust.protocols import unwrapped

from ..crowds import NUM_CLUSTERS, crowd, message_passing_pair, plain_pair, quiet_fit
from ..plain_pyro import noise_around
from ..problems import location_model
from ..same_fits import same_fit


@pytest.mark.parametrize("seed", [6, 8, 9, 11])
def test_the_site_that_failed_is_named_and_none_that_other_draws_would_fail_at(seed):
    failed = []

    def guide(batch):
        mean = pyro.param("mean", torch.tensor(0.0))
        pyro.sample("location", dist.Normal(mean, 1.0))

    def model(batch):
        place = pyro.sample("location", dist.Normal(0.0, 1.0))
        side = "left" if place < 0 else "right"
        if torch.is_grad_enabled():  # in a step, and not where the site is looked for
            failed.append(side)
        pyro.factor(side, 0 * place + float("nan"))

    with pytest.warns(UserWarning, match="not finite after 0 steps"):
        result = quiet_fit(model, guide, noise_around(1.0), batch_size=None, seed=seed)
    assert f"the log-density of site '{failed[0]}' in the model" in result.stop_reason


@pytest.mark.parametrize("wrapped", [lambda guide: guide, partial(poutine.scale, scale=1.0)])
def test_a_guide_prepares_once_for_every_step(wrapped):
    """However often the bound runs it, and with Pyro's handlers around it."""

    class Preparing(nn.Module):
        def __init__(self):
            super().__init__()
            self.loc = nn.Parameter(torch.tensor(0.0))
            self.register_buffer("prepared", torch.tensor(0))

        def before_step(self, batch):
            self.prepared += 1

        def forward(self, batch):
            pyro.sample("mean", dist.Normal(self.loc, 1.0))

    result = quiet_fit(
        location_model,
        wrapped(Preparing()),
        noise_around(1.0),
        elbo=Trace_ELBO(num_particles=2),
        batch_size=None,
        epochs=3,
    )
    assert int(unwrapped(result.guide).prepared) == 3


def test_parameters_that_come_too_late_are_refused():
    def guide(batch):
        runs.append(batch)
        loc = pyro.param("loc", torch.tensor(0.0))
        if len(runs) > 3:
            loc = loc + pyro.param("late", torch.tensor(0.0))
        pyro.sample("mean", dist.Normal(loc, 1.0))

    runs: list = []
    with pytest.raises(
        ValueError, match=r"'late' \(1 such\) was made after the first batch, too late"
    ):
        quiet_fit(location_model, guide, noise_around(1.0))
    assert len(runs) == 4


def test_parameters_of_a_module_may_be_read_late():
    """Pyro's store is told of those that were there all the time."""

    class Guide(PyroModule):
        def __init__(self):
            super().__init__()
            self.loc, self.late = (nn.Parameter(torch.tensor(0.0)) for _ in range(2))
            self.runs = 0

        def forward(self, batch):
            self.runs += 1
            loc = self.loc + self.late if self.runs > 3 else self.loc
            pyro.sample("mean", dist.Normal(loc, 1.0))

    result = quiet_fit(location_model, Guide(), noise_around(1.0))
    assert result.guide.late != 0


def test_callbacks_see_the_trainer_and_add_to_the_history():
    data, seen = crowd(), []

    def score(trainer):
        seen.append((trainer.epochs_done, trainer.steps_done))
        probabilities = trainer.predict_proba(data.features)
        trainer.history[-1]["confidence"] = probabilities.max(1).values.mean().item()

    result = quiet_fit(*message_passing_pair(), data, callbacks=[score, score])
    assert seen == [(1, 2), (1, 2), (2, 4), (2, 4)]
    assert result.history["confidence"].between(1 / NUM_CLUSTERS, 1).all()
    silent = quiet_fit(*message_passing_pair(), data)
    pd.testing.assert_frame_equal(
        result.history.drop(columns=["seconds", "confidence"]),
        silent.history.drop(columns="seconds"),
    )


def test_callbacks_predict_a_table_by_the_categories_of_the_training_data():
    town = np.array(["a", "b", "c"])[np.arange(60) % 3]
    table = pd.DataFrame({"town": town, "height": 5.0 * (np.arange(60) % 3)})
    items = np.flatnonzero(town != "a")
    some, seen = table.iloc[items], []
    recipe = mixture_for(CrowdData(table), num_clusters=3)
    # The frame lacks the first town, which would shift the codes of the others.
    result = recipe.fit(
        progress=False, callbacks=[lambda trainer: seen.append(trainer.predict_proba(some))]
    )
    of_result = result.component_probabilities[torch.from_numpy(items)]
    torch.testing.assert_close(seen[-1].double(), of_result, atol=1e-3, rtol=0)
    assert len(set(of_result.argmax(1).tolist())) == 2


def test_the_step_size_may_be_a_function_of_the_step():
    asked = []

    def halving(step):
        asked.append(step)
        return 0.5**step

    one = quiet_fit(*plain_pair(), crowd(), step_size=halving)
    assert asked == [0, 1, 2, 3]
    assert not same_fit(one, quiet_fit(*plain_pair(), crowd(), step_size=1.0))
    assert same_fit(
        quiet_fit(*plain_pair(), crowd(), step_size=lambda step: 0.25),
        quiet_fit(*plain_pair(), crowd(), step_size=0.25),
    )


@pytest.mark.parametrize("enumerates", [False, True])
def test_nothing_to_train_is_said(enumerates):
    def model(batch):
        with pyro.plate("items", len(batch.items)):
            z = torch.tensor(0.0)
            if enumerates:
                half = dist.Categorical(torch.ones(2))
                z = pyro.sample("z", half, infer={"enumerate": "parallel"})
            pyro.sample("o", dist.Normal(1.0 * z, 1.0), obs=batch.features[:, 0])

    with pytest.raises(ValueError, match="nothing to train: model and guide have no parameters"):
        quiet_fit(model, lambda batch: None, CrowdData(torch.zeros(4, 1)), epochs=1)
