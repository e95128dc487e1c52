"""The verbs of guides from which results are read."""

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
# What guides have from which tables are read, and the tables.
_READ_FROM = {
    SupportsWorkers: "workers",
    SupportsMixture: "clusters and components",
    SupportsConfusion: "confusion",
}


def with_verb(guide: Any, verbs: type[_Verbs], name: str) -> _Verbs:
    """The guide, if it has the verb that a table is read from.

    Raises
    ------
    ValueError
        If it has not, with the tables that there are.
    """
    if not isinstance(guide, verbs):
        if isinstance(unwrapped(guide), verbs):
            raise ValueError(
                f"handlers of Pyro around the guide {name_of(guide)} hide its {name}(), which this "
                "table is read from: fit it without them"
            )
        sites = ""
        if verbs is SupportsInfer:
            sites = ", or the model enumerate a site of the items, called 'z' if there are others"
        there = [said for verb, said in _READ_FROM.items() if isinstance(guide, verb)]
        raise ValueError(
            f"the guide {name_of(guide)} has no {name}(), which this table is read "
            f"from; this result has {', '.join(there) or 'none of these tables'}, and a guide "
            f"of your own can define it{sites}"
        )
    return guide
