"""Log-likelihoods of items at draws of the global sites, with the local sites summed out.

Every discrete local site is summed out, and every continuous one is integrated by importance
sampling from q:

    log p(o_i | Theta) = log sum_m sum_k p(k | Theta) p(x_m | k, Theta) p(o_i | x_m) / (M q(x_m))

This is exact if there is no continuous local site. A guide whose latents depend on the cluster sums
over both itself (``item_log_likelihood``). It is the quantity that leave-one-out cross-validation
by importance sampling over Theta needs: ``1 / p(o_i | Theta)`` is the ratio of the posteriors
without and with o_i.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Num
from pyro import poutine
from pyro.poutine import Trace
from torch import Tensor

from pyro_crowdclust.diagnostics.draws import (
    GlobalDraws,
    batch_of_items,
    is_local,
    local_plates,
    plates_of,
    run,
    sites_with_density,
)
from pyro_crowdclust.distributions.at_mean import SupportsRealDraws
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.inference.enumeration import is_deterministic, item_log_density, plate_nesting
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import FittedModel, part_of


@runtime_checkable
class SupportsItemLogLikelihood(Protocol):
    """A guide whose latents depend on the cluster, and which sums over both itself."""

    def item_log_likelihood(
        self, sites: Mapping[str, Tensor], batch: Batch, num_draws: int
    ) -> Float[Tensor, " item"]:
        """``log p(o | Theta)``, with ``num_draws`` draws of each latent."""


def item_log_likelihood(
    result: FittedModel,
    draws: GlobalDraws,
    items: Int[Tensor, " item"],
    latent_draws: int = 10,
    class_labels: bool = False,
) -> Float[Tensor, "draw item"] | None:
    """``log p(o_i | Theta)`` of some items, without their answers.

    If components are on coordinates of the features, it is nevertheless a density of the features
    (by ``log_volume`` of the emission).

    Parameters
    ----------
    result
        The result of ``fit``.
    draws
        Draws of Theta.
    items
        Positions of the items.
    latent_draws
        M, if there are continuous local sites. All Theta have the same x_m, so that their noise is
        common to all draws. The logarithm of an average is biased downwards, the more so the
        narrower q(x) is than the posterior of x.
    class_labels
        Whether to include the labels of an item: ``log p(o_i, a_i | Theta)``.

    Returns
    -------
    None if the model does not observe features (or labels) of the items.
    """
    if isinstance(result.guide, SupportsItemLogLikelihood) and not class_labels:
        return _by_guide(result, draws, items, latent_draws)
    local = local_plates(result)
    first = batch_of_items(result, items[:1], class_labels)
    if not _observes(result, first, local):
        return None
    guide_trace = run(result.guide, first, {})
    discrete = discrete_sites(result, first, local, nested=True)
    continuous = continuous_sites(guide_trace, discrete, local)
    copies = latent_draws if continuous else 1
    batch = batch_of_items(result, items.repeat(copies), class_labels)
    first_dim = enumeration_dim(result, batch)
    once = batch_of_items(result, items, class_labels)
    drawn = [_drawn(result, once, discrete, continuous, local) for _ in range(copies)]
    values = {
        name: torch.cat([part[name][0] for part, _ in drawn], drawn[0][0][name][1])
        for name in continuous
    }
    log_proposal = torch.cat([density for _, density in drawn])
    rows = []
    for draw in range(draws.num_draws):
        density = enumerated_log_density(
            result, batch, draws.at(draw) | values, discrete, local, first_dim
        )
        weights = (density - log_proposal).reshape(copies, len(items))
        rows.append(weights.logsumexp(0) - math.log(copies))
    return torch.stack(rows).cpu() + log_volume(result, items)


def log_volume(result: FittedModel, items: Int[Tensor, " item"]) -> Float[Tensor, " item"] | float:
    """The log-density of the features of items minus that of their coordinates.

    It is multiplied by the ``feature_weight`` of the model, like the log-density itself.
    """
    emission = part_of(result.model, "emission", Identity)
    if emission is None or result.data.features is None:
        return 0.0
    volume = emission.log_volume(result.data.rows(items)).cpu()
    return float(getattr(result.model, "feature_weight", 1.0)) * volume


def _by_guide(
    result: FittedModel, draws: GlobalDraws, items: Int[Tensor, " item"], latent_draws: int
) -> Float[Tensor, "draw item"]:
    batch = batch_of_items(result, items)
    rows = []
    for draw in range(draws.num_draws):
        with torch.random.fork_rng():  # every Theta uses the same random numbers
            rows.append(result.guide.item_log_likelihood(draws.at(draw), batch, latent_draws))
    return torch.stack(rows).double().cpu()


def discrete_sites(
    result: FittedModel, batch: Batch, local: frozenset[str], nested: bool = False
) -> dict[str, Tensor]:
    """The possible values of each discrete local site of the model on a batch, by site.

    Parameters
    ----------
    result
        The result of ``fit``.
    batch
        Some items.
    local
        Names of the plates of the items.
    nested
        Whether to include sites in further plates, which have several values for an item.
    """
    sites = sites_with_density(run(result.model, batch, {}))
    return {
        name: _flat_support(site["fn"])
        for name, site in sites.items()
        if not site["is_observed"]
        and is_local(site, local)
        and site["fn"].has_enumerate_support
        and (nested or local.issuperset(plates_of(site)))
    }


def continuous_sites(
    guide_trace: Trace, discrete: Collection[str], local: frozenset[str]
) -> list[str]:
    """Names of the other local sites of the guide, without those that add nothing to log q."""
    return [
        name
        for name, site in sites_with_density(guide_trace).items()
        if is_local(site, local)
        and name not in discrete
        and not getattr(site["fn"], "adds_nothing", False)
    ]


def _flat_support(fn: Any) -> Num[Tensor, "value ..."]:
    support = fn.enumerate_support(expand=False)
    return support.reshape(len(support), *fn.event_shape)


def _drawn(
    result: FittedModel,
    batch: Batch,
    discrete: Collection[str],
    continuous: Collection[str],
    local: frozenset[str],
) -> tuple[dict[str, tuple[Tensor, int]], Float[Tensor, " item"]]:
    """A draw of each continuous local site of a guide, and log q of all of them.

    With every value comes its axis of the items. The guide must run on the items of the data, and
    not on copies: an autoguide has parameters for each item, which it finds by the position.
    """
    sites = sites_with_real_draws(result, batch, discrete) if continuous else {}
    values, log_density = {}, torch.zeros(len(batch.items), dtype=torch.float64)
    for name in continuous:
        value = real_value(sites[name])
        values[name] = value, axis_of_items(sites[name], local)
        log_density = log_density + sites[name]["fn"].log_prob(value).double().cpu()
    return values, log_density.to(batch.items.device)


def sites_with_real_draws(
    result: FittedModel,
    batch: Batch,
    discrete: Collection[str],
    given: Mapping[str, Tensor] = MappingProxyType({}),
) -> dict[str, Any]:
    """The guide's sites in a run whose discrete local sites have draws as values, not means.

    Parameters
    ----------
    result
        The result of ``fit``.
    batch
        Some items.
    discrete
        Names of the discrete local sites.
    given
        Values of other sites of the guide.
    """
    sites = sites_with_density(run(result.guide, batch, given))
    drawn = {name: real_value(sites[name]) for name in discrete if name in sites}
    if drawn:  # others may depend on these
        sites = sites_with_density(run(result.guide, batch, {**given, **drawn}))
    return sites


def real_value(site: dict[str, Any]) -> Tensor:
    """A draw from a guide's site, also if the value of the site is a mean."""
    fn = site["fn"]
    return fn.real_draws(1).statistics[0] if isinstance(fn, SupportsRealDraws) else site["value"]


def axis_of_items(site: dict[str, Any], local: frozenset[str]) -> int:
    """The axis of the items in the value of a local site, counted from the right."""
    (dim,) = [frame.dim for frame in site["cond_indep_stack"] if frame.name in local]
    return dim - len(site["fn"].event_shape)


def _observes(result: FittedModel, batch: Batch, local: frozenset[str]) -> bool:
    """Whether a model has an observed site of the items of a batch."""
    sites = sites_with_density(run(result.model, batch, {})).values()
    return any(
        site["is_observed"] and is_local(site, local) and not is_deterministic(site)
        for site in sites
    )


def enumerated_log_density(
    result: FittedModel,
    batch: Batch,
    values: Mapping[str, Tensor],
    discrete: Collection[str],
    local: frozenset[str],
    first_dim: int,
    of: str | None = None,
) -> Float[Tensor, "*value item"]:
    """Log joint density of each item's sites, with the discrete ones summed out.

    Other sites that are neither observed nor in ``values``, such as the label of an item without
    one, are marginalized: the model draws them, and their density is not counted.

    Parameters
    ----------
    result
        The result of ``fit``.
    batch
        The items.
    values
        Values of all other latent sites.
    discrete
        Names of the discrete local sites.
    local
        Names of the plates of the items.
    first_dim
        ``enumeration_dim`` of the batch.
    of
        A discrete site of the items that is not summed out: the result has an axis of its values.
    """
    model = poutine.infer_config(
        result.model,
        lambda site: {"enumerate": "parallel", "expand": True} if site["name"] in discrete else {},
    )
    with poutine.enum(first_available_dim=first_dim):
        trace = run(model, batch, values)
    counted = [
        name
        for name, site in sites_with_density(trace).items()
        if site["is_observed"] or name in discrete or name in values
    ]
    return item_log_density(trace, local, counted, of)


def enumeration_dim(result: FittedModel, batch: Batch) -> int:
    """The first dimension to the left of all plates."""
    return -1 - plate_nesting(run(result.model, batch, {}))
