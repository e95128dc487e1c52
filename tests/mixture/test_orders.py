"""What an ELBO gains from all orders of the components."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from pyro_crowdclust.mixture.orders import log_orders


@pytest.mark.parametrize("used", [1, 2, 3, 4])
def test_an_elbo_gains_from_every_order_that_is_another_posterior(used):
    q = torch.eye(4)[torch.arange(8) % used]
    orders = {tuple(q[:, order].flatten().tolist()) for order in itertools.permutations(range(4))}
    assert log_orders(q) == pytest.approx(math.log(len(orders)))
