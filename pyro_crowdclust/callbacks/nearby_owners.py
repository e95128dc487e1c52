"""The prior of ownership knows distances: components nearby are likelier one cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

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

    Attributes
    ----------
    own
        a, the probability that a component has the cluster of its name, whatever is near.
    far
        f, the share of the links to other components for which distances count nothing.

    Raises
    ------
    ValueError
        If one of them is not between 0 and 1.

    Examples
    --------
    >>> NearbyOwners()
    NearbyOwners(own=0.3, far=0.2)
    """

    own: float = 0.3
    far: float = 0.2

    def __post_init__(self) -> None:
        for name, value in (("own", self.own), ("far", self.far)):
            if not 0 < value < 1:
                raise ValueError(f"{name} is {value}, but must be in (0, 1)")

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
        table = self.own * own + (1 - self.own) * ((1 - self.far) * near + self.far * far)
        prior = ownership.prior
        prior.set_natural_parameters(torch.from_numpy(np.log(table)).to(prior.natural_parameters))
