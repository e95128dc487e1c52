"""Base class for functions that continue a fit, and that its file may name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import FittedModel


class FurtherTraining(ABC):
    """``fit`` with the options of a call, for ``Fitted.update``.

    Of the classes that a file can name, only those derived from this one are called with a model
    and a guide.
    """

    @classmethod
    @abstractmethod
    def option_names(cls) -> frozenset[str]:
        """Names of the options that may be changed."""

    @abstractmethod
    def __call__(self, model: Any, guide: Any, data: CrowdData, **changes: Any) -> FittedModel:
        """Fit with these options, except for changes."""


@runtime_checkable
class SupportsFirstAnswers(Protocol):
    """Further training of a fit without answers that does more than to add annotators."""

    def from_first_answers(self, data: CrowdData, **changes: Any) -> FittedModel:
        """A fit to the items of the fit and their first answers."""
