"""What goes on with a fit, and may be named in its file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import FittedModel


class FurtherTraining(ABC):
    """``fit`` with the options of a call, for ``Fitted.update``.

    Of the parts that a file can name only these are ever called with model and guide: deriving from
    this class is how one says that it trains.
    """

    @classmethod
    @abstractmethod
    def option_names(cls) -> frozenset[str]:
        """What may be changed."""

    @abstractmethod
    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> FittedModel:
        """Fit with these options, but for changes."""
