"""Principal component analysis, as the initial map of a linear network."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Standard deviation s of the first latent dimension. The prior of a component expects covariances
# near the identity, so this determines how many components fit next to each other.
_LATENT_SCALE = 2.0


def principal_projection(
    features: Float[Tensor, "item feature"], dim: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Projection ``A o + b`` on d components, and its inverse ``W x + mean``; latent 1 has sd s."""
    mean = features.mean(0)
    centered = features - mean
    if len(centered) < centered.shape[1]:
        # The covariance matrix of the features would be large and singular.
        vectors = torch.linalg.svd(centered, full_matrices=False).Vh.mT[:, :dim]
    else:
        _, vectors = torch.linalg.eigh(centered.mT @ centered)
        vectors = vectors.flip(-1)[:, :dim]
    # The sign of an eigenvector is arbitrary; fix it, so that all machines start at the same point.
    largest = vectors.abs().argmax(0)
    vectors = vectors * vectors.gather(0, largest[None]).sign()
    along = centered @ vectors[:, 0]
    spread = along.std() if len(along) > 1 else along.new_zeros(())
    # Constant features have no direction to scale.
    scale = _LATENT_SCALE / torch.where(spread > 1e-12, spread, _LATENT_SCALE)
    missing = dim - vectors.shape[1]
    vectors = nn.functional.pad(vectors, (0, max(missing, 0)))
    weight = scale * vectors.mT
    return weight, -weight @ mean, vectors / scale, mean
