"""Emissions by a network, from latents to a distribution of features."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import pyro.distributions as dist
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.emissions.emission import Emission
from pyro_crowdclust.emissions.soft_bernoulli import SoftBernoulli
from pyro_crowdclust.files.parts import described


@runtime_checkable
class SupportsSetLinear(Protocol):
    """A network that can begin as a linear map: for the start at principal components."""

    def set_linear(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"]
    ) -> None:
        """Become ``x -> W x + b``."""


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
        self.register_buffer("location", location)
        self.register_buffer("scale", scale)
        self.initial_scale = initial_scale
        shape = (num_features,) if num_clusters is None else (num_clusters, num_features)
        self.log_scale = nn.Parameter(torch.empty(shape))
        self.draw_parameters()

    def draw_parameters(self) -> None:
        """Set sigma to its value before training; the network draws its own parameters."""
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
