"""Parts of a mixture that are classes, or of another kind."""

from __future__ import annotations

import pyro.distributions as dist
import pytest

from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture

from ..crowds import NUM_FEATURES

PARTS = {
    "weights": DirichletWeights(3),
    "components": GaussianComponents(3, NUM_FEATURES),
    "emission": Identity(),
    "annotators": TwoCoin(3),
}


@pytest.mark.parametrize("name", PARTS)
def test_classes_are_refused(name):
    kind = type(PARTS[name])
    said = f"{name} is the class {kind.__name__}, but must be an object of it: call {kind.__name__}"
    with pytest.raises(ValueError, match=said):
        SemiCrowdsourcedMixture(**PARTS | {name: kind})


def test_distributions_are_no_weights():
    with pytest.raises(ValueError, match="weights is of the class Normal, but must be .*Weights"):
        SemiCrowdsourcedMixture(**PARTS | {"weights": dist.Normal(0.0, 1.0)})
