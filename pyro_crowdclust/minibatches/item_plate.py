"""The plate of the items of a batch, for models and guides in plain Pyro."""

from __future__ import annotations

from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.indexed_plate import IndexedFrame, IndexedPlate


class ItemFrame(IndexedFrame):
    """The mark of an ``ItemPlate`` on the sites inside it."""

    __slots__ = ()


class ItemPlate(IndexedPlate):
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
    >>> import pyro, torch
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

    frame = ItemFrame
    members = "items"

    def __init__(self, name: str, batch: Batch, dim: int | None = None) -> None:
        super().__init__(name, batch.num_items, batch.items, batch.item_scale, dim)
