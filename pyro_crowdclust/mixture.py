"""Parts of a mixture by one name, and what a reader sees of a fitted one."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.components import Components, ComponentSummary
from pyro_crowdclust.discrete_components import (
    BernoulliComponents,
    CategoricalComponents,
    MultinomialComponents,
    PoissonComponents,
)
from pyro_crowdclust.gaussian_components import DiagonalGaussianComponents, GaussianComponents
from pyro_crowdclust.mixed_components import MixedComponents
from pyro_crowdclust.weights import (
    DirichletWeights,
    PitmanYorWeights,
    StickBreakingWeights,
    Weights,
)


class MixtureSummary(NamedTuple):
    """A mixture as a reader sees it: ``weights`` E[pi], and a ``ComponentSummary``'s two parts."""

    weights: Float[Tensor, " cluster"]
    location: Float[Tensor, "cluster column"]
    covariance: Float[Tensor, "cluster ..."] | None


__all__ = [
    "BernoulliComponents",
    "CategoricalComponents",
    "ComponentSummary",
    "Components",
    "DiagonalGaussianComponents",
    "DirichletWeights",
    "GaussianComponents",
    "MixedComponents",
    "MixtureSummary",
    "MultinomialComponents",
    "PitmanYorWeights",
    "PoissonComponents",
    "StickBreakingWeights",
    "Weights",
]
