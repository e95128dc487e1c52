"""Weights and components of a mixture, and what is read from them."""

from pyro_crowdclust.mixture.collapsed import Design, MixtureObservation
from pyro_crowdclust.mixture.components import Components, ComponentSummary
from pyro_crowdclust.mixture.discrete import (
    BernoulliComponents,
    CategoricalComponents,
    MultinomialComponents,
    PoissonComponents,
)
from pyro_crowdclust.mixture.gaussian import DiagonalGaussianComponents, GaussianComponents
from pyro_crowdclust.mixture.mixed import MixedComponents
from pyro_crowdclust.mixture.sites import check_num_clusters, describe_mixture, mixture_priors
from pyro_crowdclust.mixture.softmax_regression import SoftmaxRegression
from pyro_crowdclust.mixture.summary import MixtureSummary
from pyro_crowdclust.mixture.weights import (
    DirichletWeights,
    PitmanYorWeights,
    StickBreakingWeights,
    Weights,
)

__all__ = [
    "BernoulliComponents",
    "CategoricalComponents",
    "ComponentSummary",
    "Components",
    "Design",
    "DiagonalGaussianComponents",
    "DirichletWeights",
    "GaussianComponents",
    "MixedComponents",
    "MixtureObservation",
    "MixtureSummary",
    "MultinomialComponents",
    "PitmanYorWeights",
    "PoissonComponents",
    "SoftmaxRegression",
    "StickBreakingWeights",
    "Weights",
    "check_num_clusters",
    "describe_mixture",
    "mixture_priors",
]
