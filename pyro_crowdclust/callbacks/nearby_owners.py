"""A prior of ownership by distance: nearby components are more probably in one cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from pyro_crowdclust.errors import check_share
from pyro_crowdclust.mixture.nearness import near_shares
from pyro_crowdclust.training.trainer import Trainer


@dataclass(frozen=True)
class NearbyOwners:
    """A callback of ``fit``: after an epoch, the prior of ownership follows the components' means.

        p(c_k = c) = a [c = k] + (1 - a) [(1 - f) sum_l near_kl q(c_l = c) + f [c != k] / (K - 1)]

    with ``near_kl`` of ``mixture.nearness.near_shares``: a component is in the cluster named after
    it, in that of a nearby component, or in any. So it is near a cluster if it is near any of its
    members, whichever of them the cluster is named after, like links in Blei and Frazier 2011.
    Under a prior that spreads ``1 - a`` over all K - 1 names, two components join only after more
    than ``log K`` nats of evidence from answers, so that a single answer "same" counts as an error.
    Pass it before ``OwnershipMoves``. The prior depends on the features, like a learned prior: the
    bound is that of the model with the last one.

    The share a of components in the cluster of their own name can be learned by empirical Bayes
    with ``a_0 n`` and ``(1 - a_0) n`` pseudo-counts: for K components

        a = (n a_0 + sum_k q(c_k = k)) / (n + K)

    So a component without answers is as probably a cluster of its own as the others are.

    Attributes
    ----------
    own
        a_0, the prior probability that a component is in the cluster of its own name.
    far
        f, the share of the links to other components that ignores distances.
    strength
        n, the number of components that ``own`` counts as; with infinity a stays at a_0.

    Raises
    ------
    ValueError
        If a probability is not between 0 and 1, or the strength not positive.

    Examples
    --------
    >>> NearbyOwners()
    NearbyOwners(own=0.3, far=0.2, strength=inf)
    """

    own: float = 0.3
    far: float = 0.2
    strength: float = math.inf

    def __post_init__(self) -> None:
        check_share("own", self.own)
        check_share("far", self.far)
        if not self.strength > 0:
            raise ValueError(f"strength is {self.strength}, but must be above 0")

    @torch.no_grad()
    def __call__(self, trainer: Trainer) -> None:
        """Set the prior of the model's ``Ownership``."""
        ownership = trainer.model.ownership
        if ownership is None:
            return
        owners = trainer.guide.posteriors["owners"].mean().numpy(force=True)
        near = near_shares(trainer.guide.mixture()) @ owners
        own = np.eye(len(near))
        far = (1 - own) / (len(near) - 1)
        # Written so that an infinite strength leaves it unchanged.
        excess = owners.trace() - self.own * len(owners)
        share = self.own + excess / (self.strength + len(owners))
        table = share * own + (1 - share) * ((1 - self.far) * near + self.far * far)
        prior = ownership.prior
        prior.set_natural_parameters(torch.from_numpy(np.log(table)).to(prior.natural_parameters))
