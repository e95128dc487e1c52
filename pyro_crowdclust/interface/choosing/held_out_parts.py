"""What holds of all that is kept out of a fit, whatever it is."""

from __future__ import annotations

from jaxtyping import Bool
from torch import Tensor

# Nothing that happened was less probable.
MIN_PROBABILITY = 1e-6


def has_fewer(number: int, *parts: Bool[Tensor, " said"]) -> bool:
    """Whether one of the parts, as what was said is in it or not, has fewer than so many.

    Examples
    --------
    >>> import torch
    >>> out = torch.tensor([True, False, False])
    >>> has_fewer(1, out, ~out), has_fewer(2, out, ~out)
    (False, True)
    """
    return any(int(part.sum()) < number for part in parts)
