"""Point estimates of conjugate sites: where they are, and where they are put."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.distributions import ConjugatePrior, PointEstimate
from pyro_crowdclust.families import Beta, NormalGamma

from ..oracles import random_natural


@pytest.mark.parametrize("family", [Beta(), NormalGamma(2)], ids=str)
def test_an_estimate_is_where_it_was_put(family):
    point = PointEstimate(ConjugatePrior(family, random_natural(family), plate_size=4))
    theta = family.sample(random_natural(family, 4))
    point.set_value(theta)
    torch.testing.assert_close(point.value(), theta)
    torch.testing.assert_close(point.statistics(), family.sufficient_statistics(theta))
