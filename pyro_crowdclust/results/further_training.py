"""Base classes of what continues a fit, and that its file may name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.protocols import FittedModel

Step = TypeVar("Step", bound="UpdateStep")


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


class UpdateStep:
    """What an update does besides ``fit``: something before it, or with its result.

    Attributes
    ----------
    rates_workers
        Whether the result has rates of workers that do not follow from its own clusters.
    """

    rates_workers: ClassVar[bool] = False

    def before(
        self, model: Any, guide: Any, data: CrowdData, changes: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """The model and the guide that are trained, of those that the result has."""
        return model, guide

    def after(self, result: Any) -> Any:
        """The result of the update, of what the training returned; it has this step again."""
        return result


@runtime_checkable
class SupportsOwnUpdate(Protocol):
    """What continues a fit, or a step of it, that may make an update in a way of its own.

    A step may choose the model anew, for instance.
    """

    def own_update(
        self, result: FittedModel, data: CrowdData, **changes: Any
    ) -> FittedModel | None:
        """A fit to the data of the result and new ones; None to continue as usual."""


def update_steps_of(train_on: Any) -> Sequence[UpdateStep]:
    """The steps of a function that continues a fit; none if it cannot have any."""
    return getattr(train_on, "steps", ())


def step_of(result: Any, kind: type[Step]) -> Step | None:
    """The step of this type that updates of a result take; None if they do not."""
    return next((one for one in update_steps_of(result.train_on) if isinstance(one, kind)), None)


def with_step(result: Any, step: UpdateStep) -> Any:
    """The result, whose updates take a step, in place of one of the same type if they take one.

    A result whose updates cannot take steps is returned as it is.
    """
    training = result.train_on
    if not hasattr(training, "steps"):
        return result
    others = [one for one in training.steps if type(one) is not type(step)]
    kept = [step if type(one) is type(step) else one for one in training.steps]
    steps = (*kept, step) if len(others) == len(kept) else kept
    return replace(result, train_on=replace(training, steps=tuple(steps)))
