"""Exponential families ``log p(theta | eta) = <eta, t(theta)> - log Z(eta)``, one per file.

All have the same methods. ``REGISTRY`` has one small instance of every family; the tests of the
mathematics run over it, so adding a new family here tests it.
"""

from pyro_crowdclust.families.beta import Beta, BetaParameters
from pyro_crowdclust.families.beta_bernoulli import BetaBernoulli
from pyro_crowdclust.families.categorical import (
    SMALLEST_PROBABILITY,
    Categorical,
    CategoricalParameters,
    softmax_without_denormals,
)
from pyro_crowdclust.families.dirichlet import Dirichlet, DirichletParameters
from pyro_crowdclust.families.dirichlet_categorical import DirichletCategorical
from pyro_crowdclust.families.dirichlet_multinomial import DirichletMultinomial
from pyro_crowdclust.families.family import ExponentialFamily, OutsideDomain
from pyro_crowdclust.families.gamma_poisson import GammaParameters, GammaPoisson
from pyro_crowdclust.families.gaussian import (
    Gaussian,
    GaussianParameters,
    IndependentMoments,
    Moments,
)
from pyro_crowdclust.families.heavy_tailed import HeavyTailedNumbers, HeavyTailedRows
from pyro_crowdclust.families.hurdle import HurdleNormal
from pyro_crowdclust.families.matching import natural_at_mean
from pyro_crowdclust.families.matrix_normal_inverse_wishart import (
    MatrixNormalInverseWishart,
    MatrixNormalInverseWishartParameters,
    RegressionParameters,
)
from pyro_crowdclust.families.normal_gamma import (
    IndependentNormals,
    NormalGamma,
    NormalGammaParameters,
)
from pyro_crowdclust.families.normal_inverse_wishart import (
    NormalInverseWishart,
    NormalInverseWishartParameters,
)
from pyro_crowdclust.families.partly_observed import PartlyObserved
from pyro_crowdclust.families.potential import GaussianPotential
from pyro_crowdclust.families.product import ProductFamily
from pyro_crowdclust.families.summaries import (
    PosteriorSummary,
    SupportsShares,
    beta_of_moments,
    beta_summary,
    mixed_summary,
    summary_of_moments,
)
from pyro_crowdclust.families.tempered import Tempered, tempered

# Densities of rows of features: whole, with gaps, with heavy tails, or a power of one.
RowDensity = ExponentialFamily | PartlyObserved | HeavyTailedRows | HeavyTailedNumbers | Tempered

REGISTRY: dict[str, ExponentialFamily] = {
    "dirichlet": Dirichlet(4),
    "beta": Beta(),
    "categorical": Categorical(3),
    "gaussian": Gaussian(2),
    "normal_inverse_wishart": NormalInverseWishart(3),
    "matrix_normal_inverse_wishart": MatrixNormalInverseWishart(2, num_regressors=3),
    "normal_gamma": NormalGamma(2),
    "dirichlet_categorical": DirichletCategorical((2, 3)),
    "dirichlet_multinomial": DirichletMultinomial(3, length=7),
    "beta_bernoulli": BetaBernoulli(3),
    "gamma_poisson": GammaPoisson(2),
    "hurdle_normal": HurdleNormal((NormalGamma(2), BetaBernoulli(2))),
    "product": ProductFamily((NormalInverseWishart(1), BetaBernoulli(2), GammaPoisson(1))),
}

__all__ = [
    "REGISTRY",
    "SMALLEST_PROBABILITY",
    "Beta",
    "BetaBernoulli",
    "BetaParameters",
    "Categorical",
    "CategoricalParameters",
    "Dirichlet",
    "DirichletCategorical",
    "DirichletMultinomial",
    "DirichletParameters",
    "ExponentialFamily",
    "GammaParameters",
    "GammaPoisson",
    "Gaussian",
    "GaussianParameters",
    "GaussianPotential",
    "HeavyTailedNumbers",
    "HeavyTailedRows",
    "HurdleNormal",
    "IndependentMoments",
    "IndependentNormals",
    "MatrixNormalInverseWishart",
    "MatrixNormalInverseWishartParameters",
    "Moments",
    "NormalGamma",
    "NormalGammaParameters",
    "NormalInverseWishart",
    "NormalInverseWishartParameters",
    "OutsideDomain",
    "PartlyObserved",
    "PosteriorSummary",
    "ProductFamily",
    "RegressionParameters",
    "RowDensity",
    "SupportsShares",
    "Tempered",
    "beta_of_moments",
    "beta_summary",
    "mixed_summary",
    "natural_at_mean",
    "softmax_without_denormals",
    "summary_of_moments",
    "tempered",
]
