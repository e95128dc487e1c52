"""Emissions p(o | x): how features come from latents.

An emission is an ``nn.Module`` that maps a latent draw x ``[..., item, d]`` to a Pyro
distribution over features with batch shape ``[..., item]``. Any such user-defined callable works,
too; ``as_emission`` gives it defaults for everything else that a model needs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyro.distributions as dist
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import constraints

from pyro_crowdclust.errors import check_object
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.protocols import SupportsSetLinear

if TYPE_CHECKING:
    from pyro_crowdclust.data.crowd_data import CrowdData
    from pyro_crowdclust.minibatches.batch import Batch

# Stands for the feature of a coordinate that depends on several features.
OF_SEVERAL = -1


class SoftBernoulli(dist.TorchDistribution):
    """``log p(o | l) = sum_j o_j log sigmoid(l_j) + (1 - o_j) log sigmoid(-l_j)``, o in [0, 1].

    For o strictly between 0 and 1 it is the expected Bernoulli log-likelihood when every pixel is
    binarized at random with probability o.

    Parameters
    ----------
    logits
        l, shape ``[*batch, *event]``.
    event_dim
        The number of last dimensions over which j runs. Unlike with ``to_event``, only the sum is
        negated, and not every term, which saves time.
    validate_args
        As in torch's distributions.
    """

    arg_constraints = {"logits": constraints.real}

    def __init__(
        self,
        logits: Float[Tensor, "*shape"],
        event_dim: int = 0,
        validate_args: bool | None = None,
    ) -> None:
        self.logits = logits
        split = logits.dim() - event_dim
        super().__init__(logits.shape[:split], logits.shape[split:], validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.unit_interval, self.event_dim)

    @property
    def mean(self) -> Float[Tensor, "*shape"]:
        return self.logits.sigmoid()

    def expand(self, batch_shape: Any, _instance: object = None) -> SoftBernoulli:
        logits = self.logits.expand(torch.Size(batch_shape) + self.event_shape)
        return SoftBernoulli(logits, self.event_dim, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, "*shape"]:
        with torch.no_grad():
            return torch.bernoulli(self.mean.expand(torch.Size(sample_shape) + self.logits.shape))

    def log_prob(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*batch"]:
        logits, value = torch.broadcast_tensors(self.logits, value)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -loss.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else -loss


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


@described
class BernoulliEmission(Emission):
    """``p(o | x) = prod_j Bernoulli(o_j | sigmoid(f_j(x)))``, features in [0, 1].

    Parameters
    ----------
    network
        f, from ``[..., d]`` to ``[..., features]``; a ``SkipNetwork`` starts at PCA, other networks
        are trained to.
    event_shape
        Shape of one item's features, if it is not a vector.

    Other arguments of ``forward``, such as the cluster of every latent, are passed to the network.
    """

    def __init__(self, network: nn.Module, event_shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.network = network
        self.event_shape = event_shape

    def forward(self, latent: Float[Tensor, "*batch dim"], *given: Any) -> dist.TorchDistribution:
        logits = self.network(latent, *given)
        if self.event_shape is not None:
            logits = logits.unflatten(-1, self.event_shape)
        return SoftBernoulli(logits, event_dim=len(self.event_shape or (1,)))

    def check(self, features: Float[Tensor, "item ..."], first_row: int = 0) -> None:
        outside = ((features < 0) | (features > 1)).flatten(1).any(1)
        if outside.any():
            row = int(outside.nonzero()[0])
            values = features[row].flatten()
            worst = float(values[(values - 0.5).abs().argmax()])
            raise ValueError(
                f"a Bernoulli emission needs features in [0, 1], but row {first_row + row} has "
                f"{worst:g}: rescale them (images: divide by 255) or use NormalEmission "
                "(DeepNormal in one call, --model deep-normal on the command line)"
            )

    def start_at_linear(
        self, weight: Float[Tensor, "feature dim"], bias: Float[Tensor, " feature"]
    ) -> bool:
        # sigmoid(logit(b) + W x / (b (1 - b))) equals b + W x to first order; without the clamp
        # pixels that are nearly always off would get huge slopes.
        if not isinstance(self.network, SupportsSetLinear):
            return False
        mean = bias.clamp(0.02, 0.98)
        slope = 1 / (mean * (1 - mean))
        self.network.set_linear(slope.clamp(max=8.0).unsqueeze(-1) * weight, torch.logit(mean))
        return True


@described
class NormalEmission(Emission):
    """``p(o | x) = prod_j N(o_j | f_j(x), sigma_j^2)`` with learned standard deviations.

    Parameters
    ----------
    network
        f, from ``[..., d]`` to ``[..., features]``; a ``SkipNetwork`` starts at PCA, other networks
        are trained to.
    num_features
        Number of features of an item.
    initial_scale
        sigma before training.
    location, scale
        For every feature: f and sigma are in units of ``(o - location) / scale``. None: those of o.
    num_clusters
        If features depend on the cluster: the number of clusters, each with another sigma.
        ``forward`` then has ``Rows`` as a further argument, which is passed to the network.
    """

    def __init__(
        self,
        network: nn.Module,
        num_features: int,
        initial_scale: float = 0.5,
        num_clusters: int | None = None,
        location: Float[Tensor, " feature"] | None = None,
        scale: Float[Tensor, " feature"] | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.location: Tensor | None
        self.scale: Tensor | None
        self.register_buffer("location", None if location is None else location.clone())
        self.register_buffer("scale", None if scale is None else scale.clone())
        self.initial_scale = initial_scale
        shape = (num_features,) if num_clusters is None else (num_clusters, num_features)
        self.log_scale = nn.Parameter(torch.empty(shape))
        self.draw_parameters()

    def draw_parameters(self) -> None:
        nn.init.constant_(self.log_scale, torch.tensor(self.initial_scale).log().item())

    def forward(self, latent: Float[Tensor, "*batch dim"], *given: Any) -> dist.TorchDistribution:
        # Without this minimum the density of a constant feature would go to infinity.
        scale = self.log_scale.exp() + 1e-3
        if scale.dim() > 1:
            (rows,) = given
            scale = scale.index_select(0, rows.cluster)
        mean = self.network(latent, *given)
        if self.location is not None and self.scale is not None:
            own = self.scale.to(mean)
            mean, scale = self.location.to(mean) + own * mean, own * scale
        return dist.Normal(mean, scale).to_event(1)

    def start_at_linear(
        self, weight: Float[Tensor, "feature dim"], bias: Float[Tensor, " feature"]
    ) -> bool:
        if not isinstance(self.network, SupportsSetLinear):
            return False
        self.network.set_linear(weight, bias)
        return True


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

    def completed(
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
