"""What an update of an average does: fit the other model again, and average anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyro_crowdclust import Fitted
from pyro_crowdclust.results import UpdateStep, with_step
from pyro_crowdclust.training import is_interrupted


@dataclass(frozen=True)
class AverageStep(UpdateStep):
    """Fits another model, too; the result is averaged with it.

    Attributes
    ----------
    options
        Options of ``fit`` for the other model.
    """

    options: Mapping[str, Any]

    def averaged(self, result: Fitted, options: dict[str, Any]) -> Fitted:
        """The average of a result and of the other model, fitted with these options."""
        raise NotImplementedError

    def after(self, result: Fitted) -> Fitted:
        """The average, unless Ctrl-C has ended the fit itself."""
        if not is_interrupted(result):
            run = {"seed": result.seed, "device": result.device, "dtype": result.dtype}
            result = self.averaged(result, {**self.options, **run})
        return with_step(result, self)
