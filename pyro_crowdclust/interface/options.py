"""Arguments that a call hands on to ``fit``: an unknown one is named before anything is fitted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Any

from pyro_crowdclust import fit
from pyro_crowdclust.errors import did_you_mean

# What other libraries name otherwise, and what is no argument of some calls.
_ELSEWHERE = {
    "k": "num_clusters",
    "max_iter": "epochs",
    "n_init": "num_starts",
    "random_state": "seed",
    "verbose": "progress",
}
_CLASSES = "; the classes are those that workers named"
_REMEDIES = {
    "k": _CLASSES,
    "labels": "; class labels by workers go to classify(features, labels), sure ones are 'known'",
    "n_clusters": _CLASSES,
    "n_jobs": "; a fit takes one process",
    "num_clusters": _CLASSES,
}


def check_options(
    call: Callable[..., Any], options: Iterable[str], more: Collection[str] = ()
) -> None:
    """Raise a ``TypeError`` about an argument that neither the call nor ``fit`` has.

    Parameters
    ----------
    call
        What the user called.
    options
        Names of the arguments that it was given beside its own.
    more
        Arguments that it takes beside its own and those of ``fit``.
    """
    known = {*inspect.signature(call).parameters, *inspect.signature(fit).parameters, *more}
    known -= {"options", "model", "guide", "data"}
    for name in options:
        if name not in known:
            meant = _ELSEWHERE.get(name)
            if meant in known:
                hint = f"; did you mean {meant!r}?"
            else:
                hint = _REMEDIES.get(name) or did_you_mean(name, known)
            raise TypeError(f"{call.__name__}() has no argument {name!r}{hint}")
