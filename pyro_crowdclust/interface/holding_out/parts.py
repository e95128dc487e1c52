"""Parts that all splits share, whatever they hold out."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
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


def some(number: int, share: float, generator: torch.Generator) -> Bool[Tensor, " said"]:
    """Which of so many things are held out: a share of them, rounded to whole ones.

    How many does not depend on the draw, so that there are enough in all draws or in none.

    Examples
    --------
    >>> some(10, 0.25, torch.Generator().manual_seed(0)).sum()
    tensor(2)
    """
    out = torch.zeros(number, dtype=torch.bool)
    out[torch.randperm(number, generator=generator)[: round(share * number)]] = True
    return out


def folds(
    group: Int[Tensor, " said"], number: int, generator: torch.Generator
) -> Int[Tensor, " said"]:
    """In which of so many parts each thing that was said is held out: with all of its group.

    Parameters
    ----------
    group
        The groups, numbered from 0.
    number
        Number of parts, which have about equally many groups.
    generator
        Draws the parts.

    Examples
    --------
    >>> folds(torch.tensor([0, 0, 1, 2]), 2, torch.Generator().manual_seed(0)).tolist()
    [0, 0, 0, 1]
    """
    return torch.randperm(int(group.max()) + 1, generator=generator)[group] % number
