"""Steps at given q(z), against counts by hand."""

from __future__ import annotations

import math

import pytest
import torch

from pyro_crowdclust.annotators import ConfusionMatrices
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.guides import ClassLabelGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.models import DawidSkene
from pyro_crowdclust.training import held_steps

SAID = {"item": [0, 0, 1], "worker": ["a", "b", "a"], "label": ["x", "y", "y"]}
# Of worker a, what was said of items of each class, where q(y) is that below.
COUNTS = torch.tensor([[0.75, 0.5], [0.25, 0.5]], dtype=torch.float64)
Q = torch.tensor([[0.75, 0.25], [0.5, 0.5]], dtype=torch.float64)


@pytest.fixture
def parts():
    data = CrowdData(None, labels=SAID)
    model = DawidSkene(ConfusionMatrices(2, 2))
    return model, ClassLabelGuide(model), full_batch(data)


def moved(model, guide):
    priors = model.priors()
    return guide.posteriors["confusion"].natural_parameters - priors["confusion"].natural_parameters


def test_a_whole_step_counts_answers_by_what_is_held(parts):
    model, guide, batch = parts
    held_steps(model, guide, batch, [Q.log()], 1.0)
    # The rows of a worker are those of the classes.
    torch.testing.assert_close(moved(model, guide)[:2], COUNTS)
    assert guide.held is None
    assert all(parameter.grad is None for parameter in guide.parameters())


def test_smaller_steps_go_there_by_and_by(parts):
    model, guide, batch = parts
    whole = type(guide)(model)
    held_steps(model, whole, batch, [Q.log()], 1.0)
    held_steps(model, guide, batch, [Q.log()] * 3, 0.5)
    begin = type(guide)(model)
    expected = moved(model, begin) / 8 + moved(model, whole) * 7 / 8
    torch.testing.assert_close(moved(model, guide), expected)


def test_the_loss_is_that_of_the_last_step(parts):
    model, guide, batch = parts
    assert held_steps(model, guide, batch, [], 1.0) == math.inf
    first = held_steps(model, guide, batch, [Q.log()], 1.0)
    second = held_steps(model, guide, batch, [Q.log(), Q.log()], 1.0)
    assert second < first
    again = held_steps(model, guide, batch, [Q.log()], 1.0)
    assert again == pytest.approx(second)


def test_nothing_is_held_after_an_error(parts):
    model, guide, batch = parts
    with pytest.raises(ValueError, match="Shape mismatch"):
        held_steps(model, guide, batch, [torch.zeros(7, 2, dtype=torch.float64)], 1.0)
    assert guide.held is None
