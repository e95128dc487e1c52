"""Training of one fit: the bound, natural gradients, checks and checkpoints."""

from pyro_crowdclust.training.callback import Callback
from pyro_crowdclust.training.checkpoint import Checkpoint
from pyro_crowdclust.training.elbo import EnumeratedELBO, PlainELBO, default_elbo
from pyro_crowdclust.training.held_steps import held_steps
from pyro_crowdclust.training.natural_gradient import NaturalGradient, RobbinsMonro
from pyro_crowdclust.training.paced_adam import PacedAdam
from pyro_crowdclust.training.stopping import Ending, Stopping, is_interrupted, uninterrupted
from pyro_crowdclust.training.trainer import Trainer

__all__ = [
    "Callback",
    "Checkpoint",
    "Ending",
    "EnumeratedELBO",
    "NaturalGradient",
    "PacedAdam",
    "PlainELBO",
    "RobbinsMonro",
    "Stopping",
    "Trainer",
    "default_elbo",
    "held_steps",
    "is_interrupted",
    "uninterrupted",
]
