"""Training until the ELBO no longer rises."""

import numpy as np
import pytest
import torch

from pyro_crowdclust.training.paced_adam import PacedAdam
from pyro_crowdclust.training.settling import Settling, rise_of, still_rises


def noise(number, seed=0):
    return np.random.default_rng(seed).normal(size=number)


def test_the_error_of_a_rise_is_that_of_its_noise():
    """The last two quarters of 400 epochs are means of 100 draws each, of variance one."""
    rises, errors = zip(*(rise_of(noise(400, seed)) for seed in range(300)), strict=True)
    assert np.std(rises) == pytest.approx(np.sqrt(2 / 100), rel=0.15)
    assert np.mean(errors) == pytest.approx(np.sqrt(2 / 100), rel=0.05)


@pytest.mark.parametrize(
    ("elbos", "rises"),
    [
        (np.arange(40.0), True),
        (np.arange(40.0) + noise(40), True),
        (noise(40), False),
        (-np.arange(40.0), False),
        (1 - 0.5 ** np.arange(40.0), False),
        (np.arange(7.0), False),  # too few to tell
        (np.r_[-1e5, np.arange(39.0)], True),  # the first epoch is of no account
    ],
)
def test_a_clear_rise_is_one_beyond_noise(elbos, rises):
    assert still_rises(elbos.tolist()) is rises


class Run:
    """A run of two steps an epoch, whose ELBO per item is given."""

    steps_per_epoch = 2

    def __init__(self, has_optim=True):
        self.elbos_per_item, self.history, self.steps_done = [], [], 0
        parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.optim = torch.optim.Adam([parameter], lr=0.5) if has_optim else None

    @property
    def rate(self):
        return self.optim.param_groups[0]["lr"]

    def epoch(self, elbo, settling):
        self.elbos_per_item.append(elbo)
        self.history.append({"elbo": elbo})
        self.steps_done += 2
        settling(self)


def test_the_rate_falls_where_the_elbo_does_not_rise_and_training_ends_after_the_last_fall():
    run, settling = Run(), Settling(1000, falls=2, least=20)
    for epoch in range(50):
        run.epoch(float(epoch), settling)
    assert run.rate == 0.5
    while run.rate == 0.5:
        run.epoch(50.0, settling)
    assert len(run.history) <= 100  # the last two quarters are flat
    assert settling.since == len(run.history)
    for _ in range(20):
        assert not settling.is_settled
        run.epoch(50.0, settling)
    assert settling.is_settled
    assert run.rate == pytest.approx(0.5 / 25)


def test_the_rate_falls_before_the_end_of_the_budget_where_the_elbo_still_rises():
    run, settling = Run(), Settling(160)
    rates = []
    for epoch in range(80):
        run.epoch(float(epoch), settling)
        rates.append(run.rate)
    assert [rates.index(rate) for rate in sorted({*rates}, reverse=True)] == [0, 59, 69]
    assert settling.was_rising
    assert not settling.is_settled


def test_a_fall_by_noise_does_not_settle_what_rises():
    """A rise of a hundredth an epoch under ten times as much noise, looked at after every epoch."""
    falls = 0
    for seed in range(10):
        run, settling = Run(), Settling(1e6, least=40)
        for epoch, error in enumerate(noise(300, seed)):
            run.epoch(0.01 * epoch + 0.1 * error, settling)
            falls += epoch >= 19 and rise_of(run.elbos_per_item)[0] < 0
        assert run.rate == 0.5
    assert falls >= 5
    while run.rate == 0.5 and len(run.history) < 1500:
        run.epoch(3 + 0.1 * noise(1, len(run.history))[0], settling)
    assert run.rate == 0.1


def test_what_is_flat_only_because_the_rate_fell_has_not_settled():
    run, settling = Run(), Settling(160, least=10)
    for epoch in range(60):
        run.epoch(float(epoch), settling)
    for _ in range(40):
        run.epoch(60.0, settling)
    assert settling.falls == 0
    assert not settling.is_settled


def test_the_elbo_may_be_flat_while_a_parameter_travels():
    run, settling = Run(), Settling(1000, least=20)
    run.optim = PacedAdam([torch.nn.Parameter(torch.zeros(()))], lr=0.5)
    run.optim.param_groups[0]["travels"] = True
    for _ in range(40):
        run.epoch(1.0, settling)
    assert run.rate == 0.5
    run.optim.param_groups[0]["travels"] = False
    run.epoch(1.0, settling)
    assert run.rate == 0.1


def test_natural_steps_alone_have_no_rate_that_falls():
    run, settling = Run(has_optim=False), Settling(1000, least=20)
    for _ in range(10):
        assert not settling.is_settled
        run.epoch(1.0, settling)
    assert settling.is_settled


def test_the_state_is_that_of_a_resumed_run():
    run, settling = Run(), Settling(1000, falls=1, least=20)
    for _ in range(12):
        run.epoch(1.0, settling)
    again = Settling(7)
    again.load_state_dict(settling.state_dict())
    assert again == settling
    assert again.since == 10
