"""Checks that a guide has the method (verb) that a result is read from."""

from __future__ import annotations

from typing import Any, TypeVar

from pyro_crowdclust.protocols import (
    SupportsConfusion,
    SupportsInfer,
    SupportsMixture,
    SupportsWorkers,
    name_of,
    unwrapped,
)

_Verbs = TypeVar("_Verbs")
# The verbs of guides, and the tables that are read from them.
_READ_FROM = {
    SupportsWorkers: "workers",
    SupportsMixture: "clusters and components",
    SupportsConfusion: "confusion",
}


def with_verb(guide: Any, verbs: type[_Verbs], name: str) -> _Verbs:
    """The guide, if it has the method that a table is read from.

    Raises
    ------
    ValueError
        If it has not; the message names the tables that can be read.
    """
    if not isinstance(guide, verbs):
        if isinstance(unwrapped(guide), verbs):
            raise ValueError(
                f"Pyro handlers around the guide {name_of(guide)} hide its {name}(), which this "
                "table is read from: fit the guide without them"
            )
        sites = ""
        if verbs is SupportsInfer:
            sites = (
                ", or let the model enumerate a discrete site of the items (called 'z' if there "
                "are several)"
            )
        tables = [table for verb, table in _READ_FROM.items() if isinstance(guide, verb)]
        raise ValueError(
            f"the guide {name_of(guide)} has no {name}(), which this table is read "
            f"from; this result has {', '.join(tables) or 'none of these tables'}. A user-defined "
            f"guide can define {name}(){sites}"
        )
    return guide
