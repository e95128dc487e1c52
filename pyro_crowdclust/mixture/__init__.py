"""The parts of mixture models: priors of weights and components, and functions on their sites."""

from pyro_crowdclust.distributions.summaries import ComponentSummary, MixtureSummary
from pyro_crowdclust.mixture.checks import (
    check_emission_of_clusters,
    check_features,
    check_features_of_clusters,
    check_network_of_clusters,
    check_number_of_features,
    check_parts,
    check_support,
)
from pyro_crowdclust.mixture.collapsed import sample_summed_out
from pyro_crowdclust.mixture.components import Components
from pyro_crowdclust.mixture.discrete import (
    BernoulliComponents,
    CategoricalComponents,
    MultinomialComponents,
    PoissonComponents,
)
from pyro_crowdclust.mixture.gaussian import DiagonalGaussianComponents, GaussianComponents
from pyro_crowdclust.mixture.hurdle import HurdleGaussianComponents
from pyro_crowdclust.mixture.learned_prior import gain_of_learned_prior, learn_prior
from pyro_crowdclust.mixture.mixed import MixedComponents
from pyro_crowdclust.mixture.mixture_draws import MixtureDraws
from pyro_crowdclust.mixture.ownership import Ownership
from pyro_crowdclust.mixture.sites import (
    coordinates_of,
    describe_mixture,
    describe_regression,
    emitted,
    in_feature_units,
    mixture_priors,
    observed_latent,
    sample_mixture,
    takes_gaps,
)
from pyro_crowdclust.mixture.softmax_regression import SoftmaxRegression
from pyro_crowdclust.mixture.weights import (
    DirichletWeights,
    StickBreakingWeights,
    Weights,
)

__all__ = [
    "BernoulliComponents",
    "CategoricalComponents",
    "ComponentSummary",
    "Components",
    "DiagonalGaussianComponents",
    "DirichletWeights",
    "GaussianComponents",
    "HurdleGaussianComponents",
    "MixedComponents",
    "MixtureDraws",
    "MixtureSummary",
    "MultinomialComponents",
    "Ownership",
    "PoissonComponents",
    "SoftmaxRegression",
    "StickBreakingWeights",
    "Weights",
    "check_emission_of_clusters",
    "check_features",
    "check_features_of_clusters",
    "check_network_of_clusters",
    "check_number_of_features",
    "check_parts",
    "check_support",
    "coordinates_of",
    "describe_mixture",
    "describe_regression",
    "emitted",
    "gain_of_learned_prior",
    "in_feature_units",
    "learn_prior",
    "mixture_priors",
    "observed_latent",
    "sample_mixture",
    "sample_summed_out",
    "takes_gaps",
]
