"""Plates without subsampling."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from pyro.distributions.torch_distribution import TorchDistributionMixin
from pyro.poutine.broadcast_messenger import BroadcastMessenger
from pyro.poutine.indep_messenger import CondIndepStackFrame, IndepMessenger
from pyro.poutine.plate_messenger import PlateMessenger
from torch import Tensor


class FullPlate(PlateMessenger):
    """``pyro.plate(name, size, dim=-1)`` without the site that chooses a subsample.

    A batch is chosen before Pyro sees it, so a plate does not subsample. ``pyro.plate`` would still
    run a site for the subsample: eight of them in a step, which cost as much as eight other sites.

    Parameters
    ----------
    name
        Name of the plate.
    size
        Number of independent variables in each of its sites.
    scale
        Factor of their log-densities, as with ``poutine.scale``; none by default.

    Examples
    --------
    >>> import pyro
    >>> with FullPlate("items", 3):
    ...     x = pyro.sample("x", pyro.distributions.Normal(0.0, 1.0))
    >>> x.shape
    torch.Size([3])
    """

    def __init__(
        self, name: str, size: int, scale: float | Float[Tensor, " size"] | None = None
    ) -> None:
        IndepMessenger.__init__(self, name, size, -1)
        self.subsample_size = size
        self.scale = scale

    def _process_message(self, msg: Any) -> None:
        frame = CondIndepStackFrame(self.name, self.dim, self.size, self.counter, self.size)
        msg["cond_indep_stack"] = (frame, *msg["cond_indep_stack"])
        if self.scale is not None:
            outer = msg["scale"]
            # Sites of a plate share one tensor, so that a bound can group sites by their scale.
            is_one = not isinstance(outer, Tensor) and outer == 1
            msg["scale"] = self.scale if is_one else outer * self.scale
        fn = msg["fn"]
        if not isinstance(fn, TorchDistributionMixin) or fn.batch_shape != (self.size,):
            BroadcastMessenger._pyro_sample(msg)
