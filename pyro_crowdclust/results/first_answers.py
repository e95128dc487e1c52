"""The first answers of a mixture that was fitted without any: annotators are added to the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from pyro_crowdclust.annotators.suited import annotators_on_pages
from pyro_crowdclust.callbacks.merge_moves import MergeMoves
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.files.parts import arguments_of, rebuilt
from pyro_crowdclust.inference.workers import can_refit, refit_workers
from pyro_crowdclust.minibatches.making import answered_batch
from pyro_crowdclust.training.copies import copied
from pyro_crowdclust.training.freezing import freeze_like


def lacks_annotators(model: Any, guide: Any) -> bool:
    """Whether annotators can be added: a mixture of the library without any, and its guide."""
    takes_some = getattr(model, "annotators", 0) is None and bool(arguments_of(model))
    return takes_some and hasattr(guide, "for_model")


@torch.no_grad()
def with_annotators(model: Any, guide: Any, data: CrowdData, device: Any) -> tuple[Any, Any]:
    """Copies of a mixture and its guide, with annotators who suit the answers of the data.

    Everything else is as it was. The rates of the workers are those that go with the clusters,
    which also use the answers (``refit_workers``); workers who lapse begin at their prior.

    Parameters
    ----------
    model, guide
        As of a fit without answers (``lacks_annotators``).
    data
        The items of the fit, and answers.
    device
        Where model and guide are.
    """
    before: Any
    model, before = copied(model, guide)
    annotators = annotators_on_pages(data)
    changes: dict[str, Any] = {"annotators": annotators}
    if "sum_out_assignments" in arguments_of(model):
        changes["sum_out_assignments"] = None
    model = rebuilt(model, **changes)
    guide = before.for_model(model)
    freeze_like(guide, before)
    for part in (model, guide):
        part.to(device)
    answered = answered_batch(data)
    is_sorted = data.placements is not None
    if answered is not None and (is_sorted or can_refit(annotators)):
        refit_workers(guide, annotators, answered.to(device, torch.float64))
    return model, guide


def with_merge_moves(train_on: Any) -> Any:
    """The same training, with the moves of fits with answers."""
    callbacks = getattr(train_on, "callbacks", None)
    if not isinstance(callbacks, Sequence):  # no file has those of a user
        return train_on
    if any(isinstance(one, MergeMoves) for one in callbacks):
        return train_on
    return replace(train_on, callbacks=(MergeMoves(), *callbacks))
