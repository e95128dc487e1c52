"""The base class of emissions, and what wraps a callable of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING

import pyro.distributions as dist
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.errors import check_object

if TYPE_CHECKING:
    from pyro_crowdclust.data.crowd_data import CrowdData
    from pyro_crowdclust.minibatches.batch import Batch


class Emission(nn.Module):
    """Base class of emissions; user-defined ones derive from it to change its defaults.

    Attributes
    ----------
    observes_latent
        True if latents are functions of the features, so that there is no emission network.
    """

    observes_latent = False

    @property
    def mixes_features(self) -> bool:
        """Whether a latent depends on several features; by default not."""
        return False

    @property
    def takes_gaps(self) -> bool:
        """Whether features may be missing; by default not."""
        return False

    @property
    def fills_gaps(self) -> bool:
        """Whether no latent is missing, even if features are; by default not."""
        return False

    @property
    def makes_gaps(self) -> bool:
        """Whether a latent may be missing although no feature is; by default not."""
        return False

    def forward(self, latent: Float[Tensor, "*batch dim"]) -> dist.TorchDistribution:
        """p(o | x), with batch shape ``[...]``."""
        raise NotImplementedError

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item dim"]:
        """The latents of features, in float64, if ``observes_latent``."""
        raise NotImplementedError

    def features(self, latent: Float[Tensor, "item dim"]) -> Float[Tensor, "item feature"]:
        """Inverse of ``latent``, for one row of numbers per item, if ``observes_latent``."""
        raise NotImplementedError

    def units(self, num_features: int) -> tuple[Tensor, Tensor] | None:
        """l and s with ``o_j = l_j + s_j x_j``, if ``observes_latent``."""
        raise NotImplementedError

    def latent_size(self, num_features: int) -> int:
        """The number of coordinates of ``latent``, if ``observes_latent``."""
        return num_features

    def log_volume(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, " item"]:
        """``log p(o) - log p(x)`` of items whose ``latent`` is x, if ``observes_latent``.

        For coordinates that can be inverted this is the logarithm of their Jacobian.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no log_volume, since its latents are not observed"
        )

    def check(self, features: Float[Tensor, "item ..."], first_row: int = 0) -> None:
        """Raise a ``ValueError`` if features lie outside the emission's support.

        ``first_row`` is the row of the data at which ``features`` begin, for the message.
        """

    def start_at_linear(
        self, weight: Float[Tensor, "feature dim"], bias: Float[Tensor, " feature"]
    ) -> bool | None:
        """Start at the linear map ``x -> W x + b`` from latents to features, if possible.

        False, as by default, if it is not; the start then trains ``network_parameters`` instead.
        """
        return False

    def network_parameters(self) -> list[nn.Parameter]:
        """Parameters that a start trains: of the networks, but not scales next to them."""
        return _below(self) or list(self.parameters())


def _below(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of the parts of a module."""
    return [parameter for part in module.children() for parameter in part.parameters()]


def has_gaps(emission: Emission, data: CrowdData | Batch) -> bool:
    """Whether latents may be missing: if features are, or if the emission makes gaps."""
    return data.has_gaps or emission.makes_gaps


class _UserEmission(Emission):
    """A user-defined callable x -> distribution, with the defaults of ``Emission``."""

    def __init__(self, function: Callable[[Tensor], dist.TorchDistribution]) -> None:
        super().__init__()
        self.function = function

    def forward(self, latent: Float[Tensor, "*batch dim"]) -> dist.TorchDistribution:
        return self.function(latent)

    def network_parameters(self) -> list[nn.Parameter]:
        inner = chain.from_iterable(map(_below, self.children()))
        return list(inner) or list(self.parameters())


def as_emission(emission: Emission | Callable[[Tensor], dist.TorchDistribution]) -> Emission:
    """Return an ``Emission`` unchanged, and wrap any other callable ``x -> distribution``.

    Raises
    ------
    ValueError
        If it is not callable, or is a class.
    """
    if isinstance(emission, Emission):
        return emission
    check_object("emission", emission)
    if not callable(emission):
        raise ValueError(
            f"emission is a {type(emission).__name__}, but must be an Emission or a callable that "
            "maps a latent [item, d] to a Pyro distribution over features"
        )
    return _UserEmission(emission)
