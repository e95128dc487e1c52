"""Options of ``fit`` that are of another kind are refused by name."""

from __future__ import annotations

import pytest
from pyro.infer import RenyiELBO, Trace_ELBO, TraceGraph_ELBO

from pyro_crowdclust.callbacks import MergeMoves

from ..crowds import crowd, plain_pair, quiet_fit
from ..plain_pyro import guide_of, two_sites
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
        (TraceGraph_ELBO(), "elbo is a TraceGraph_ELBO, which has no differentiable_loss"),
    ],
)
def test_a_bound_that_is_none(elbo, message):
    with refuses(message):
        quiet_fit(two_sites, guide_of("mean", "scale"), crowd(), elbo=elbo)


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
        ({"trainer": None}, "trainer is None, but must be callable with what trains"),
        ({"checkpoint": 3}, "checkpoint is 3, but must be the path of a file, or a Checkpoint"),
        ({"step_size": None}, "step_size is None, but a natural step needs 0 < step_size <= 1"),
    ],
)
def test_options_that_are_of_another_kind(option, message):
    with refuses(message):
        quiet_fit(*plain_pair(), crowd(), **option)
