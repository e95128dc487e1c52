"""q(z) of plain Pyro models, which enumerate z themselves and have no site of this library.

Given Theta and without answers about pairs, items are independent, and ``p(z_i | o_i, Theta)`` is
proportional to the density of all of the model's sites in the plate of the items.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import pyro
import torch
from jaxtyping import Float
from pyro import poutine
from pyro.distributions import Delta, Distribution
from pyro.distributions.util import scale_and_mask
from pyro.poutine import Trace
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.minibatches.batch import Batch

# Draws of Theta from the guide, over which q(z) is averaged; a point estimate needs one.
_DRAWS = 30


def trace_sites(trace: Trace) -> dict[str, Any]:
    """The sites of a trace that have a density: no parameters, and no parts that plates draw."""
    return {
        name: site
        for name, site in trace.nodes.items()
        if site["type"] == "sample" and not site_is_subsample(site)
    }


def is_deterministic(site: dict[str, Any]) -> bool:
    """Whether a site is what others make of it: by ``pyro.deterministic``, or reparameterized."""
    # Pyro masks the distribution.
    return site["is_observed"] and isinstance(getattr(site["fn"], "base_dist", site["fn"]), Delta)


def plate_nesting(*traces: Trace) -> int:
    """How many levels of plates the sites of some traces are in; at least one."""
    dims = [
        -frame.dim
        for trace in traces
        for site in trace_sites(trace).values()
        for frame in site["cond_indep_stack"]
        if frame.vectorized
    ]
    return max(dims, default=1)


def trace_of(part: Callable, batch: Batch) -> Trace:
    """A run of a model or guide, outside of what runs already."""
    with poutine.block(), pyro.validation_enabled(False):
        return poutine.trace(part).get_trace(batch)


def unscaled_log_density(site: dict[str, Any]) -> Tensor:
    """Log-density of a site's value, whatever it is scaled by; zero where it is masked."""
    return scale_and_mask(site["fn"].log_prob(site["value"]), 1.0, site["mask"])


def latent_values(trace: Trace) -> dict[str, Tensor]:
    """Values of the latent sites of a run of a guide, and which items its plates drew.

    A model that is given these is about the same items, so that ``trace_sites`` would not do.
    """
    nodes: dict[str, Any] = {**trace.nodes}  # whose types depend on what they are
    return {
        name: site["value"].detach()
        for name, site in nodes.items()
        if site["type"] == "sample"
        and not site["is_observed"]
        and isinstance(site["fn"], Distribution)
    }


def item_log_density(
    trace: Trace,
    plates: Collection[str],
    names: Collection[str] | None = None,
    of: str | None = None,
) -> Float[Tensor, "value item"]:
    """Log-density of all that belongs to each item in a run, at every value that is enumerated.

    Parameters
    ----------
    trace
        A run of a model in which sites of the items may be enumerated.
    plates
        Names of the plates of the items. Sites in further plates are summed over these.
    names
        Sites to count; None counts all.
    of
        The one enumerated site whose values to tell apart; others are summed out.
    """
    total = torch.zeros((), dtype=torch.float64)
    for name, site in trace_sites(trace).items():
        frames = [frame for frame in site["cond_indep_stack"] if frame.vectorized]
        axes = [frame.dim for frame in frames if frame.name in plates]
        if not axes or (names is not None and name not in names):
            continue
        log_prob = unscaled_log_density(site).double()
        for frame in frames:
            if frame.name not in plates:
                log_prob = log_prob.sum(frame.dim, keepdim=True)
        total = total + log_prob.movedim(axes[0], -1)
    if of is not None:
        nodes: Any = trace.nodes
        total = total.movedim(nodes[of]["infer"]["_enumerate_dim"], 0)
        return total.flatten(1, -2).logsumexp(1) if total.dim() > 2 else total
    return total.flatten(0, -2) if total.dim() > 1 else total.unsqueeze(0)


class ItemSite(NamedTuple):
    """The enumerated site of the items.

    Attributes
    ----------
    name
        Of the site.
    plate
        Name of the plate of the items.
    scale
        What its log-density is multiplied by.
    in_guide
        Whether the guide has it, which then knows q(z).
    max_plate_nesting
        Levels of plates of model and guide.
    """

    name: str
    plate: str
    scale: float | Tensor
    in_guide: bool
    max_plate_nesting: int

    @classmethod
    def find(cls, of_model: Trace, of_guide: Trace, num_items: int) -> ItemSite | None:
        """The enumerated site with a value for every item; of several that called z, or None."""
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
        """``log p(z_i = k | o_i, Theta)`` of a model whose Theta is given."""
        # Enumerated inside, where a run that is going on does not see it.
        enumerated = poutine.enum(given, first_available_dim=-1 - self.max_plate_nesting)
        trace = trace_of(enumerated, batch)
        return item_log_density(trace, {self.plate}, of=self.name).mT.log_softmax(-1)


def enumerated_inference(
    model: Callable, guide: Callable, batch: Batch
) -> Callable[[Batch], LocalPosterior] | None:
    """The verb ``infer`` of a guide that has none; None where no site of the items is enumerated.

    Parameters
    ----------
    model, guide
        Fitted, inside of the fit's parameter store.
    batch
        Some items, to find the site with.
    """
    of_guide = trace_of(guide, batch)
    of_model = trace_of(poutine.replay(model, trace=of_guide), batch)
    site = ItemSite.find(of_model, of_guide, len(batch.items))
    if site is None:
        return None

    @torch.no_grad()
    def infer(batch: Batch) -> LocalPosterior:
        """``E_q[p(z_i | o_i, Theta)]``, by draws of Theta."""
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
    """The mean of probabilities over draws; of two alike, which are of a point, the first."""
    total = log_probabilities()
    second = log_probabilities()
    if torch.equal(total, second):
        return LocalPosterior(total, None)
    total = torch.logaddexp(total, second)
    for _ in range(_DRAWS - 2):
        total = torch.logaddexp(total, log_probabilities())
    return LocalPosterior(total.log_softmax(-1), None)
