"""Options of ``fit`` that are of another kind are refused by name."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import (
    JitTrace_ELBO,
    RenyiELBO,
    Trace_ELBO,
    TraceEnum_ELBO,
    TraceGraph_ELBO,
    TraceMeanField_ELBO,
)
from pyro.infer.autoguide import AutoNormal

from pyro_crowdclust.callbacks import MergeMoves
from pyro_crowdclust.fitting import TrainingOptions
from pyro_crowdclust.training.option_checks import check_values

from ..crowds import crowd, plain_pair, quiet_fit
from ..plain_pyro import guide_of, noise_around, two_sites
from ..refusals import refuses


@pytest.mark.parametrize(
    ("elbo", "message"),
    [
        (
            Trace_ELBO,
            r"elbo is the class Trace_ELBO, but must be .*Trace_ELBO\(max_plate_nesting=1",
        ),
        ("ELBO", r"elbo is a str, but must be a bound of Pyro's, such as pyro.infer.Trace_ELBO\("),
        (RenyiELBO(), "elbo is a RenyiELBO, which has no differentiable_loss .* Trace_ELBO, Trace"),
        (JitTrace_ELBO(), "elbo is a JitTrace_ELBO, which compiles functions of tensors, but a ba"),
        (TraceGraph_ELBO(), "elbo is a TraceGraph_ELBO, which has no differentiable_loss"),
    ],
)
def test_a_bound_that_is_none(elbo, message):
    with refuses(message):
        quiet_fit(two_sites, guide_of("mean", "scale"), crowd(), elbo=elbo)


def two_means(batch):
    means = pyro.sample("means", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    with pyro.plate("items", len(batch.items)), poutine.scale(scale=batch.item_scale):
        half = dist.Categorical(torch.ones(2))
        z = pyro.sample("z", half, infer={"enumerate": "parallel"})
        pyro.sample("o", dist.Normal(means[z], 1.0), obs=batch.features[:, 0])


@pytest.mark.parametrize("elbo", [Trace_ELBO(), TraceMeanField_ELBO()])
def test_a_bound_that_would_draw_what_the_model_enumerates(elbo):
    guide = AutoNormal(poutine.block(two_means, hide=["z"]))
    with refuses(
        f"the model enumerates 'z', but {type(elbo).__name__} does not sum over sites: leave"
    ):
        quiet_fit(two_means, guide, noise_around(0.0), elbo=elbo)
    summed = TraceEnum_ELBO(max_plate_nesting=1)
    quiet_fit(two_means, guide, noise_around(0.0), elbo=summed, epochs=1)


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        (MergeMoves(), r"callbacks is a MergeMoves, but must be a list: put it into one"),
        (iter([MergeMoves()]), "callbacks is a list_iterator, but must be a list"),
        (
            [MergeMoves],
            r"callbacks\[0\] is the class MergeMoves, but must be an object of it: call",
        ),
        ([MergeMoves(), 3], r"callbacks\[1\] is a int, but must be callable with the Trainer"),
    ],
)
def test_callbacks_that_are_none(callbacks, message):
    with refuses(message):
        quiet_fit(*plain_pair(), crowd(), callbacks=callbacks)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"stopping": None}, "stopping is None, but must be an object of Stopping, or left out"),
        ({"stopping": 1e-3}, "stopping is 0.001, but must be an object of Stopping"),
        ({"answer_sampling": 9}, "answer_sampling is 9, but must be an object of AnswerSampling"),
        ({"optim": "adam"}, "optim is 'adam', but must be callable with the parameters of"),
        ({"initialize": "k-means"}, "initialize is 'k-means', but must be callable with model, "),
        ({"trainer": None}, "trainer is None, but must be callable with model, guide, data"),
        ({"checkpoint": 3}, "checkpoint is 3, but must be the path of a file, or a Checkpoint"),
        ({"step_size": None}, "step_size is None, but a natural step needs 0 < step_size <= 1"),
    ],
)
def test_options_that_are_of_another_kind(option, message):
    with refuses(message):
        quiet_fit(*plain_pair(), crowd(), **option)


@pytest.mark.parametrize("name", sorted(TrainingOptions.option_names() - {"progress"}))
def test_every_option_of_fit_is_checked_by_its_name_if_it_is_given(name):
    with refuses(name):
        check_values(crowd(), {name: 1.5})
    check_values(crowd(), {"progress": 1.5})
