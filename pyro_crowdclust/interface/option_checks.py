"""Checks of arguments that a call hands on to ``fit``, before anything is fitted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyro_crowdclust.errors import check_arguments
from pyro_crowdclust.fitting import TrainingOptions

_CLASSES = "; the classes are those that workers named"
_OF_EXPERT = (
    "; pass labels of an expert as labels of one more worker, and name this worker as trusted= of "
    "classify or infer_classes"
)
_REMEDIES = {
    "k": _CLASSES,
    "known": _OF_EXPERT,
    "labels": "; pass class labels by workers to classify(features, labels), or certain ones as "
    "known=",
    "n_clusters": _CLASSES,
    "n_jobs": "; a fit runs in one process",
    "num_clusters": _CLASSES,
}


def check_options(
    call: Callable[..., Any], options: Iterable[str], more: Collection[str] = ()
) -> None:
    """Raise a ``TypeError`` about an argument that neither the call nor ``fit`` has.

    Parameters
    ----------
    call
        The function that the user called.
    options
        Names of the keyword arguments that it was given in addition to its own.
    more
        Arguments that it takes in addition to its own and those of ``fit``.
    """
    known = {*inspect.signature(call).parameters, *TrainingOptions.option_names(), *more}
    check_arguments(call.__name__, options, known - {"options", "data"}, _REMEDIES)


def check_no_checkpoint(options: Mapping[str, Any]) -> None:
    """Raise a ``ValueError`` for a checkpoint where several fits are compared.

    All fits would write to the same file, and none could be resumed from it.
    """
    if options.get("checkpoint") is not None:
        raise ValueError(
            "checkpoint is a file for one fit, but this call compares several: leave it out, and "
            "save the result by result.save(path), or fix the model, by components= of cluster or "
            "one number of communities in infer_classes"
        )
