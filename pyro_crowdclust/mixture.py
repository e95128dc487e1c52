"""Parts of a mixture by one name, and what a reader sees of a fitted one."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.components import (
    BernoulliComponents,
    CategoricalComponents,
    Components,
    ComponentSummary,
    DiagonalGaussianComponents,
    GaussianComponents,
    MixedComponents,
    MultinomialComponents,
    PoissonComponents,
)
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
