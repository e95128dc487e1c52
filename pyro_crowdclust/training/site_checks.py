"""Checks of the sites of a model and its guide before training."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import pyro
import torch
from pyro import poutine
from pyro.distributions import Unit
from pyro.poutine import Trace
from torch import nn

from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.errors import first_line, place_in_users_code, warn
from pyro_crowdclust.inference.empty_plates import explained_empty_plates
from pyro_crowdclust.inference.enumeration import (
    check_drawn_items,
    check_partly_observed,
    is_deterministic,
    plate_nesting,
    trace_sites,
)
from pyro_crowdclust.inference.shapes import explained_shapes
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.indexed_plate import IndexedFrame
from pyro_crowdclust.protocols import roots_of
from pyro_crowdclust.training.answer_checks import by_hand, check_dependence
from pyro_crowdclust.training.copies import copied
from pyro_crowdclust.training.module_checks import called_modules, check_trained
from pyro_crowdclust.training.row_checks import check_order_of_rows


class Sites(NamedTuple):
    """Facts about the sites of model and guide on which the choice of a bound depends.

    Attributes
    ----------
    enumerates
        Whether any site is enumerated.
    max_plate_nesting
        The number of levels of plates.
    of_model_alone
        Sites that the model enumerates and the guide does not have.
    """

    enumerates: bool
    max_plate_nesting: int
    of_model_alone: tuple[str, ...]


def traces_of(model: Callable, guide: Callable, batch: Batch) -> tuple[Trace, Trace]:
    """Traces of a run of the guide and of the model with its values, without enumeration."""
    guide_trace = _trace("guide", guide, batch)
    return _trace("model", poutine.replay(model, trace=guide_trace), batch), guide_trace


def _trace(role: str, part: Callable, batch: Batch) -> Trace:
    try:
        # Pyro's own checks would stop at a value that is not finite without naming its site.
        with pyro.validation_enabled(False), explained_empty_plates(), explained_shapes():
            return poutine.trace(part).get_trace(batch)
    except (RuntimeError, IndexError) as error:
        given = "no features"
        if batch.features is not None:
            given = f"features {list(batch.features.shape)} of {batch.features.dtype}"
        own = place_in_users_code(traceback.walk_tb(error.__traceback__))
        if own is not None:
            remedy = f"The error is in {own}"
        elif isinstance(error, IndexError):
            remedy = (
                "If it has parameters for every item, use minibatches.ItemPlate(name, batch) as "
                "the plate of the items, both in the model and as create_plates of an autoguide"
            )
        else:
            remedy = (
                "Build its networks for features of this size, and pass their dtype and device to "
                "fit"
            )
        raise ValueError(
            f"the {role} cannot run on a batch with {given}: {first_line(error)}. {remedy}"
        ) from error


def _latent_sites(trace: Trace) -> dict[str, dict[str, Any]]:
    sites = trace_sites(trace)
    return {name: site for name, site in sites.items() if not site["is_observed"]}


@torch.no_grad()
def check_sites(
    model: Callable, guide: Callable, batch: Batch, in_minibatches: bool = False
) -> Sites:
    """Raise a ``ValueError`` unless the guide has a site for every latent site of the model.

    A site that the model itself enumerates needs none, but must have the same weight for all items.
    Latents of items must be those of the batch, and their parameters in the order of the data; so
    must those of answers, if other batches follow (``in_minibatches``). Networks must be copied
    with model and guide, and trained.
    """
    with called_modules() as called:
        model_trace, guide_trace = traces_of(model, guide, batch)
    check_trained(called, model, guide)
    _check_shapes(model_trace)
    check_drawn_items(guide_trace, batch)
    check_order_of_rows(model, guide_trace, batch, in_minibatches)
    check_partly_observed(model_trace, guide_trace)
    _check_weights(model_trace, guide_trace, batch)
    check_dependence(model, model_trace, guide_trace, batch)
    _warn_if_unweighted(model, model_trace, batch)
    in_model, in_guide = _latent_sites(model_trace), _latent_sites(guide_trace)
    _check_observes_nothing(guide_trace)
    of_model_alone = [name for name in in_model if name not in in_guide]
    missing = [name for name in of_model_alone if not in_model[name]["infer"].get("enumerate")]
    surplus = [
        name
        for name, site in in_guide.items()
        if name not in in_model and not site["infer"].get("is_auxiliary")
    ]
    _check_missing(missing, surplus, in_model)
    if surplus:
        raise ValueError(
            f"the guide samples {', '.join(map(repr, surplus))}, which the model does not have: "
            'rename the site, or mark it with infer={"is_auxiliary": True}'
        )
    _check_copied(model, guide, batch)
    sites = [*in_model.values(), *in_guide.values()]
    enumerates = any(site["infer"].get("enumerate") for site in sites)
    return Sites(enumerates, plate_nesting(model_trace, guide_trace), tuple(of_model_alone))


def _check_shapes(model_trace: Trace) -> None:
    """Raise a ``ValueError`` if an observed value does not have the axes of its site.

    Pyro would stretch a distribution of 60 items and values ``[60, 1]`` to 3,600 values.
    """
    for name, site in trace_sites(model_trace).items():
        fn, value = site["fn"], site["value"]
        # Pyro also takes plain numbers, which have no axes.
        if not site["is_observed"] or not isinstance(value, torch.Tensor):
            continue
        try:
            of_both = torch.broadcast_shapes(
                value.shape[: value.dim() - fn.event_dim], fn.batch_shape
            )
        except RuntimeError:  # of axes of two sizes
            of_both = None
        if of_both != fn.batch_shape:
            plates = [f"{frame.name!r} of {frame.size}" for frame in site["cond_indep_stack"]]
            raise ValueError(
                f"the site {name!r} observes values {list(value.shape)}, but has the axes "
                f"{list(fn.batch_shape)} (plates: {', '.join(plates) or 'none'}) and an event of "
                f"{list(fn.event_shape)}: give the plate of the items len(batch.items) members, "
                "make the numbers of an item one event by .to_event(1), or observe "
                "batch.features[:, 0] if an item has a single number"
            )


def _check_missing(
    missing: list[str], surplus: list[str], in_model: dict[str, dict[str, Any]]
) -> None:
    """Raise a ``ValueError`` if the guide lacks sites; ``surplus`` are those of it alone."""
    if not missing:
        return
    remedy = (
        "sample every latent site of the model in the guide, or mark it with "
        'infer={"enumerate": "parallel"} in the model'
    )
    if surplus:
        remedy = (
            f"it samples {', '.join(map(repr, surplus))}, which the model does not have; give both "
            "the same names"
        )
    elif all(isinstance(in_model[name]["fn"], SameCluster) for name in missing):
        remedy = (
            "wrap the guide as guides.EnumeratedGuide(model, guide), which samples z and whether "
            "the items of a pair are the same, or sample it in the guide with SameCluster(q_z, ...)"
        )
    raise ValueError(
        f"the guide lacks the model's site{'s' * (len(missing) > 1)} "
        f"{', '.join(map(repr, missing))}: {remedy}"
    )


def _check_observes_nothing(guide_trace: Trace) -> None:
    """Raise a ``ValueError`` if the guide observes data, which only a model does.

    Factors and deterministic sites are not data.
    """
    for name, site in trace_sites(guide_trace).items():
        is_data = site["is_observed"] and not is_deterministic(site)
        if is_data and not isinstance(site["fn"], Unit):
            raise ValueError(
                f"the guide observes {name!r}, but only the model may observe data: call "
                "fit(model, guide, data) in this order, and leave obs= out of the guide"
            )


def _check_copied(model: Callable, guide: Callable, batch: Batch) -> None:
    """Raise a ``ValueError`` for modules that a function uses but that are not copied with it.

    They are recognized as the parameters that two copies of model and guide share, although each
    copy has its own parameter store.
    """
    store = pyro.get_param_store()
    held = {id(parameter) for root in roots_of(model, guide) for parameter in root.parameters()}
    others = {
        name: parameter
        for name, parameter in store.named_parameters()
        if isinstance(parameter, nn.Parameter) and id(parameter) not in held
    }
    if not others:
        return
    with store.scope() as state:
        traces_of(*copied(model, guide), batch)
    of_copy = state["params"]
    shared = [name for name, parameter in others.items() if of_copy.get(name) is parameter]
    if shared:
        raise ValueError(
            f"the parameter {shared[0].replace('$$$', '.')!r} ({len(shared)} such) is of a module "
            "that model or guide uses as a global variable and that is not copied with them: fit "
            "would change your own module, and each fit would change earlier results. Make model "
            "and guide methods of an nn.Module that holds it, or pass it as an argument, with "
            "functools.partial(model, net=net)"
        )


def _check_weights(model_trace: Trace, guide_trace: Trace, batch: Batch) -> None:
    """Raise a ``ValueError`` if Pyro would refuse, or ignore, the different weights of items."""
    one_weight = not isinstance(batch.item_scale, torch.Tensor)
    for name, site in trace_sites(model_trace).items():
        frames = [frame for frame in site["cond_indep_stack"] if frame.vectorized]
        subsampled = [
            frame.name
            for frame in frames
            if frame.size == len(batch.items) < (frame.full_size or frame.size)
            and not isinstance(frame, IndexedFrame)
        ]
        if subsampled and not one_weight:
            raise ValueError(
                f"the plate {subsampled[0]!r} gives all items of a batch the same weight, but "
                "items with answers are drawn more often: use "
                f"minibatches.ItemPlate({subsampled[0]!r}, batch), which weights every item"
            )
        if not site["infer"].get("enumerate") or name in guide_trace.nodes:
            continue
        scaled = isinstance(site["scale"], torch.Tensor) and bool(site["scale"].dim())
        is_of_items = _is_in_plate(site, len(batch.items))
        if _is_in_plate(site, batch.num_pairs) and not is_of_items:
            _check_site_of_pairs(name, scaled, guide_trace)
        elif _enumerated_in(guide_trace) and not is_of_items:
            raise ValueError(
                f"the model enumerates {name!r} outside of the plate of the items, and Pyro cannot "
                f"sum over it while the guide enumerates {_joined(guide_trace)}: {by_hand(name)}"
            )
        elif scaled:
            raise ValueError(
                f"the model enumerates {name!r} with a different weight for every item, but Pyro "
                "can sum over it only if all weights are the same number: "
                f"{_remedy_for_items(name, guide_trace, one_weight, batch.num_pairs > 0)}"
            )


def _check_site_of_pairs(name: str, scaled: bool, guide_trace: Trace) -> None:
    """Raise a ``ValueError`` if Pyro cannot sum over a site in the plate of the answers."""
    if _enumerated_in(guide_trace):
        raise ValueError(
            f"the model enumerates {name!r} in the plate of the answers, but Pyro cannot sum over "
            f"it while the guide enumerates {_joined(guide_trace)}: {by_hand(name)}"
        )
    if scaled:
        raise ValueError(
            f"the model enumerates {name!r} with a different weight for every answer, but Pyro can "
            "sum over it only if all weights are the same number: scale by batch.pair_scale, which "
            f"is one number if all answers have the same weight, or {by_hand(name)}"
        )


def _enumerated_in(trace: Trace) -> list[str]:
    sites = trace_sites(trace).items()
    return [repr(name) for name, site in sites if site["infer"].get("enumerate")]


def _joined(guide_trace: Trace) -> str:
    return ", ".join(_enumerated_in(guide_trace))


def _remedy_for_items(name: str, guide_trace: Trace, one_weight: bool, has_pairs: bool) -> str:
    in_guide = _enumerated_in(guide_trace)
    if one_weight and in_guide and has_pairs:
        return (
            "scale by batch.item_scale, which is one number as all items have the same weight; "
            f"but if answers depend on {name!r}, Pyro cannot sum over it while the guide "
            f"enumerates {_joined(guide_trace)}: then {by_hand(name)}"
        )
    if one_weight:
        return "scale by batch.item_scale, which is one number as all items have the same weight"
    if in_guide:
        return (
            "items with answers have other weights, and the guide enumerates only "
            f"{_joined(guide_trace)}, so {by_hand(name)}"
        )
    return (
        "items with answers have other weights, so enumerate it in the guide, by wrapping this as "
        "EnumeratedGuide(model, guide)"
    )


def _warn_if_unweighted(model: Callable, model_trace: Trace, batch: Batch) -> None:
    """Warn if a model does not scale the observations of a minibatch up to all data.

    The posterior of latents outside the plate of items, or of answers about pairs, depends on the
    number of these. A model is warned of if its observations in the plate have no Pyro scale and
    its log-density does not change with the weights of the batch, by which it might scale them in
    another way.
    """
    latents = _latent_sites(model_trace).values()
    items, pairs = len(batch.items), batch.num_pairs
    for plate, size, weights, all_of in (
        ("items", items, "item_weight", f"all {batch.num_items} items of the data"),
        ("pairs", pairs, "pair_weight", "all answers of the data"),
    ):
        weight = getattr(batch, weights)
        if bool((weight == 1).all()):
            continue
        observed = {
            name: site
            for name, site in trace_sites(model_trace).items()
            if site["is_observed"] and _is_in_plate(site, size)
        }
        if not observed or all(_is_in_plate(site, items, pairs) for site in latents):
            continue
        if any(torch.as_tensor(site["scale"] != 1).any() for site in observed.values()):
            continue
        heavier = dataclasses.replace(batch, **{weights: 2 * weight})
        with torch.random.fork_rng():
            # With the same values, also at sites that only the model has.
            other = _trace("model", poutine.replay(model, trace=model_trace), heavier)
        if float(model_trace.log_prob_sum()) == float(other.log_prob_sum()):
            warn(
                f"the model counts the {size} {plate} of a minibatch as if they were {all_of}, at "
                f"site{'s' * (len(observed) > 1)} {', '.join(map(repr, observed))}, so that its "
                f"posterior is too wide: scale the plate of the {plate} with "
                f"poutine.scale(scale=batch.{weights}), or fit with batch_size=None"
            )


def _is_in_plate(site: dict[str, Any], *sizes: int) -> bool:
    """Whether a site is in a plate of one of these sizes."""
    return any(frame.vectorized and frame.size in sizes for frame in site["cond_indep_stack"])
