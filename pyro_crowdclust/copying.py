"""Copies of a user's model and guide, so that a fit leaves the originals as they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyro.infer.autoguide.guides import AutoGuide
from torch import nn


def copied(model: Callable[..., Any], guide: Callable[..., Any]) -> tuple[Callable, Callable]:
    """Copies of both that share nothing with the originals that training changes.

    Copying makes a Pyro autoguide forget its model, and the list that it is part of, in the
    original and in the copy alike; here both remember.
    """
    autoguides = _autoguides(guide)
    known = [(autoguide._model, autoguide.master) for autoguide in autoguides]
    # One copy of all of it, so that the copied guide holds the copied model.
    models = [of_autoguide for of_autoguide, _ in known]
    new_model, new_guide, new_models = copy.deepcopy((model, guide, models))
    for autoguide, (of_autoguide, master) in zip(autoguides, known, strict=True):
        autoguide._model, autoguide.master = of_autoguide, master
    for autoguide, of_autoguide in zip(_autoguides(new_guide), new_models, strict=True):
        autoguide._model = of_autoguide
    return new_model, new_guide


def _autoguides(guide: Callable[..., Any]) -> list[AutoGuide]:
    if not isinstance(guide, nn.Module):
        return []
    return [module for module in guide.modules() if isinstance(module, AutoGuide)]
