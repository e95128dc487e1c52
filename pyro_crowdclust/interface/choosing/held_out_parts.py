"""Parts that all splits share, whatever they hold out."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor

# Lower limit of predicted probabilities.
MIN_PROBABILITY = 1e-6


def has_fewer(number: int, *parts: Bool[Tensor, " said"]) -> bool:
    """Whether one of the parts, given as masks, has fewer members than ``number``.

    Examples
    --------
    >>> import torch
    >>> out = torch.tensor([True, False, False])
    >>> has_fewer(1, out, ~out), has_fewer(2, out, ~out)
    (False, True)
    """
    return any(int(part.sum()) < number for part in parts)
