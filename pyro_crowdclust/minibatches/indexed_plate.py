"""Plates of all items or all answers of the data, of which a batch holds some."""

from __future__ import annotations

from typing import Any

import pyro
from jaxtyping import Float, Int
from pyro.poutine.broadcast_messenger import BroadcastMessenger
from pyro.poutine.indep_messenger import CondIndepStackFrame
from torch import Tensor


class IndexedFrame(CondIndepStackFrame):
    """The mark of an ``IndexedPlate`` on the sites inside it."""

    __slots__ = ()


class IndexedPlate(pyro.plate):
    """A plate with a weight for each member, whose parameters are indexed by positions in the data.

    Parameters
    ----------
    name
        Name of the plate.
    size
        How many members the data have.
    positions
        Those of a batch.
    weight
        Factor of their log-densities.
    dim
        Axis of the plate, counted from the right; by default the first free one.

    Raises
    ------
    ValueError
        Where a parameter has neither one row nor one for every member in the data.
    """

    frame: type[IndexedFrame] = IndexedFrame
    members = "members"

    def __init__(
        self,
        name: str,
        size: int,
        positions: Int[Tensor, " member"],
        weight: float | Float[Tensor, " member"],
        dim: int | None = None,
    ) -> None:
        super().__init__(name, size, subsample=positions, dim=dim)
        self._weight = weight

    def _process_message(self, msg: Any) -> None:
        frame = self.frame(self.name, self.dim, self.subsample_size, self.counter, self.size)
        msg["cond_indep_stack"] = (frame, *msg["cond_indep_stack"])
        weight = self._weight
        if isinstance(weight, Tensor) and self.dim is not None:
            weight = weight.reshape(-1, *[1] * (-self.dim - 1))
        msg["scale"] = msg["scale"] * weight
        BroadcastMessenger._pyro_sample(msg)

    def _postprocess_message(self, msg: Any) -> None:
        event_dim = msg["kwargs"].get("event_dim")
        if msg["type"] == "param" and event_dim is not None:
            self._check_rows(msg["name"], msg["value"], self.dim - event_dim)
        number = self.subsample_size
        self.subsample_size = -1  # Pyro indexes only if the subsample is shorter than the plate.
        try:
            super()._postprocess_message(msg)
        finally:
            self.subsample_size = number

    def _check_rows(self, name: str, value: Tensor, dim: int) -> None:
        number = value.shape[dim] if value.dim() >= -dim else 1
        # New items have no answers, and then none of the rows is taken.
        if number not in (1, self.size) and self.subsample_size:
            raise ValueError(
                f"the parameter {name!r} has {number} rows, but must have one for each of the "
                f"{self.size} {self.members}: use minibatches.{type(self).__name__}({self.name!r}, "
                "batch) in the model, too, which is where an autoguide finds out how many "
                f"{self.members} there are"
            )
