"""Training ends where it has converged, and at every budget."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest

from pyro_crowdclust.training import Stopping

from ..crowds import crowd, fit_plain, plain_pair, quiet_fit
from ..refusals import refuses


def test_converged():
    result = fit_plain(*plain_pair(), crowd(), epochs=200, stopping=Stopping(1e-7, patience=3))
    assert result.stop_reason == "converged: less than 1e-07 nats per item in 3 epochs"
    elbo = result.history["elbo"] / 60
    gains = [elbo[: i + 1].max() - elbo[: i - 2].max() for i in range(3, len(elbo))]
    assert gains[-1] < 1e-7
    assert min(gains[:-1]) >= 1e-7


@pytest.mark.parametrize(
    ("elbos", "converged"),
    [
        ([0, 100, 200, 300], False),
        ([300, 290, 310, 295], False),  # the best of two is 10 above the best before
        ([300, 310, 290, 305], True),  # no better than before
        ([0, 300, 305, 304], True),
        ([300, 301], False),  # too few epochs to tell
    ],
)
def test_convergence_compares_the_best_epochs(elbos, converged):
    """Ten items, patience 2, tolerance 0.6 nats per item; noise must not look like progress."""
    per_item = [elbo / 10 for elbo in elbos]
    assert Stopping(0.6, patience=2).has_converged(per_item) is converged
    assert not Stopping(None, patience=2).has_converged(per_item)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"patience": 2.5}, "patience is 2.5, but must be a whole number"),
        ({"patience": 0}, "patience is 0, but must be at least 1"),
        ({"steps": 2.5}, "steps is 2.5, but must be a whole number"),
        ({"tolerance": -1.0}, "tolerance is -1.0, but must be at least 0"),
        ({"tolerance": math.nan}, "tolerance is nan, but must be at least 0"),
    ],
    ids=str,
)
def test_what_would_never_stop_is_refused_at_once(wrong, message):
    with refuses(message):
        Stopping(**{"tolerance": 1e-3} | wrong)
    assert Stopping(0.0, np.int64(2), np.int64(9)).patience == 2


def test_a_class_of_ones_own_decides_itself():
    class AtTheThird(Stopping):
        def has_converged(self, elbos_per_item):
            return len(elbos_per_item) >= 3

    result = fit_plain(*plain_pair(), crowd(), stopping=AtTheThird(), epochs=9)
    assert result.stop_reason == "converged: by AtTheThird"
    assert len(result.history) == 3


def test_budgets():
    data, pair = crowd(), plain_pair()  # 2 steps an epoch
    for budget, reason in [
        ({"epochs": 3}, "budget: 6 steps in 3 epochs"),
        ({"epochs": None, "stopping": Stopping(steps=5)}, "budget: 5 steps in 3 epochs"),
        ({"epochs": 3, "stopping": Stopping(steps=99)}, "budget: 6 steps in 3 epochs"),
        ({"epochs": 3, "stopping": Stopping(steps=1)}, "budget: 1 steps in 1 epochs"),
        ({"epochs": 3, "stopping": Stopping(max_time=timedelta(0))}, "budget: time for 1 epochs"),
        (
            {"epochs": None, "stopping": Stopping(max_time=timedelta(days=1))},
            "budget: 40 steps in 20 epochs",
        ),
    ]:
        result = quiet_fit(*pair, data, **budget)
        assert result.stop_reason == reason
        assert f"{result.history['step'].iloc[-1]} steps" in reason or "time" in reason
    assert list(result.history["epoch"]) == list(range(1, 21))
    assert (result.history["seconds"] > 0).all()
    assert result.seconds >= result.history["seconds"].sum()
