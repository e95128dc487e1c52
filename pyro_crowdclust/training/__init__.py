"""One training run: bound, natural gradients, checks and checkpoints."""

from pyro_crowdclust.training.elbo import PlainELBO
from pyro_crowdclust.training.natural_gradient import NaturalGradient, robbins_monro
from pyro_crowdclust.training.trainer import Trainer

__all__ = [
    "NaturalGradient",
    "PlainELBO",
    "Trainer",
    "robbins_monro",
]
