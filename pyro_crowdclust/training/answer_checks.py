"""A check that sites depend on enumerated ones within their plates only, or by ``SameCluster``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from pyro import poutine
from pyro.poutine import Trace
from torch import Tensor

from pyro_crowdclust.distributions import SameCluster
from pyro_crowdclust.inference.enumeration import trace_of, trace_sites, unscaled_log_density
from pyro_crowdclust.minibatches.batch import Batch


def check_dependence(model: Callable, model_trace: Trace, guide_trace: Trace, batch: Batch) -> None:
    """Raise a ``ValueError`` if a site depends on an enumerated one outside of the latter's plates.

    Pyro sums over the values of all items at once: ``z[batch.left]`` is the same value for every
    pair, whatever the answers say, and the bound is wrong. So is it for items in a second plate.
    The agreement of a pair is a site of its own, which the guide has, too.
    """
    sites, of_guide = trace_sites(model_trace), trace_sites(guide_trace)
    fixed = {name: site["value"] for name, site in sites.items() if not site["is_observed"]}

    def densities(values: dict[str, Tensor]) -> dict[str, Tensor]:
        with torch.random.fork_rng():
            found = trace_sites(trace_of(poutine.condition(model, data=fixed | values), batch))
        return {name: unscaled_log_density(site) for name, site in found.items()}

    before = None
    for name in fixed:
        is_agreement = isinstance(sites[name]["fn"], SameCluster)
        ways = [found[name]["infer"] for found in (sites, of_guide) if name in found]
        plates = _plates(sites[name])
        if is_agreement or not plates or not any(way.get("enumerate") for way in ways):
            continue
        before = densities({}) if before is None else before
        for other in _others(sites[name]):
            after = densities({name: other})
            for dependent in before.keys() & after.keys() - {name}:
                one, two = before[dependent], after[dependent]
                is_outside = bool(plates - _plates(sites[dependent]))
                if is_outside and not torch.allclose(one, two, equal_nan=True):
                    is_second = name not in of_guide and _enumerates(of_guide)
                    remedy = f": {by_hand(name)}" if is_second else None
                    raise ValueError(_explained(name, dependent, sites, batch, remedy))


def by_hand(name: str) -> str:
    """Advice for a discrete site that Pyro cannot sum over."""
    return (
        f"leave out {name!r} and sum over it in the distribution of the site that depends on it, "
        "such as pyro.distributions.MixtureSameFamily, or make it a continuous site, such as a "
        "probability"
    )


def _enumerates(sites: dict[str, Any]) -> bool:
    return any(site["infer"].get("enumerate") for site in sites.values())


def _plates(site: dict[str, Any]) -> set[str]:
    return {frame.name for frame in site["cond_indep_stack"] if frame.vectorized}


def _explained(
    name: str, dependent: str, sites: dict[str, Any], batch: Batch, remedy: str | None
) -> str:
    if remedy is not None:
        return (
            f"the model enumerates {name!r}, on which {dependent!r} depends outside of its plate, "
            f"and Pyro cannot sum over it while the guide enumerates other sites{remedy}"
        )
    same = next((one for one, site in sites.items() if isinstance(site["fn"], SameCluster)), None)
    frames = sites[dependent]["cond_indep_stack"]
    at_mean = (
        f"take {name!r} at its mean: sample it from distributions.Assignment in the model and from "
        "distributions.ConjugateAtMean in the guide"
    )
    one_value = f"Pyro gives all members of a plate one value of {name!r} at a time"
    if not batch.num_pairs or all(frame.size != batch.num_pairs for frame in frames):
        (plate, *_) = sorted(_plates(sites[name]))
        return (
            f"the site {dependent!r} depends on {name!r}, which is enumerated in the plate "
            f"{plate!r}, but is not in this plate itself. {one_value}, so that the bound would be "
            f"wrong: sample {dependent!r} in the same plate, or {at_mean}"
        )
    if same is None:
        return (
            f"the answers about pairs ({dependent!r}) depend on {name!r}, which is enumerated: "
            f"{one_value}, so that {name}[batch.left] == {name}[batch.right] is true for every "
            "pair, and the bound would be wrong. Sample the agreement, same = pyro.sample('same', "
            f"distributions.SameCluster({name}, batch.left, batch.right, batch.num_paired)), let "
            "answers depend on it, and wrap the guide as EnumeratedGuide(model, guide), or "
            f"{at_mean}"
        )
    return (
        f"the answers about pairs depend on {name!r} in another way than through the site "
        f"{same!r} of SameCluster, but {name!r} is enumerated: {one_value}, so that "
        f"{name}[batch.left] is the same for every pair, and the bound would be wrong. Let answers "
        f"depend on {same!r} only, or {at_mean}"
    )


def _others(site: dict[str, Any]) -> Iterator[Tensor]:
    """Other values of a discrete site: the next ones of all items, and of every other item."""
    fn, value = site["fn"], site["value"]
    support = fn.enumerate_support(expand=False).reshape(-1, *fn.event_shape)
    shape = len(support), *[1] * len(fn.batch_shape), *fn.event_shape
    equal = support.reshape(shape) == value
    if fn.event_shape:
        equal = equal.flatten(-len(fn.event_shape)).all(-1)
    code = equal.long().argmax(0)
    every = torch.ones_like(code)
    for step in (every, every.cumsum(-1) % 2):
        yield support[(code + step) % len(support)]
