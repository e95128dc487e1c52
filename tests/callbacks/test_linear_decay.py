"""Learning rates by epoch, as the optimizer has them."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from pyro_crowdclust.callbacks import LinearDecay

from ..crowds import crowd, message_passing_pair, quiet_fit


def test_the_optimizer_has_the_rate_of_every_epoch():
    rates = []
    decay = LinearDecay(0.01, epochs=4, constant=1)
    quiet_fit(
        *message_passing_pair(),
        crowd(),
        epochs=5,
        optim=partial(torch.optim.Adam, lr=0.01),
        callbacks=[lambda trainer: rates.append(trainer.optim.param_groups[0]["lr"]), decay],
    )
    assert rates == pytest.approx([0.01, 0.0075, 0.005, 0.0025, 0.0025])
