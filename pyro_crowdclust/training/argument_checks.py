"""Checks of the arguments model, guide and data of a fit, and that they fit together."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from pyro.infer.autoguide.guides import AutoGuide, AutoLaplaceApproximation
from pyro.poutine.guide import GuideMessenger
from pyro.poutine.runtime import am_i_wrapped
from torch import nn

from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.errors import count, warn
from pyro_crowdclust.protocols import (
    module_of,
    name_of,
    part_of,
    unwrapped,
)


def check_callable(model: object, guide: object) -> None:
    """Raise a ``ValueError`` unless model and guide can each be called with a batch."""
    for name, part in (("model", model), ("guide", guide)):
        if not callable(part):
            raise ValueError(
                f"{name} is a {type(part).__name__}, but must be callable: a Pyro function of a "
                "Batch or an nn.Module with a forward(batch)"
            )
        if isinstance(part, type):
            raise ValueError(
                f"{name} is the class {part.__name__}, but must be an object of it: call "
                f"{part.__name__}(...) with its arguments, such as the model of a guide"
            )
        _check_takes_batch(name, part)
    if isinstance(unwrapped(guide), GuideMessenger):
        raise ValueError(
            f"the guide {name_of(guide)} is a GuideMessenger of Pyro, which runs its own model "
            "instead of the one that is passed: use another autoguide, such as AutoNormal(model)"
        )


def warn_of_laplace(guide: object) -> None:
    """Warn that Pyro's guide for Laplace's approximation is a point while it is trained."""
    if isinstance(unwrapped(guide), AutoLaplaceApproximation):
        warn(
            "AutoLaplaceApproximation trains a point, whose ELBO is a log joint density and no "
            "bound of the evidence. The normal distribution around it is, after the fit, "
            "dataclasses.replace(result, guide=result.guide.laplace_approximation("
            "minibatches.full_batch(data))), with its own elbo and draws; AutoMultivariateNormal "
            "trains one instead"
        )


def _check_takes_batch(role: str, part: Any) -> None:
    """Raise a ``ValueError`` if something callable cannot be called with one argument."""
    inner = unwrapped(part)
    try:
        signature = inspect.signature(inner.forward if isinstance(inner, nn.Module) else inner)
    except (TypeError, ValueError):  # of what is not written in Python
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise ValueError(
            f"the {role} {name_of(part)}{signature} cannot be called with a batch alone: {error}. "
            "Write it as a function of one argument, the Batch, which has the features and answers"
        ) from error


def check_outside_of_handlers() -> None:
    """Raise a ``ValueError`` inside a handler of Pyro, which would act on every run in training.

    All threads share Pyro's stack of handlers, so this is for a block that excludes the others.
    """
    if am_i_wrapped():
        raise ValueError(
            "fit is called inside a handler of Pyro, such as 'with poutine.trace():', which would "
            "act on every run of model and guide in training: call it outside, and put handlers "
            "around model or guide, as in poutine.scale(model, 0.5)"
        )


def check_data(data: object) -> None:
    """Raise a ``ValueError`` unless data are ``CrowdData``."""
    if not isinstance(data, CrowdData):
        raise ValueError(
            f"data is a {type(data).__name__}, but must be a CrowdData: wrap your features and "
            "answers as CrowdData(features, pairs=frame), class labels as CrowdData(None, "
            "labels=frame)"
        )


def check_has_class_labels(data: CrowdData) -> None:
    """Raise a ``ValueError`` unless data are ``CrowdData`` with class labels."""
    check_data(data)
    if data.class_labels is None:
        remedy = "pass CrowdData(None, labels=table)"
        if data.answers is not None:
            remedy += "; to classify pairs as items, give each an id in a column 'item'"
        raise ValueError(
            f"there are no class labels: {remedy}. To start a project, let random workers label "
            "some random items, and name all items by item_ids= and all classes by classes="
        )


def check_same_model(model: object, guide: object) -> None:
    """Raise a ``ValueError`` if the guide was made for another model than the one passed."""
    guided = part_of(model, "model", nn.Module)
    if guided is not None and guided is unwrapped(guide):
        raise ValueError(
            f"the model is a {name_of(model)}, which is a guide, and the guide is its model "
            f"{name_of(guided)}: pass the model first, fit(model, guide, data)"
        )
    held = part_of(guide, "model", nn.Module)
    if held is None or isinstance(unwrapped(guide), AutoGuide):
        return
    root = module_of(model)
    if root is None:
        raise ValueError(
            f"the model is the function {name_of(model)}, but the guide {name_of(guide)} holds a "
            f"{name_of(held)}, and fit would train a copy of this that the function does not use: "
            "pass guide.model, or guide.model in Pyro's handlers, such as "
            "poutine.scale(guide.model, 0.5)"
        )
    if all(held is not part for part in root.modules()):
        raise ValueError(
            "the guide was made for another model than the one that is passed, so that the two "
            f"would not share parts: pass guide.model, or make the {name_of(guide)} with the model"
        )


def check_gaps(model: object, data: CrowdData) -> None:
    """Raise a ``ValueError`` if features are missing and the model cannot deal with that."""
    if data.has_gaps and not getattr(unwrapped(model), "takes_gaps", False):
        raise ValueError(
            f"{count(data.num_missing, 'feature')} of the data are missing (NaN), which "
            f"{name_of(model)} does not integrate out: fill them in, drop the rows or "
            "columns, or use components on the features themselves; a model of your own that "
            "integrates them out needs takes_gaps = True"
        )


def check_likeness(model: object, data: CrowdData) -> None:
    """Raise a ``ValueError`` if pairs have likeness and the model does not use it."""
    if data.likeness is not None and not getattr(unwrapped(model), "takes_likeness", False):
        raise ValueError(
            f"the data have likeness, which {name_of(model)} does not use: leave out likeness, or "
            "leave out the features and fit clusters from answers alone"
        )


def check_needs_processor(guide: object, device: Any) -> None:
    """Raise a ``ValueError`` for another device if the guide says ``needs_processor``."""
    place = torch.device(device or "cpu").type
    if place != "cpu" and getattr(unwrapped(guide), "needs_processor", False):
        raise ValueError(
            f"device is {place!r}, but {name_of(guide)} runs on processors only: leave out device"
        )
