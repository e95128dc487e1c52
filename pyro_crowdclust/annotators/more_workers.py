"""Rebuilds annotator models for more workers."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Int
from torch import Tensor

from pyro_crowdclust.files.parts import arguments_of, rebuilt


@runtime_checkable
class SupportsMoreWorkers(Protocol):
    """Annotators with arguments for single workers or with other annotators: for ``update``."""

    def with_workers(self, rows: Int[Tensor, " before"], number: int) -> Any | None:
        """The same for ``number`` workers, the previous ones in ``rows``; None if impossible."""


def with_workers(annotators: Any, rows: Int[Tensor, " worker"], number: int) -> Any | None:
    """The same annotators for ``number`` workers, at their prior; None if they cannot be made.

    Annotators with arguments about single workers, or that contain other annotators, do this
    themselves (``SupportsMoreWorkers``); all others are made from the same arguments.

    Parameters
    ----------
    annotators
        A model of pair answers or of class labels.
    rows
        Codes that the earlier workers have among all workers.
    number
        Number of all workers.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust.annotators import ConfusionMatrices
    >>> annotators = ConfusionMatrices(2, 3, worker_weights=[0.5, 2.0])
    >>> with_workers(annotators, torch.tensor([2, 0]), 3).worker_weights.tolist()
    [2.0, 1.0, 0.5]
    """
    if "constructor_arguments" not in vars(annotators):  # user-defined
        return None
    if isinstance(annotators, SupportsMoreWorkers):
        return annotators.with_workers(rows, number)
    if "num_workers" in arguments_of(annotators):
        return rebuilt(annotators, num_workers=number)
    return None
