"""Neural networks between features and latents, for data that no plain mixture fits."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

import torch

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.emissions import BernoulliEmission, Emission, NormalEmission
from pyro_crowdclust.errors import check_whole, show
from pyro_crowdclust.interface.about_data import feature_names
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP

# Networks compute in single precision, where squares of larger numbers are infinite.
_MAX_NUMBER = 1e15


@dataclass(frozen=True)
class Networks:
    """A decoder from latents to features, an emission, and a recognition network of mirrored sizes.

    Subclasses define the emission; a user-defined class with ``dim`` and the methods ``emission``,
    ``recognition`` and ``check`` works as well.

    Parameters
    ----------
    dim
        Dimension d of the latents.
    hidden
        Sizes of the hidden layers, from the features to the latents.

    Raises
    ------
    ValueError
        If sizes are not whole numbers above 0.

    Attributes
    ----------
    standardizes
        Whether the networks are given the means and deviations of the features (``in_units``).
    """

    dim: int = 8
    hidden: tuple[int, ...] = (128, 128)
    standardizes = False

    def __post_init__(self) -> None:
        check_whole("dim", self.dim, least=1)
        if isinstance(self.hidden, int):
            raise ValueError(
                f"hidden is {self.hidden}, but must be a size for every layer: pass "
                f"({self.hidden},) for one layer"
            )
        for size in self.hidden:
            check_whole("hidden", size, least=1)

    def decoder(self, num_features: int) -> SkipMLP:
        """The network from latents to features."""
        return SkipMLP((self.dim, *reversed(self.hidden), num_features))

    def recognition(self, shape: tuple[int, ...]) -> GaussianRecognition:
        """The network from features of this shape to Gaussian potentials on latents."""
        return GaussianRecognition(
            SkipMLP((math.prod(shape), *self.hidden, 2 * self.dim)), self.dim
        )

    def emission(self, shape: tuple[int, ...]) -> Emission:
        """p(o | x) of features of this shape."""
        raise NotImplementedError

    def in_units(self, location: torch.Tensor, scale: torch.Tensor) -> Networks:
        """The networks for features of this mean and standard deviation, if they standardize."""
        return self

    def check(self, data: CrowdData) -> None:
        """Raise or warn if the features do not suit the networks."""


@dataclass(frozen=True)
class DeepNormal(Networks):
    """Real features: ``o_j ~ N(l_j + s_j f_j(x), s_j^2 sigma_j^2)``.

    Parameters
    ----------
    location, scale
        l and s of every feature; None if features are standardized. ``mixture_for`` sets them to
        means and standard deviations.

    Examples
    --------
    >>> DeepNormal(dim=2, hidden=(16,)).emission((3,)).network
    SkipMLP(
      (hidden): Sequential(
        (0): Linear(in_features=2, out_features=16, bias=True)
        (1): ReLU()
      )
      (output): Linear(in_features=16, out_features=3, bias=False)
      (skip): Linear(in_features=2, out_features=3, bias=True)
    )
    """

    location: torch.Tensor | None = field(default=None, compare=False, repr=False)
    scale: torch.Tensor | None = field(default=None, compare=False, repr=False)
    standardizes = True

    def recognition(self, shape: tuple[int, ...]) -> GaussianRecognition:
        sizes = math.prod(shape), *self.hidden, 2 * self.dim
        return GaussianRecognition(
            SkipMLP(sizes), self.dim, location=self.location, scale=self.scale
        )

    def emission(self, shape: tuple[int, ...]) -> Emission:
        if len(shape) != 1:
            raise ValueError(
                f"DeepNormal takes one row of numbers per item, but items have the shape "
                f"{list(shape)}: reshape the features to [item, {math.prod(shape)}]"
            )
        return NormalEmission(
            self.decoder(shape[0]), shape[0], location=self.location, scale=self.scale
        )

    def in_units(self, location: torch.Tensor, scale: torch.Tensor) -> DeepNormal:
        return dataclasses.replace(self, location=location, scale=scale)

    def check(self, data: CrowdData) -> None:
        """Refuse features whose squares are outside the range of single precision."""
        if self.location is None or self.scale is None:
            return
        largest = torch.maximum(self.location.abs(), self.scale)
        odd = (self.scale < 1 / _MAX_NUMBER) | (largest > _MAX_NUMBER)
        if odd.any():
            place = int(odd.int().argmax())
            name = feature_names(data)[place]
            raise ValueError(
                f"feature column {show(name)} has a mean of {float(self.location[place]):.3g} and "
                f"a deviation of {float(self.scale[place]):.3g}, but networks need numbers between "
                f"{1 / _MAX_NUMBER:g} and {_MAX_NUMBER:g}: pass it in another unit"
            )


@dataclass(frozen=True)
class DeepBernoulli(Networks):
    """Features in [0, 1], such as pixels: ``o_j ~ Bernoulli(sigmoid(f_j(x)))``."""

    def emission(self, shape: tuple[int, ...]) -> Emission:
        event_shape = None if len(shape) == 1 else shape
        return BernoulliEmission(self.decoder(math.prod(shape)), event_shape)
