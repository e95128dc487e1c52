"""Options of a fit that a file cannot hold: what stands for them there, and what an update says."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyro_crowdclust.files.description import NotDescribable, describe
from pyro_crowdclust.results.further_training import FurtherTraining, UpdateStep


@dataclass(frozen=True)
class LostOption:
    """Placeholder of an option that a file cannot hold.

    Attributes
    ----------
    name
        Name of the option.
    reason
        Why a file cannot hold it; says its place in the options.
    """

    name: str
    reason: str


def without_own_parts(value: Any, name: str = "") -> Any:
    """What continues a fit, with a ``LostOption`` for each option that cannot be described.

    Examples
    --------
    >>> options = without_own_parts({"epochs": 3, "step_size": lambda step: 0.5})
    >>> options["epochs"], options["step_size"].name
    (3, 'step_size')
    """
    try:
        describe({name: value}, {})
    except NotDescribable as error:
        if isinstance(value, FurtherTraining | UpdateStep) and dataclasses.is_dataclass(value):
            own = [field.name for field in dataclasses.fields(value)]
            parts = {one: without_own_parts(getattr(value, one), one) for one in own}
            return dataclasses.replace(value, **parts)
        if isinstance(value, Mapping):
            return {one: without_own_parts(part, one) for one, part in value.items()}
        if _holds_training(value):
            return [without_own_parts(part, name) for part in value]
        return LostOption(name, str(error))
    return value


def check_nothing_lost(train_on: Any, given: Collection[str]) -> None:
    """Raise a ``ValueError`` about options that a file does not have and that are not given."""
    lost = {one.name: one.reason for one in _lost(train_on) if one.name not in given}
    if lost:
        remedy = ", ".join(f"{name}=..." for name in lost)
        raise ValueError(
            "this result was loaded, and its file does not have all options of the fit "
            f"({'; '.join(lost.values())}): pass them again, update(..., {remedy}), or update the "
            "result of fit() itself"
        )


def _lost(value: Any) -> Iterator[LostOption]:
    """The placeholders in what continues a fit."""
    if isinstance(value, LostOption):
        yield value
    elif isinstance(value, FurtherTraining | UpdateStep):
        yield from _lost(vars(value))
    elif isinstance(value, Mapping):
        yield from (lost for part in value.values() for lost in _lost(part))
    elif _holds_training(value):
        yield from (lost for part in value for lost in _lost(part))


def _holds_training(value: Any) -> bool:
    """Whether these are steps of an update, or functions that continue fits."""
    kinds = FurtherTraining | UpdateStep
    return isinstance(value, list | tuple) and any(isinstance(part, kinds) for part in value)
