"""Emissions p(o | x): how features come from latents.

An emission is an ``nn.Module`` that maps a latent draw x ``[..., item, d]`` to a Pyro
distribution over features with batch shape ``[..., item]``. Any such user-defined callable works,
too; ``as_emission`` gives it defaults for everything else that a model needs.
"""

from pyro_crowdclust.emissions.emission import Emission, as_emission, has_gaps
from pyro_crowdclust.emissions.identity import OF_SEVERAL, Identity, Standardized
from pyro_crowdclust.emissions.networks import BernoulliEmission, NormalEmission
from pyro_crowdclust.emissions.soft_bernoulli import SoftBernoulli

__all__ = [
    "OF_SEVERAL",
    "BernoulliEmission",
    "Emission",
    "Identity",
    "NormalEmission",
    "SoftBernoulli",
    "Standardized",
    "as_emission",
    "has_gaps",
]
