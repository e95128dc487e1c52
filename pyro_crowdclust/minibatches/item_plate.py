"""The plate of the items of a batch, for models and guides in plain Pyro."""

from __future__ import annotations

from typing import Any

import pyro
from pyro.poutine.broadcast_messenger import BroadcastMessenger
from pyro.poutine.indep_messenger import CondIndepStackFrame
from torch import Tensor

from pyro_crowdclust.minibatches.batch import Batch


class ItemFrame(CondIndepStackFrame):
    """The mark of an ``ItemPlate`` on the sites inside it."""

    __slots__ = ()


class ItemPlate(pyro.plate):
    """The plate of all items of the data, of which a batch holds some, with their weights.

    It scales sites by ``batch.item_scale``. Parameters with a row for every item, such as those of
    an ``AutoNormal`` or of ``pyro.param(..., event_dim=...)``, are indexed by ``batch.items``: the
    first row belongs to the first item of the data, whatever the order of the items in a batch.

    ``pyro.plate(name, batch.num_items, subsample=batch.items)`` differs in two ways. It gives all
    items the same weight, and it does not index parameters in a batch of all items, although items
    with answers come first there.

    Parameters
    ----------
    name
        Name of the plate.
    batch
        The batch.
    dim
        Axis of the items, counted from the right; by default the first free one.

    Raises
    ------
    ValueError
        Where a parameter has neither one row nor one for every item of the data.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.minibatches import full_batch
    >>> pairs = {"left": [3], "right": [1], "worker": ["a"], "label": [1]}
    >>> batch = full_batch(CrowdData(torch.eye(4), pairs))
    >>> with pyro.get_param_store().scope(), ItemPlate("items", batch):
    ...     rows = pyro.param("rows", torch.arange(4.0), event_dim=0)
    >>> batch.items.tolist(), rows.tolist()
    ([1, 3, 0, 2], [1.0, 3.0, 0.0, 2.0])

    An autoguide makes its plates anew for every batch:

    >>> from pyro.infer.autoguide import AutoNormal
    >>> def model(batch):
    ...     with ItemPlate("items", batch):
    ...         height = pyro.sample("height", pyro.distributions.Normal(0.0, 1.0))
    >>> guide = AutoNormal(model, create_plates=lambda batch: ItemPlate("items", batch))
    """

    def __init__(self, name: str, batch: Batch, dim: int | None = None) -> None:
        super().__init__(name, batch.num_items, subsample=batch.items, dim=dim)
        self._weight = batch.item_scale

    def _process_message(self, msg: Any) -> None:
        frame = ItemFrame(self.name, self.dim, self.subsample_size, self.counter, self.size)
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
        if number not in (1, self.size):
            raise ValueError(
                f"the parameter {name!r} has {number} rows, but must have one for each of the "
                f"{self.size} items: use minibatches.ItemPlate({self.name!r}, batch) in the model, "
                "too, which is where an autoguide finds out how many items there are"
            )
