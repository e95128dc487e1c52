"""Checks of the sites of a model and its guide before training."""

from __future__ import annotations

import dataclasses
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyro
import torch
from pyro import poutine
from pyro.distributions import Unit
from pyro.poutine import Trace
from torch import nn

from pyro_crowdclust.errors import first_line
from pyro_crowdclust.inference.enumeration import (
    check_drawn_items,
    is_deterministic,
    plate_nesting,
    trace_sites,
)
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import (
    module_of,
)
from pyro_crowdclust.training.copies import copied

_PACKAGE = __name__.partition(".")[0]
# Of an installation, folders of the library's dependencies.
_LIBRARIES = {"site-packages", "dist-packages"}


class Sites(NamedTuple):
    """What a bound must know of model and guide.

    Attributes
    ----------
    enumerates
        Whether any site is enumerated.
    max_plate_nesting
        Levels of plates.
    of_model_alone
        Sites that the model enumerates and the guide does not have.
    """

    enumerates: bool
    max_plate_nesting: int
    of_model_alone: tuple[str, ...]


def traces_of(model: Callable, guide: Callable, batch: Batch) -> tuple[Trace, Trace]:
    """One run of the guide and one of the model against it, without enumeration."""
    guide_trace = _trace("guide", guide, batch)
    return _trace("model", poutine.replay(model, trace=guide_trace), batch), guide_trace


def _trace(role: str, part: Callable, batch: Batch) -> Trace:
    try:
        # Pyro's own checks would stop at a value that is not finite without naming its site.
        with pyro.validation_enabled(False):
            return poutine.trace(part).get_trace(batch)
    except RuntimeError as error:
        given = "no features"
        if batch.features is not None:
            given = f"features {list(batch.features.shape)} of {batch.features.dtype}"
        own = _place_in_users_code(error)
        remedy = (
            "Build its networks for features of this size, and give fit their dtype and device"
            if own is None
            else f"It happens in {own}"
        )
        raise ValueError(
            f"the {role} cannot run on a batch with {given}: {first_line(error)}. {remedy}"
        ) from error


def _place_in_users_code(error: BaseException) -> str | None:
    """The innermost function of the user's own in which an error happened, if there is one."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = Path(frame.f_code.co_filename)
        is_ours = frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE
        if not is_ours and _LIBRARIES.isdisjoint(path.parts):
            return f"{frame.f_code.co_name}, {path.name} line {line}"
    return None


def _latent_sites(trace: Trace) -> dict[str, dict[str, Any]]:
    sites = trace_sites(trace)
    return {name: site for name, site in sites.items() if not site["is_observed"]}


@torch.no_grad()
def check_sites(model: Callable, guide: Callable, batch: Batch) -> Sites:
    """Raise a ``ValueError`` unless the guide has a site for every latent site of the model.

    Sites that the model itself enumerates need none, but one weight for all items. Latents of items
    must be those of the batch. Networks must be copied with model and guide.
    """
    model_trace, guide_trace = traces_of(model, guide, batch)
    check_drawn_items(guide_trace, batch)
    _check_weights(model_trace, guide_trace, batch)
    _warn_of_unweighted(model, model_trace, batch)
    in_model, in_guide = _latent_sites(model_trace), _latent_sites(guide_trace)
    _check_observes_nothing(guide_trace)
    of_model_alone = [name for name in in_model if name not in in_guide]
    missing = [name for name in of_model_alone if not in_model[name]["infer"].get("enumerate")]
    if missing:
        raise ValueError(
            f"the guide misses the model's site{'s' * (len(missing) > 1)} "
            f"{', '.join(map(repr, missing))}: sample every latent site of the model in the "
            'guide, or mark it infer={"enumerate": "parallel"} in the model'
        )
    surplus = [
        name
        for name, site in in_guide.items()
        if name not in in_model and not site["infer"].get("is_auxiliary")
    ]
    if surplus:
        raise ValueError(
            f"the guide samples {', '.join(map(repr, surplus))}, which the model has not: rename "
            'the site, or mark it infer={"is_auxiliary": True}'
        )
    _check_copied(model, guide, batch)
    sites = [*in_model.values(), *in_guide.values()]
    enumerates = any(site["infer"].get("enumerate") for site in sites)
    return Sites(enumerates, plate_nesting(model_trace, guide_trace), tuple(of_model_alone))


def _check_observes_nothing(guide_trace: Trace) -> None:
    """Raise a ``ValueError`` for a guide with data in it, as a model has.

    Factors and deterministic sites are none.
    """
    for name, site in trace_sites(guide_trace).items():
        is_data = site["is_observed"] and not is_deterministic(site)
        if is_data and not isinstance(site["fn"], Unit):
            raise ValueError(
                f"the guide observes {name!r}, which is for the model: call fit(model, guide, "
                "data) in this order, and leave obs= out of the guide"
            )


def _check_copied(model: Callable, guide: Callable, batch: Batch) -> None:
    """Raise a ``ValueError`` for modules that a function reads from outside, and nobody copies.

    They are what two copies of model and guide share, each with a parameter store of its own.
    """
    store = pyro.get_param_store()
    roots = [root for root in map(module_of, (model, guide)) if root is not None]
    held = {id(parameter) for root in roots for parameter in root.parameters()}
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
            "that model or guide reads from outside, and that is not copied with them: fit would "
            "change your own module, and every fit the results of those before. Make both methods "
            "of an nn.Module that holds it, or hand it over, by functools.partial(model, net=net)"
        )


def _check_weights(model_trace: Trace, guide_trace: Trace, batch: Batch) -> None:
    """Raise a ``ValueError`` where Pyro would refuse, or ignore, that items weigh differently."""
    one_weight = not isinstance(batch.item_scale, torch.Tensor)
    for name, site in trace_sites(model_trace).items():
        frames = [frame for frame in site["cond_indep_stack"] if frame.vectorized]
        subsampled = [
            frame.name
            for frame in frames
            if frame.size == len(batch.items) < (frame.full_size or frame.size)
        ]
        if subsampled and not one_weight:
            raise ValueError(
                f"the plate {subsampled[0]!r} takes all items of a batch to weigh the same, but "
                f"items with answers are drawn more often: use pyro.plate({subsampled[0]!r}, "
                "len(batch.items)) with poutine.scale(scale=batch.item_weight)"
            )
        if not site["infer"].get("enumerate") or name in guide_trace.nodes:
            continue
        scaled = isinstance(site["scale"], torch.Tensor) and bool(site["scale"].dim())
        if _is_in_plate(site, batch.num_pairs) and not _is_in_plate(site, len(batch.items)):
            _check_site_of_pairs(name, scaled, guide_trace)
        elif scaled:
            raise ValueError(
                f"the model enumerates {name!r} under a weight for every item, but Pyro sums over "
                f"it under one number only: {_remedy_of_items(name, guide_trace, one_weight)}"
            )


def _check_site_of_pairs(name: str, scaled: bool, guide_trace: Trace) -> None:
    """Raise a ``ValueError`` where Pyro does not sum over a site of answers about pairs."""
    by_hand = (
        f"leave {name!r} out and sum over it in the distribution of what hangs on it, such as "
        "pyro.distributions.MixtureSameFamily"
    )
    in_guide = _enumerated_in(guide_trace)
    if in_guide:
        raise ValueError(
            f"the model enumerates {name!r} in the plate of the answers, but Pyro does not sum "
            f"over it beside the guide's {', '.join(in_guide)}: {by_hand}"
        )
    if scaled:
        raise ValueError(
            f"the model enumerates {name!r} under a weight for every answer, but Pyro sums over it "
            "under one number only: scale by batch.pair_scale, which is one where all answers "
            f"weigh the same, or {by_hand}"
        )


def _enumerated_in(trace: Trace) -> list[str]:
    sites = trace_sites(trace).items()
    return [repr(name) for name, site in sites if site["infer"].get("enumerate")]


def _remedy_of_items(name: str, guide_trace: Trace, one_weight: bool) -> str:
    in_guide = _enumerated_in(guide_trace)
    if one_weight:
        return "scale by batch.item_scale, which is one where all items weigh the same"
    if in_guide:
        return (
            "items with answers weigh differently, and the guide enumerates "
            f"{', '.join(in_guide)} alone, so leave {name!r} out and sum over it in the "
            "distribution of what hangs on it, such as pyro.distributions.MixtureSameFamily"
        )
    return (
        "items with answers weigh differently, so wrap the guide, EnumeratedGuide(model, guide), "
        "which enumerates it in the guide"
    )


def _warn_of_unweighted(model: Callable, model_trace: Trace, batch: Batch) -> None:
    """Warn of a model for which a minibatch is all there is, although it learns of all data.

    What latents outside of a plate of items, or of answers about pairs, learn hangs on how many of
    these there are. Such a model is one whose observations there have no scale; and where they are
    weighed in another way than by Pyro's scales, the weights make a difference.
    """
    latents = _latent_sites(model_trace).values()
    items, pairs = len(batch.items), batch.num_pairs
    for plate, size, weights, all_of in (
        ("items", items, "item_weight", f"all of the {batch.num_items} that there are"),
        ("pairs", pairs, "pair_weight", "all answers that there are"),
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
            # Of the same values, also of sites that the guide leaves to the model.
            other = _trace("model", poutine.replay(model, trace=model_trace), heavier)
        if float(model_trace.log_prob_sum()) == float(other.log_prob_sum()):
            warnings.warn(
                f"the model takes the {size} {plate} of a minibatch for {all_of}, at "
                f"site{'s' * (len(observed) > 1)} {', '.join(map(repr, observed))}, so that its "
                f"posterior is too wide: scale the plate of the {plate} by "
                f"poutine.scale(scale=batch.{weights}), or fit with batch_size=None",
                stacklevel=4,
            )


def _is_in_plate(site: dict[str, Any], *sizes: int) -> bool:
    """Whether a site is in a plate of one of these sizes."""
    return any(frame.vectorized and frame.size in sizes for frame in site["cond_indep_stack"])
