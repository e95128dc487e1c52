"""The same annotators for more workers."""

from __future__ import annotations

from typing import Any

from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.files.parts import arguments_of, rebuilt
from pyro_crowdclust.protocols import SupportsMoreWorkers


def with_workers(annotators: Any, rows: Int[Tensor, " worker"], number: int) -> Any | None:
    """The same annotators of so many workers, at their prior; None where they cannot be made.

    Annotators of which an argument is about single workers, or holds others, make these themselves
    (``SupportsMoreWorkers``); all others are made of the same arguments.

    Parameters
    ----------
    annotators
        Of pairs or of class labels.
    rows
        Where among the workers those of before are.
    number
        Of the workers.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> annotators = ConfusionMatrices(2, 3, worth=[0.5, 2.0])
    >>> with_workers(annotators, torch.tensor([2, 0]), 3).worth.tolist()
    [2.0, 1.0, 0.5]
    """
    if "constructor_arguments" not in vars(annotators):  # of somebody's own
        return None
    if isinstance(annotators, SupportsMoreWorkers):
        return annotators.with_workers(rows, number)
    if "num_workers" in arguments_of(annotators):
        return rebuilt(annotators, num_workers=number)
    return None
