"""Every exported part has a row in the table of its kind, or a reason why it has none."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType

from pyro_crowdclust import annotators, callbacks, protocols, starts
from pyro_crowdclust.training import Callback

from .registries import (
    CALLBACKS,
    CLASS_ANNOTATORS,
    CLASSES,
    NOT_HERE,
    PAIR_ANNOTATORS,
    STARTS,
    WORKERS,
)


def own_methods(contract: type) -> set[str]:
    """The methods that a contract itself asks for, without those of the contracts it includes."""
    return {name for name, one in vars(contract).items() if inspect.isfunction(one)} - {
        "__init__",
        "__subclasshook__",
    }


def keeps(part: type, contract: type) -> bool:
    """Whether a class has all methods of a contract, with the same number of arguments."""

    def arity(owner: type, name: str) -> int:
        return len(inspect.signature(getattr(owner, name)).parameters)

    # Every class can be called, so a method is looked for in the classes themselves.
    own = {name for base in part.__mro__ for name in vars(base)}
    return all(
        name in own and arity(part, name) == arity(contract, name) for name in own_methods(contract)
    )


def exported(room: ModuleType, contract: type) -> set[str]:
    """Names of the concrete classes that a room exports and that keep a contract."""
    parts = {name: getattr(room, name) for name in room.__all__}
    return {
        name
        for name, part in parts.items()
        if inspect.isclass(part) and not inspect.isabstract(part) and keeps(part, contract)
    }


def of_the_library(parts: Iterable[object], room: ModuleType) -> set[str]:
    """Names of the classes of parts, those of the tests and functions left out."""
    return {type(part).__name__ for part in parts} & {*room.__all__}


def test_every_exported_part_has_a_row_or_a_reason():
    of_pairs = [make(WORKERS) for make in PAIR_ANNOTATORS.values()]
    of_classes = [make(WORKERS, CLASSES) for make in CLASS_ANNOTATORS.values()]
    of_callbacks = [make() for _, make in CALLBACKS.values()]
    kinds = [
        (annotators, protocols.PairAnnotators, of_pairs),
        (annotators, protocols.ClassAnnotators, of_classes),
        (callbacks, Callback, of_callbacks),
        (starts, protocols.Start, STARTS.values()),
    ]
    found, rows = set(), set()
    for room, contract, parts in kinds:
        of_room = exported(room, contract)
        assert len(of_room) > 2, contract
        found |= of_room
        rows |= of_the_library(parts, room)
    assert found - rows == NOT_HERE.keys()
    assert rows <= found
