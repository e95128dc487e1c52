"""Exponential families: one verb set, one file each.

``REGISTRY`` lists one small instance of every family; the tests of the mathematics run over it, so
a new family is tested by being added here.
"""

from pyro_crowdclust.families.beta import Beta, BetaParameters
from pyro_crowdclust.families.categorical import (
    Categorical,
    CategoricalParameters,
    softmax_without_denormals,
)
from pyro_crowdclust.families.dirichlet import Dirichlet, DirichletParameters
from pyro_crowdclust.families.family import ExponentialFamily, OutsideDomain
from pyro_crowdclust.families.gaussian import Gaussian, GaussianParameters, Moments
from pyro_crowdclust.families.normal_inverse_wishart import (
    NormalInverseWishart,
    NormalInverseWishartParameters,
)

REGISTRY: dict[str, ExponentialFamily] = {
    "dirichlet": Dirichlet(4),
    "beta": Beta(),
    "categorical": Categorical(3),
    "gaussian": Gaussian(2),
    "normal_inverse_wishart": NormalInverseWishart(3),
}

__all__ = [
    "REGISTRY",
    "Beta",
    "BetaParameters",
    "Categorical",
    "CategoricalParameters",
    "Dirichlet",
    "DirichletParameters",
    "ExponentialFamily",
    "Gaussian",
    "GaussianParameters",
    "Moments",
    "NormalInverseWishart",
    "NormalInverseWishartParameters",
    "OutsideDomain",
    "softmax_without_denormals",
]
