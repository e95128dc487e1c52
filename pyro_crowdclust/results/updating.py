"""Updating a fit with new answers, workers and items: checks, extended parts, and training."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyro
import torch
from jaxtyping import Int
from torch import Tensor, nn

from pyro_crowdclust.annotators import more_workers
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.data.extending import extended
from pyro_crowdclust.data.ids import read_item_ids
from pyro_crowdclust.data.tables import are_among
from pyro_crowdclust.distributions.priors import ConjugatePosterior, ConjugatePrior
from pyro_crowdclust.errors import check_arguments, count, show
from pyro_crowdclust.files.parts import arguments_of, rebuilt
from pyro_crowdclust.protocols import (
    FittedModel,
    Start,
    SupportsTrustedWorkers,
    name_of,
    part_of,
    posteriors_of,
    unwrapped,
)
from pyro_crowdclust.results.agreement import warn_of_contradictions
from pyro_crowdclust.results.first_answers import (
    lacks_annotators,
    with_annotators,
    with_merge_moves,
)
from pyro_crowdclust.results.further_training import (
    FurtherTraining,
    SupportsOwnUpdate,
    update_steps_of,
)
from pyro_crowdclust.results.item_latents import check_new_items
from pyro_crowdclust.results.item_posterior import new_items
from pyro_crowdclust.results.lost_options import check_nothing_lost
from pyro_crowdclust.training.copies import copied
from pyro_crowdclust.training.freezing import freeze_like

# Known labels and links are not answers: a model is made for a fixed number of them.
NO_UPDATE = {
    name: f"; make a new model for CrowdData(..., {name}=...), and fit that"
    for name in ("known", "must_link", "cannot_link")
}


@runtime_checkable
class SupportsMakeRoom(Protocol):
    """A guide that stores values for every item: for ``update``."""

    def make_room(self, num_items: int) -> None:
        """Extend the stored values to ``num_items`` items, with the new ones last."""


class TrainedResult(FittedModel, Protocol):
    """A fit that can be continued."""

    @property
    def train_on(self) -> Callable[..., Any] | None:
        """Function that continues the fit; None if it is not known."""


def updated(
    result: TrainedResult,
    answers: dict[str, Any | None],
    *,
    features: Any | None,
    item_ids: Iterable[Hashable] | None,
    likeness: Any | None,
    options: dict[str, Any],
) -> Any:
    """A fit to the data of another fit and new ones, starting from the parameters of that fit.

    Parameters
    ----------
    result
        The fit, which stays as it is.
    answers
        ``pairs``, ``placements`` and ``labels`` of ``Fitted.update``.
    features, item_ids, likeness
        As for ``Fitted.update``.
    options
        Options of ``fit`` that replace those of the result.

    Raises
    ------
    ValueError
        As ``Fitted.update`` does.
    """
    train_on = _further_training(result, options)
    check_new_answers(result.data, **answers)
    items = identified_items(
        result.data, features, item_ids, lambda features: new_items(result, features)
    )
    if items is not None:
        check_new_items(result, items)
    data = extended(result.data, items=items, likeness=likeness, **answers)
    own = _own_update(result, data, options)
    if own is not None:
        return own
    if data.has_answers and lacks_annotators(result.model, result.guide):
        model, guide = with_annotators(result.model, result.guide, data, result.device)
        train_on = with_merge_moves(train_on)
    else:
        workers = result.data.worker_ids, data.worker_ids
        model, guide = with_new_workers(result.model, result.guide, *workers)
    make_room(model, guide, data.num_items)
    _warn_of_new_contradictions(model, result.data, data)
    kept = {"progress": False, "seed": result.seed, "device": result.device}
    return train_on(model, guide, data, **kept | options)


def _further_training(result: TrainedResult, given: Mapping[str, Any]) -> Callable[..., Any]:
    """What continues the fit; a ``ValueError`` if a file lacks what that takes, unless given."""
    if result.feature_shape is not None and result.data.features is None:
        raise ValueError(
            "this result was loaded, and a file has no features: pass the data of the fit, "
            "load(path, data=data), or update the result of fit() itself"
        )
    if result.train_on is None:
        raise ValueError(
            "this result does not have the options of the fit: update the result of fit() itself, "
            "or fit again to all answers"
        )
    check_nothing_lost(result.train_on, given)
    return result.train_on


def _warn_of_new_contradictions(model: Any, before: CrowdData, after: CrowdData) -> None:
    """Warn where new labels of workers who are always right contradict others of them."""
    annotators = part_of(model, "annotators", SupportsTrustedWorkers)
    if annotators is not None and before.class_labels is not None:
        trusted = np.flatnonzero(annotators.trusted_workers()).tolist()
        first_label = len(before.class_labels)
        warn_of_contradictions(trusted, after, first_label=first_label)


def _own_update(
    result: TrainedResult, data: CrowdData, options: Mapping[str, Any]
) -> FittedModel | None:
    """The update that what continues the result, or a step of it, makes in a way of its own."""
    own: dict[str, Any] = {"progress": False, "device": result.device, **options}
    if own.get("initialize") is None:  # an update goes on, but a choice begins anew
        own.pop("initialize", None)
    every: list[Any] = [result.train_on, *update_steps_of(result.train_on)]
    makers = (one for one in every if isinstance(one, SupportsOwnUpdate))
    found = (maker.own_update(result, data, **own) for maker in makers)
    return next((one for one in found if one is not None), None)


def check_update_options(train_on: Any, arguments: Iterable[str], options: Iterable[str]) -> None:
    """Raise a ``TypeError`` for names that are neither arguments nor options of ``update``."""
    if isinstance(train_on, FurtherTraining):
        known = {*arguments} | train_on.option_names()
        check_arguments("update", options, known, NO_UPDATE)


def check_new_answers(
    data: CrowdData, *, pairs: Any | None, placements: Any | None, labels: Any | None
) -> None:
    """Raise a ``ValueError`` for a type of answers that the model of these data does not have."""
    has_labels = data.class_labels is not None
    has_pairs = data.has_answers or not has_labels
    for name, given, is_modelled in (
        ("labels", labels, has_labels),
        ("pairs", pairs, has_pairs),
        ("placements", placements, has_pairs),
    ):
        if given is not None and not is_modelled:
            if has_labels and {"item", "label"} <= {*getattr(given, "columns", given)}:
                raise ValueError(
                    f"{name} are given, but the table has class labels of items, like the data of "
                    "the fit: pass it as labels="
                )
            raise ValueError(
                f"{name} are given, but the fit used other answers, and has no model of these: "
                "pass answers of the type that the fit had, or make a new fit"
            )


def identified_items(
    data: CrowdData,
    features: Any | None,
    item_ids: Iterable[Hashable] | None,
    read: Callable[[Any], CrowdData],
) -> CrowdData | None:
    """New items with their ids; None if there are neither features nor ids.

    Parameters
    ----------
    data
        The data of the fit.
    features, item_ids
        As for ``Fitted.update``.
    read
        Function that makes items from features, with the columns of the fit.
    """
    if features is not None:
        items = read(features)
        if item_ids is None and isinstance(features, pd.DataFrame):
            item_ids = features.index
        if item_ids is None:
            item_ids = range(data.num_items, data.num_items + items.num_items)
    elif item_ids is None:
        return None
    elif data.features is not None:
        raise ValueError("new items need features, like the items of the fit: pass features")
    else:
        items = data
    ids = read_item_ids(item_ids, None if features is None else items.num_items)
    again = ids[are_among(ids, data.item_ids)]
    if len(again):
        raise ValueError(
            f"{show(again[0])} is an item of the fit already ({len(again)} such ids): leave these "
            "items out, or give them new ids"
        )
    return items.with_parts(item_ids=ids)


def with_new_workers(model: Any, guide: Any, before: pd.Index, after: pd.Index) -> tuple[Any, Any]:
    """Copies of model and guide for more workers: new ones at the prior, others unchanged.

    A site that is frozen stays frozen, so that new workers stay at the prior there.

    Raises
    ------
    ValueError
        If the model has no annotators, or their sites do not all have conjugate posteriors.
    """
    model, guide = copied(model, guide)
    if after.equals(before):
        return model, guide
    annotators: Any = part_of(model, "annotators", nn.Module)
    if annotators is None and hasattr(unwrapped(model), "annotators"):
        raise ValueError(
            "the model has no annotators, since there were no answers when it was made: make and "
            "fit a model with annotators"
        )
    if annotators is None:
        others = after.difference(before, sort=False)
        raise ValueError(
            f"worker {show(others[0])} is new ({count(len(others), 'such worker')}), but only "
            f"annotators of the library can have new workers, and the model {name_of(model)} has "
            "none of these: make model and guide for all workers, and fit them to all answers"
        )
    rows = torch.from_numpy(after.get_indexer(before))
    grown: Any = more_workers.with_workers(annotators, rows, len(after))
    posteriors: Any = posteriors_of(guide)
    is_conjugate = posteriors is not None and all(
        name in posteriors and isinstance(posteriors[name], ConjugatePosterior)
        for name in annotators.priors()
    )
    if grown is None or not is_conjugate:
        raise ValueError(
            f"{type(annotators).__name__} under {type(guide).__name__} cannot go on with new "
            "workers: make a model for all workers, and fit it to all answers"
        )
    for name, prior in grown.priors().items():
        posteriors[name] = _with_rows(posteriors[name], prior, rows, len(after))
    freeze_like(grown, annotators)
    _exchange(model, "annotators", grown)
    return model, guide


def _with_rows(
    old: ConjugatePosterior,
    prior: ConjugatePrior,
    rows: Int[Tensor, " old_worker"],
    num_workers: int,
) -> ConjugatePosterior:
    """The posterior of a site under the prior of more workers, with the old ones in these rows."""
    posterior = ConjugatePosterior(prior)
    before, after = (one.natural_parameters.detach() for one in (old, posterior))
    if prior.plate_size is None or prior.plate_size % num_workers:
        after.copy_(before)
    else:  # a row, or several, for every worker
        by_worker = after.view(num_workers, -1, after.shape[-1])
        by_worker[rows] = before.to(after).view(len(rows), -1, after.shape[-1])
    freeze_like(posterior, old)
    return posterior


def make_room(model: Any, guide: Any, num_items: int) -> None:
    """Enlarge parts that have parameters per item, such as a Markov field; new items come last.

    A guide that draws partitions makes room itself, when it draws the next ones.
    """
    guide_arguments = arguments_of(guide)
    if guide_arguments.get("num_items"):
        guide_arguments["num_items"] = num_items
    if isinstance(guide, SupportsMakeRoom):
        guide.make_room(num_items)
    supervision: Any = part_of(model, "supervision", nn.Module)
    arguments = {} if supervision is None else arguments_of(supervision)
    if arguments.get("num_items", num_items) == num_items:
        return
    grown = rebuilt(supervision, num_items=num_items)
    found = grown.state_dict()
    for name, old in supervision.state_dict().items():
        found[name][: len(old)] = old
    freeze_like(grown, supervision)
    _exchange(model, "supervision", grown)


def stored_start(store: dict[str, Any]) -> Start | None:
    """A start at the values of ``pyro.param`` in functions; None if there are no such values.

    Parameters of modules, which are also in the store of a fit, are copied with the modules.
    """
    learned = {
        name: parameter.detach().clone().requires_grad_()
        for name, parameter in store["params"].items()
        if not isinstance(parameter, nn.Parameter)
    }
    if not learned:
        return None
    constraints = {name: store["constraints"][name] for name in learned}

    def start(model: Any, guide: Any, data: CrowdData, generator: torch.Generator) -> None:
        pyro.get_param_store().set_state({"params": learned, "constraints": constraints})

    return start


def _exchange(model: Any, name: str, part: Any) -> None:
    """Replace a part of the model, and the constructor argument by which a file describes it."""
    setattr(model, name, part)
    arguments = arguments_of(model)
    if name in arguments:
        arguments[name] = part
