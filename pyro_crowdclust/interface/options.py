"""Arguments that a call hands on to ``fit``: an unknown one is named before anything is fitted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from pyro_crowdclust.errors import check_arguments
from pyro_crowdclust.fitting import TrainingOptions

_CLASSES = "; the classes are those that workers named"
_OF_EXPERT = (
    "; labels of an expert are rows of labels of a worker of their own, who is always right if "
    "classify or infer_classes is told to trust them (trusted=)"
)
_REMEDIES = {
    "k": _CLASSES,
    "known": _OF_EXPERT,
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
    known = {*inspect.signature(call).parameters, *TrainingOptions.option_names(), *more}
    check_arguments(call.__name__, options, known - {"options", "data"}, _REMEDIES)


def check_no_checkpoint(options: Mapping[str, Any]) -> None:
    """Raise a ``ValueError`` about a checkpoint, where several fits are compared.

    All would write the one file, and none could go on from it.
    """
    if options.get("checkpoint") is not None:
        raise ValueError(
            "checkpoint is the file of one fit, but this call compares several: leave it out, and "
            "keep what is found by result.save(path); or say what to fit, as by components= of "
            "cluster, or one number of communities for infer_classes"
        )
