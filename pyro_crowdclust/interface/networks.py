"""Mirrored networks between features and latents, for data that no plain mixture fits."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.emissions import BernoulliEmission, Emission, NormalEmission
from pyro_crowdclust.networks import GaussianRecognition, SkipMLP

# Features are looked at in this many rows, spread over the data.
_SAMPLE_ROWS = 2000


@dataclass(frozen=True)
class Networks:
    """Two multilayer perceptrons, mirror images of each other, and an emission at their end.

    Subclasses say which emission; a class of your own with the same three verbs works as well.

    Parameters
    ----------
    dim
        Dimension d of the latents.
    hidden
        Sizes of the hidden layers, from the features to the latents.
    """

    dim: int = 8
    hidden: tuple[int, ...] = (128, 128)

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

    def check(self, data: CrowdData) -> None:
        """Raise or warn where the features do not suit the networks."""


@dataclass(frozen=True)
class DeepNormal(Networks):
    """Real features: ``o_j ~ N(f_j(x), sigma_j^2)``.

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

    def emission(self, shape: tuple[int, ...]) -> Emission:
        if len(shape) != 1:
            raise ValueError(
                f"DeepNormal takes one row of numbers per item, but items have the shape "
                f"{list(shape)}: reshape the features to [item, {math.prod(shape)}]"
            )
        return NormalEmission(self.decoder(shape[0]), shape[0])

    def check(self, data: CrowdData) -> None:
        """Warn of features that are far from the unit scale on which networks train."""
        spread = sample_of(data).std(0).max().item()
        if not 0.03 < spread < 30:
            warnings.warn(
                f"the largest standard deviation of a feature is {spread:.3g}; networks train "
                "badly so far from 1: standardize the features first",
                stacklevel=3,
            )


@dataclass(frozen=True)
class DeepBernoulli(Networks):
    """Features in [0, 1], such as pixels: ``o_j ~ Bernoulli(sigmoid(f_j(x)))``."""

    def emission(self, shape: tuple[int, ...]) -> Emission:
        event_shape = None if len(shape) == 1 else shape
        return BernoulliEmission(self.decoder(math.prod(shape)), event_shape)


def sample_of(data: CrowdData) -> torch.Tensor:
    """Features of at most a few thousand items, evenly spaced, as float64 rows."""
    rows = np.unique(np.linspace(0, data.num_items - 1, _SAMPLE_ROWS).round().astype(np.int64))
    return data.rows(torch.from_numpy(rows)).flatten(1).double()
