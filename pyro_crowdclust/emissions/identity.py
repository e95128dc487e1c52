"""Latents that are functions of the features: the features themselves, or in other units."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pyro.distributions as dist
import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions.emission import Emission
from pyro_crowdclust.files.parts import described

# Stands for the feature of a coordinate that depends on several features.
OF_SEVERAL = -1


@described
class Identity(Emission):
    """x = o: the latents are the features themselves, a plain mixture without networks."""

    observes_latent = True

    @property
    def takes_gaps(self) -> bool:
        """True: a missing feature is a missing latent."""
        return True

    def forward(self, latent: Float[Tensor, "*batch dim"]) -> dist.TorchDistribution:
        return dist.Delta(self.features(latent), event_dim=1)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        return features.flatten(1).double()

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        """Inverse of ``latent``, for one row of numbers per item."""
        return latent

    def filled_in(
        self, features: Float[Tensor, "item ..."], generator: torch.Generator
    ) -> Float[Tensor, "item ..."]:
        """Features with missing values drawn, if the emission has a distribution of them."""
        return features

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        """l and s with ``o_j = l_j + s_j x_j``; None if x is another function of o."""
        zeros = torch.zeros(num_features, dtype=torch.float64)
        return zeros, zeros + 1

    def own_features(self, num_features: int) -> list[int]:
        """The feature of every coordinate, ``OF_SEVERAL`` if it depends on several."""
        return list(range(num_features))

    def coordinate_names(self, names: Sequence[Hashable]) -> list[Hashable]:
        """The name of every coordinate's feature, if no coordinate depends on several."""
        return [names[feature] for feature in self.own_features(len(names))]

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        """Locations from a summary of components, in the units of the features.

        ``columns`` has the coordinate of each column. If coordinates depend on several features,
        the result has a column for every feature.
        """
        return location

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        return torch.zeros(len(features), dtype=torch.float64, device=features.device)


@described
class Standardized(Identity):
    """``x_j = (o_j - location_j) / scale_j``: a plain mixture on standardized features.

    The priors of components expect latents near the origin with covariances near the identity,
    which this achieves. The ELBO is that of x, hence larger by ``sum_j log scale_j`` per item than
    in the features' own units, which is minus ``log_volume``.

    Parameters
    ----------
    location, scale
        One number per feature; scale above zero.

    Examples
    --------
    >>> import torch
    >>> emission = Standardized(torch.tensor([100.0]), torch.tensor([10.0]))
    >>> emission.latent(torch.tensor([[120.0]]))
    tensor([[2.]], dtype=torch.float64)
    """

    location: Tensor
    scale: Tensor

    def __init__(self, location: Float[Tensor, " dim"], scale: Float[Tensor, " dim"]) -> None:
        super().__init__()
        if not bool((scale > 0).all()):
            raise ValueError(
                f"scale has the value {scale.min().item():g}, but must be above zero: use 1 for "
                "features that are constant"
            )
        self.register_buffer("location", location.double().flatten())
        self.register_buffer("scale", scale.double().flatten())

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        return (super().latent(features) - self.location) / self.scale

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        return self.location + self.scale * latent

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        return self.location, self.scale

    def in_feature_units(
        self, location: Float[Tensor, "cluster column"], columns: list[int]
    ) -> Float[Tensor, "cluster feature_column"]:
        return self.location[columns] + self.scale[columns] * location

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        seen = ~features.flatten(1).isnan()
        return super().log_volume(features) - seen.double() @ self.scale.log()
