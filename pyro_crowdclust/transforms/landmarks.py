"""Kernel features at landmarks, so that linear scores in them can have any shape."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.files.parts import described

# Added to K, as a share of the variance of a score: nearly equal landmarks make K singular.
_JITTER = 1e-6


@described
class Landmarks(Identity):
    """``x = K^(-1/2) k(o)``, ``k_m(o) = exp(-|f(o) - c_m|^2 / 2 h^2)``, K of the landmarks c.

    A regression on these, ``score_k = <phi_k, x>`` with ``phi ~ N(0, s^2 I)``, has scores of the
    covariance ``s^2 k(o)^T K^-1 k(o')``: the Nystroem approximation with M landmarks (Williams and
    Seeger 2001) of a Gaussian process with a squared exponential kernel of width h. Far from all
    landmarks scores are 0. Classes may have any shape with details larger than h.

    Parameters
    ----------
    inner
        f: ``Standardized`` or ``PowerTransformed``, in whose coordinates distances are measured.
    landmarks
        c, in coordinates of f.
    width
        h, above 0.

    Examples
    --------
    >>> emission = Landmarks(Identity(), torch.tensor([[0.0], [9.0]]), 1.0)
    >>> emission.latent(torch.tensor([[0.0], [9.0], [99.0]])).round(decimals=3).abs()
    tensor([[1., 0.],
            [0., 1.],
            [0., 0.]], dtype=torch.float64)
    """

    mixes_features = True
    inner: Identity
    landmarks: Tensor
    root: Tensor

    def __init__(
        self, inner: Identity, landmarks: Float[Tensor, "landmark coordinate"], width: float
    ) -> None:
        super().__init__()
        if not width > 0:
            raise ValueError(f"width is {width}, but must be above 0")
        self.inner, self.width = inner, width
        self.register_buffer("landmarks", landmarks.double())
        values, vectors = torch.linalg.eigh(self._kernel(self.landmarks))
        # The symmetric root is unique, so it can be recomputed: a file stores only the landmarks.
        roots = vectors / (values.clamp_min(0) + _JITTER).sqrt() @ vectors.mT
        self.register_buffer("root", roots)

    def _kernel(self, points: Float[Tensor, "item coordinate"]) -> Float[Tensor, "item landmark"]:
        return torch.exp(-torch.cdist(points, self.landmarks).square() / (2 * self.width**2))

    @property
    def takes_gaps(self) -> bool:
        """Whether f fills gaps."""
        return self.inner.fills_gaps

    @property
    def fills_gaps(self) -> bool:
        """Whether f fills gaps."""
        return self.inner.fills_gaps

    def latent_size(self, num_features: int) -> int:
        return len(self.landmarks)

    def latent(self, features: Float[Tensor, "item ..."]) -> Float[Tensor, "item landmark"]:
        return self._kernel(self.inner.latent(features)) @ self.root

    def units(self, num_features: int) -> None:
        return None

    def own_features(self, num_features: int) -> list[int]:
        return []
