"""``p(z_i | o_i, Theta)`` of plain Pyro models that enumerate z.

Given Theta and without answers about pairs, items are independent, and ``p(z_i | o_i, Theta)`` is
proportional to the density of all of the model's sites in the plate of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pyro
import torch
from jaxtyping import Float
from pyro import poutine
from pyro.distributions import Delta, Distribution
from pyro.distributions.util import scale_and_mask
from pyro.poutine import Trace
from pyro.poutine.indep_messenger import CondIndepStackFrame
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.inference.elimination import Factor, product, summed_out
from pyro_crowdclust.inference.empty_plates import explained_empty_plates
from pyro_crowdclust.minibatches.batch import Batch

# Number of draws of Theta over which q(z) is averaged; a point estimate needs only one.
_DRAWS = 30


def trace_sites(trace: Trace) -> dict[str, Any]:
    """The sites of a trace with a density: no parameters, and no subsamples of plates."""
    return {
        name: site
        for name, site in trace.nodes.items()
        if site["type"] == "sample" and not site_is_subsample(site)
    }


def is_deterministic(site: dict[str, Any]) -> bool:
    """Whether a site is a function of others: by ``pyro.deterministic``, or reparameterized."""
    # Pyro marks such a site by a masked distribution.
    return site["is_observed"] and isinstance(getattr(site["fn"], "base_dist", site["fn"]), Delta)


def plate_nesting(*traces: Trace) -> int:
    """Levels of plates around the sites of some traces; at least one."""
    dims = [
        -frame.dim
        for trace in traces
        for site in trace_sites(trace).values()
        for frame in site["cond_indep_stack"]
        if frame.vectorized
    ]
    return max(dims, default=1)


def trace_of(part: Callable, batch: Batch) -> Trace:
    """A run of a model or guide, unaffected by handlers that are active."""
    with poutine.block(), pyro.validation_enabled(False), explained_empty_plates():
        return poutine.trace(part).get_trace(batch)


def unscaled_log_density(site: dict[str, Any]) -> Tensor:
    """Log-density of a site's value, without its scale; zero where it is masked."""
    return scale_and_mask(site["fn"].log_prob(site["value"]), 1.0, site["mask"])


def latent_values(trace: Trace) -> dict[str, Tensor]:
    """Values of the latent sites in a run of a guide, and the items that its plates drew.

    A model that replays these is about the same items; ``trace_sites`` leaves those out.
    """
    nodes: dict[str, Any] = {**trace.nodes}  # the type depends on the node
    return {
        name: site["value"].detach()
        for name, site in nodes.items()
        if site["type"] == "sample"
        and not site["is_observed"]
        and isinstance(site["fn"], Distribution)
    }


def check_drawn_items(of_guide: Trace, batch: Batch) -> None:
    """Raise a ``ValueError`` if a guide draws latents of other items than those of a batch.

    An autoguide without ``create_plates`` lets its plates draw items by themselves; the model,
    which replays the values, would treat them as those of the batch.
    """
    nodes: Any = of_guide.nodes
    number, every = len(batch.items), batch.num_items
    for name, site in trace_sites(of_guide).items():
        if site["infer"].get("is_auxiliary"):  # the model's site is a function of it
            continue
        for frame in _frames(site):
            is_part = frame.size == number < every == (frame.full_size or frame.size)
            if not is_part or frame.name not in nodes:
                continue
            if not torch.equal(nodes[frame.name]["value"].to(batch.items), batch.items):
                raise ValueError(
                    f"the guide draws {name!r} of other items than those of the batch, because its "
                    f"plate {frame.name!r} subsamples by itself: {create_plates(frame.name)}"
                )


def check_partly_observed(of_model: Trace, of_guide: Trace) -> None:
    """Raise a ``ValueError`` about a discrete site of which ``obs_mask`` observes a part.

    Pyro then splits it into two sites, and q(z) would be that of the unobserved one, which says
    nothing about the others.
    """
    sites, drawn = trace_sites(of_model), trace_sites(of_guide)
    for name, site in sites.items():
        whole = name.removesuffix("_unobserved")
        if whole == name or f"{whole}_observed" not in sites:
            continue
        is_drawn = name in drawn and not drawn[name]["infer"].get("enumerate")
        if site["fn"].has_enumerate_support and not is_drawn:
            raise ValueError(
                f"the model observes some values of the discrete site {whole!r} by obs_mask=, for "
                f"which Pyro makes a site {name!r} of its own, so that the clusters of the known "
                f"items could not be read: sample {whole!r} without obs= and obs_mask=, with "
                'infer={"enumerate": "parallel"}, and in the same plate add a factor that excludes '
                "all other values"
            )


def create_plates(plate: str) -> str:
    """Advice for passing the items of a batch to an autoguide."""
    return (
        f"pass create_plates=lambda batch: minibatches.ItemPlate({plate!r}, batch) to an "
        "AutoNormal or AutoDelta, which have parameters for every item; other autoguides have none"
    )


def item_log_density(
    trace: Trace,
    plates: Collection[str],
    names: Collection[str] | None = None,
    of: str | None = None,
) -> Float[Tensor, "*value item"]:
    """Log-density of all sites of each item in a run, with enumerated sites summed out.

    Parameters
    ----------
    trace
        A run of a model in which sites may be enumerated. Sites in plates nested inside those of
        the items have a value for every member of these.
    plates
        Names of the plates of the items.
    names
        Sites to include; None for all.
    of
        An enumerated site of the items to keep as an axis instead of summing it out.

    Raises
    ------
    ValueError
        If items depend on an enumerated site that is outside of their plates.
    """
    of_items = {
        name: site
        for name, site in trace_sites(trace).items()
        if any(frame.name in plates for frame in _frames(site))
    }
    enumerated = {name: site for name, site in trace_sites(trace).items() if _number(site)}
    numbers = {site["infer"]["_enumerate_dim"]: _number(site) for site in enumerated.values()}
    counted = [name for name in of_items if names is None or name in names]
    factors = [_factor(of_items[name], plates, numbers) for name in counted]
    _check_items_are_independent(enumerated, of_items, factors)
    own = [site for name, site in enumerated.items() if name in of_items and name != of]
    # Within the same plates the last site first, since others do not depend on it.
    own.reverse()
    for site in sorted(own, key=lambda site: -len(_frames(site))):
        factors = summed_out(factors, _number(site), _plates(site, plates))
    total = product([factor.within({_ITEM}) for factor in factors])
    return total.aligned([_ITEM] if of is None else [_number(of_items[of]), _ITEM])


# The name of the items' axis, whatever their plates are called.
_ITEM = "the items"


def _frames(site: dict[str, Any]) -> list[CondIndepStackFrame]:
    return [frame for frame in site["cond_indep_stack"] if frame.vectorized]


def _number(site: dict[str, Any]) -> int:
    """Pyro's number for the enumeration of a site; 0 for other sites.

    The dimension does not identify a site, since ``pyro.markov`` reuses dimensions.
    """
    dim = site["infer"].get("_enumerate_dim")
    return 0 if dim is None else 1 + int(site["infer"]["_dim_to_id"][dim])


def _plates(site: dict[str, Any], plates: Collection[str]) -> set[str]:
    return {_ITEM if frame.name in plates else frame.name for frame in _frames(site)}


def _factor(site: dict[str, Any], plates: Collection[str], numbers: Mapping[int, int]) -> Factor:
    """Log-density of a site; for an enumerated one without its mask, as in Pyro's own sums.

    ``numbers`` maps dimensions to sites, for distributions that are not torch's.
    """
    known = site | {"mask": None} if _number(site) else site
    log_density = unscaled_log_density(known).double()
    ids = site["infer"].get("_dim_to_id", {})
    axes: dict[Any, str | int] = {**numbers, **{dim: 1 + int(id_) for dim, id_ in ids.items()}}
    axes |= {frame.dim: _ITEM if frame.name in plates else frame.name for frame in _frames(site)}
    used = {
        dim: axis
        for dim in range(-log_density.dim(), 0)
        if (axis := axes.get(dim)) is not None
        and (isinstance(axis, str) or log_density.size(dim) > 1)
    }
    return Factor(log_density.reshape([log_density.size(dim) for dim in used]), (*used.values(),))


def _check_items_are_independent(
    enumerated: Mapping[str, Any], of_items: Collection[str], factors: Sequence[Factor]
) -> None:
    """Raise a ``ValueError`` if items share an enumerated site, which makes them dependent."""
    used = {axis for factor in factors for axis in factor.axes}
    for name, site in enumerated.items():
        if name not in of_items and _number(site) in used:
            raise ValueError(
                f"the model enumerates {name!r} outside of the plate of the items, so that the "
                "cluster of an item depends on all others: give it a site in the guide, such as "
                "a Categorical whose probabilities are parameters, or fit the model once for "
                "each of its values and compare the elbo"
            )


class ItemSite(NamedTuple):
    """The enumerated site of the items.

    Attributes
    ----------
    name
        Of the site.
    plate
        Name of the plate of the items.
    scale
        Factor of its log-density.
    in_guide
        Whether the guide has the site, and so q(z).
    max_plate_nesting
        Levels of plates in model and guide.
    """

    name: str
    plate: str
    scale: float | Tensor
    in_guide: bool
    max_plate_nesting: int

    @classmethod
    def find(cls, of_model: Trace, of_guide: Trace, num_items: int) -> ItemSite | None:
        """The enumerated site with a value per item, or None; if there are several, z."""
        nesting, found = plate_nesting(of_model, of_guide), []
        for name, site in of_model.nodes.items():
            if site["type"] != "sample" or site["is_observed"]:
                continue
            in_guide = name in of_guide.nodes
            own: Any = of_guide.nodes[name] if in_guide else site
            frames = [frame for frame in site["cond_indep_stack"] if frame.vectorized]
            if own["infer"].get("enumerate") and [frame.size for frame in frames] == [num_items]:
                found.append(cls(name, frames[0].name, site["scale"], in_guide, nesting))
        called_z = [site for site in found if site.name == "z"]
        return found[0] if len(found) == 1 else next(iter(called_z), None)

    @torch.no_grad()
    def log_posterior(self, given: Callable, batch: Batch) -> Float[Tensor, "item cluster"]:
        """``log p(z_i = k | o_i, Theta)`` of a model with given Theta."""
        # Enumerated inside, so that a surrounding run is not affected.
        enumerated = poutine.enum(given, first_available_dim=-1 - self.max_plate_nesting)
        trace = trace_of(enumerated, batch)
        return item_log_density(trace, {self.plate}, of=self.name).mT.log_softmax(-1)


def enumerated_inference(
    model: Callable, guide: Callable, batch: Batch
) -> Callable[[Batch], LocalPosterior] | None:
    """A function ``infer`` for a guide without one; None if no site of the items is enumerated.

    Parameters
    ----------
    model, guide
        Fitted model and guide; call it with the fit's parameter store active.
    batch
        Some items, to find the site by a run.
    """
    of_guide = trace_of(guide, batch)
    of_model = trace_of(poutine.replay(model, trace=of_guide), batch)
    site = ItemSite.find(of_model, of_guide, len(batch.items))
    if site is None:
        return None

    @torch.no_grad()
    def infer(batch: Batch) -> LocalPosterior:
        """``E_q[p(z_i | o_i, Theta)]``, averaged over draws of Theta."""
        if site.in_guide:
            fn: Any = trace_of(guide, batch).nodes[site.name]["fn"]
            log_q = fn.log_prob(fn.enumerate_support(expand=False))
            return LocalPosterior(log_q.flatten(1).mT, None)

        def log_probabilities() -> Tensor:
            theta = latent_values(trace_of(guide, batch))
            return site.log_posterior(poutine.condition(model, data=theta), batch)

        return averaged(log_probabilities)

    return infer


def averaged(log_probabilities: Callable[[], Float[Tensor, "item cluster"]]) -> LocalPosterior:
    """The mean of probabilities over draws; if the first two are equal (a point), the first."""
    total = log_probabilities()
    second = log_probabilities()
    if torch.equal(total, second):
        return LocalPosterior(total, None)
    total = torch.logaddexp(total, second)
    for _ in range(_DRAWS - 2):
        total = torch.logaddexp(total, log_probabilities())
    return LocalPosterior(total.log_softmax(-1), None)
