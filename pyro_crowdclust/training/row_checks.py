"""A check that rows of parameters belong to the same items and answers in every batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from pyro.poutine import Trace
from pyro.poutine.indep_messenger import CondIndepStackFrame
from torch import Tensor

from pyro_crowdclust.inference.enumeration import trace_of, trace_sites
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.indexed_plate import IndexedFrame


class _Members(NamedTuple):
    """Members of a batch that a plate may hold, and a batch with fewer of them."""

    name: str
    plate: str | None
    number: int
    fewer: Callable[[], Batch]

    def are_in(self, frame: CondIndepStackFrame, model: Callable) -> bool:
        """Whether a plate shrinks with the batch: a plate of as many workers does not."""
        if frame.size != self.number:
            return False
        fewer = self.fewer()
        try:
            with torch.random.fork_rng():
                sites = trace_sites(trace_of(model, fewer)).values()
        # A model that needs answers cannot run without them.
        except (ValueError, RuntimeError, AttributeError, TypeError, IndexError):
            return True
        sizes = {frame.name: frame.size for site in sites for frame in site["cond_indep_stack"]}
        return sizes.get(frame.name) != frame.size


def check_order_of_rows(
    model: Callable, guide_trace: Trace, batch: Batch, in_minibatches: bool
) -> None:
    """Raise a ``ValueError`` if rows of parameters are in the order of a batch.

    Pyro does not index parameters by a subsample that is as long as its plate. Another batch, with
    the items or the answers in another order, would then take the rows for those of others.
    """
    nodes: Any = guide_trace.nodes
    kinds = list(_members(batch, in_minibatches))
    for name, site in nodes.items():
        if site["type"] != "param" or (event_dim := site["kwargs"].get("event_dim")) is None:
            continue
        for frame in site["cond_indep_stack"]:
            axis, shape = (frame.dim or 0) - event_dim, site["value"].shape
            has_rows = len(shape) >= -axis and shape[axis] == frame.size
            is_indexed = frame.size < (frame.full_size or frame.size)
            if not has_rows or is_indexed or isinstance(frame, IndexedFrame):
                continue
            for kind in kinds:
                if kind.are_in(frame, model):
                    raise ValueError(_explained(name, frame.name, kind))


def _members(batch: Batch, in_minibatches: bool) -> Iterator[_Members]:
    """What comes in another order than in the data, or will in another batch."""
    if in_minibatches:  # otherwise every step has all answers, in the order of the data
        yield from _answers(batch)
    number = len(batch.items)
    if in_minibatches or not _in_order(batch.items, batch.num_items):
        yield _Members(
            "items", "ItemPlate", number, lambda: batch.features_of_rows(0, max(number - 1, 1))
        )


def _answers(batch: Batch) -> Iterator[_Members]:
    if batch.num_pairs:
        yield _Members("answers", "AnswerPlate", batch.num_pairs, lambda: _without_last(batch))
    if batch.class_labels is not None:
        labels = len(batch.class_labels)
        yield _Members(
            "class labels", None, labels, lambda: dataclasses.replace(batch, class_labels=None)
        )
    if batch.pages is not None:
        yield _Members(
            "placements", None, len(batch.pages.row), lambda: dataclasses.replace(batch, pages=None)
        )


def _in_order(positions: Int[Tensor, " row"], count: int) -> bool:
    return torch.equal(positions, torch.arange(count).to(positions))


def _without_last(batch: Batch) -> Batch:
    """The batch without its last answer about a pair."""
    names = ("left", "right", "worker", "label", "pair_weight", "answers", "page", "asked")
    rows = {name: value[:-1] for name in names if (value := getattr(batch, name)) is not None}
    return dataclasses.replace(batch, **rows)


def _explained(parameter: str, plate: str, kind: _Members) -> str:
    said = (
        f"the guide keeps the rows of {parameter!r} in the order of this batch, and not by their "
        f"positions in the data, since Pyro does not index parameters in the plate {plate!r} of "
        f"its {kind.name}, which other batches hold in another order: "
    )
    if kind.plate is None:
        return said + "fit with batch_size=None"
    remedy = f"minibatches.{kind.plate}({plate!r}, batch)"
    return said + (
        f"use {remedy} as this plate in the model, and by create_plates=lambda batch: {remedy} of "
        "an autoguide"
    )
