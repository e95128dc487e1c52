"""Training of networks on random rows."""

from __future__ import annotations

import torch
from torch import nn

from pyro_crowdclust.networks.row_steps import ROWS_PER_STEP, descend_on_rows


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_loss_of_all_rows_is_minimized():
    values, mean = torch.arange(40.0) / 40, nn.Parameter(torch.tensor(0.0))
    descend_on_rows(
        lambda rows: (values[rows] - mean).square().mean(), [mean], 40, generator(), 900
    )
    assert abs(mean - values.mean()) < 0.03


def test_a_generator_determines_the_rows_of_every_step():
    def drawn(seed):
        seen, parameter = [], nn.Parameter(torch.zeros(1))

        def loss(rows):
            seen.append(rows)
            return parameter.square().sum()

        descend_on_rows(loss, [parameter], 10, generator(seed), 3)
        return torch.stack(seen)

    assert drawn(0).shape == (3, ROWS_PER_STEP)
    assert set(drawn(0).flatten().tolist()) == set(range(10))
    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))


def test_parameters_that_need_no_gradient_are_not_trained():
    frozen = nn.Parameter(torch.ones(1), requires_grad=False)

    def loss(rows):
        raise AssertionError("there is nothing to train")

    descend_on_rows(loss, [frozen], 5, generator(), 3)


def test_training_ends_before_a_loss_that_is_not_finite():
    parameter = nn.Parameter(torch.tensor(1.0))
    losses = iter([1.0, float("nan"), 1.0])
    descend_on_rows(lambda rows: next(losses) * parameter, [parameter], 5, generator(), 3)
    assert 0.99 < parameter < 1
    assert next(losses) == 1.0
