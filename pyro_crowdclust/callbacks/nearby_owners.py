"""The prior of ownership knows distances: components nearby are likelier one cluster."""

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

    with ``near_kl`` of ``mixture.nearness.near_shares``: a component has the cluster of its own
    name, or that of a near component, or any. So it is near to a cluster if it is to any member,
    whichever of them the cluster is named after, as links are in Blei and Frazier 2011. Under a
    prior that spreads ``1 - a`` over all K - 1 names, two components are one only after answers of
    more than ``log K`` nats, so that a single answer "same" is taken for an error. Pass it before
    ``OwnershipMoves``. The prior is made from the features, like those that are learned: the bound
    is that of the model with the last one.

    How many components have the cluster of their name may be learned, empirical Bayes with
    ``a_0 n`` and ``(1 - a_0) n`` pseudo-counts: of K components

        a = (n a_0 + sum_k q(c_k = k)) / (n + K)

    So a component that no answer is about is as likely a cluster of its own as the others are.

    Attributes
    ----------
    own
        a_0, the probability that a component has the cluster of its name, whatever is near.
    far
        f, the share of the links to other components for which distances count nothing.
    strength
        n, the number of components that ``own`` counts for; with infinity a stays what it is.

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
        """Give the model's ``Ownership`` the prior."""
        ownership = trainer.model.ownership
        if ownership is None:
            return
        owners = trainer.guide.posteriors["owners"].mean().numpy(force=True)
        near = near_shares(trainer.guide.mixture()) @ owners
        own = np.eye(len(near))
        far = (1 - own) / (len(near) - 1)
        # Written so that an infinite strength leaves it where it is.
        excess = owners.trace() - self.own * len(owners)
        share = self.own + excess / (self.strength + len(owners))
        table = share * own + (1 - share) * ((1 - self.far) * near + self.far * far)
        prior = ownership.prior
        prior.set_natural_parameters(torch.from_numpy(np.log(table)).to(prior.natural_parameters))
