"""What a user has changed about a search space, in plain values that files can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pyro_crowdclust.interface.choosing.search_space import SearchSpace

AnySpace = TypeVar("AnySpace", bound=SearchSpace)


def changes_of(space: SearchSpace) -> dict[str, Any]:
    """What differs from the space as it was made for its data; forms are given by their names.

    Changes of a space without answers, as far as there is none beside it, are those of the space
    that is made beside one with answers later.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np
    >>> from pyro_crowdclust import CrowdData
    >>> from pyro_crowdclust.interface import choice_for
    >>> choice = choice_for(CrowdData(np.eye(20)))
    >>> changes_of(choice)
    {}
    >>> changes_of(dataclasses.replace(choice, keeps_near_copies=True))
    {'keeps_near_copies': True, 'by_features': {'keeps_near_copies': True}}
    """
    made = space.made
    if made is None:
        return {}
    found: dict[str, Any] = {}
    names = [form.name for form in space.forms]
    if names != [form.name for form in made.forms]:
        found["forms"] = names
    of_sizes = {"sizes": [*map(int, space.sizes)], "first_size": int(space.first_size)}
    if of_sizes != {"sizes": [*made.sizes], "first_size": made.first_size}:
        found |= of_sizes
    for name in ("may_be_records", "keeps_near_copies"):
        if getattr(space, name) != getattr(made, name):
            found[name] = getattr(space, name)
    beside: dict[str, Any] | None = dict(found)
    if made.by_features is not None:
        beside = None if space.by_features is None else changes_of(space.by_features)
    return found if beside == {} else found | {"by_features": beside}


def with_changes(space: AnySpace, changes: Mapping[str, Any]) -> AnySpace:
    """A search space for other data with the same changes.

    Forms that the space does not have are left out; if it has none of them, all of its own stay.

    Parameters
    ----------
    space
        As it was made for the other data.
    changes
        As ``changes_of`` returns them.
    """
    own = dict(changes)
    named = {form.name: form for form in space.forms}
    forms = [named[name] for name in own.pop("forms", ()) if name in named]
    if forms:
        own["forms"] = forms
    beside = own.pop("by_features", {})
    if space.by_features is not None:
        own["by_features"] = None if beside is None else with_changes(space.by_features, beside)
    return replace(space, **own)
