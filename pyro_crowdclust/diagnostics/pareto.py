"""Pareto-k of the importance weights of q: how far q of the global sites is from the posterior."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyro
import torch
from jaxtyping import Float
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.poutine import Trace
from torch import Tensor

from pyro_crowdclust.diagnostics.arviz_adapter import pareto_shape
from pyro_crowdclust.diagnostics.draws import (
    GivenValues,
    GlobalDraws,
    global_draws,
    run,
    sites_with_density,
)
from pyro_crowdclust.inference.enumeration import plate_nesting
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import full_batch
from pyro_crowdclust.protocols import FittedModel
from pyro_crowdclust.training.elbo import EnumeratedELBO


@dataclass(frozen=True)
class ParetoDiagnostic:
    """Importance weights of draws from the guide, and the shape of their tail.

    Attributes
    ----------
    k
        Shape of a generalized Pareto distribution fitted to the largest weights. Below 0.5 the
        weights have a finite variance, below 0.7 importance sampling from q works in practice;
        above, q misses a relevant part of the posterior.
    log_joint
        log p(theta, data) of every draw, with local sites integrated out (a lower bound if this is
        not possible).
    log_guide
        log q(theta) of every draw.
    sites
        The global sites that were drawn; the others were held at their mean under q.
    """

    k: float
    log_joint: Float[np.ndarray, " draw"] = field(repr=False)
    log_guide: Float[np.ndarray, " draw"] = field(repr=False)
    sites: tuple[str, ...]

    @property
    def log_weights(self) -> Float[np.ndarray, " draw"]:
        """``log p(theta, data) - log q(theta)``."""
        return self.log_joint - self.log_guide


def pareto_k(
    result: FittedModel,
    num_draws: int = 500,
    *,
    sites: Collection[str] | None = None,
    seed: int | None = None,
) -> ParetoDiagnostic:
    """Pareto-k of ``w = p(theta, data) / q(theta)`` over the global sites theta; Yao et al. 2018.

    For each draw the guide's local posteriors are computed given that theta, and the local part of
    log p is their bound ``E_q[log p(local, data | theta) - log q(local)]``. This bound is exact if
    the items are independent given theta and z is the only local site. With answers, or with
    latents and a network, it is as tight as mean field and the recognition network allow. The same
    draws of latents are used for all theta, so that their noise cancels from the ratios.

    Parameters
    ----------
    result
        The result of ``fit``.
    num_draws
        Draws from q, at least 30; each costs one evaluation of the ELBO of all data.
    sites
        Draw only these global sites, with all others at their means under q, to find out for which
        site the guide is wrong. Default: all. Autoguides have no such means, and need all.
    seed
        Seed of the draws; default: that of the fit.

    Raises
    ------
    ValueError
        If there is no such site, if none is random (point estimates), if the guide cannot draw some
        sites alone, or for too few draws.

    Examples
    --------
    >>> import torch
    >>> from pyro_crowdclust import cluster
    >>> from pyro_crowdclust.mixture import GaussianComponents
    >>> x = torch.cat([torch.randn(50, 1) - 4, torch.randn(50, 1) + 4])
    >>> result = cluster(x, components=GaussianComponents, num_clusters=2, progress=False)
    >>> pareto_k(result, num_draws=100, sites=["weights"]).k < 0.7
    True
    """
    if num_draws < 30:
        raise ValueError(f"num_draws is {num_draws}, but must be at least 30 to fit a tail")
    with result.inside(seed):
        draws = global_draws(result, num_draws)
        random = [name for name, site in draws.sites.items() if site.is_random]
        if not random:
            raise ValueError(
                "all global sites of the guide are point estimates, so that there are no weights "
                "to diagnose: use a guide with posteriors, such as MessagePassingGuide"
            )
        unknown = sorted(set(sites or ()) - set(random))
        if unknown or (sites is not None and not sites):
            raise ValueError(
                f"sites has {unknown}, which are not random global sites: choose from {random}"
            )
        chosen = tuple(random if sites is None else [n for n in random if n in set(sites)])
        if sites is not None and any(draws.sites[name].reruns for name in random):
            raise ValueError(
                "this guide draws all its global sites together, by a run for every draw, and has "
                "no means at which the sites that are not chosen could be held: leave out sites"
            )
        log_joint, log_guide = _log_densities(result, draws, chosen)
    return ParetoDiagnostic(pareto_shape(log_joint - log_guide), log_joint, log_guide, chosen)


def _log_densities(
    result: FittedModel, draws: GlobalDraws, chosen: tuple[str, ...]
) -> tuple[Float[np.ndarray, " draw"], Float[np.ndarray, " draw"]]:
    """log p(theta, data) and log q(theta) of every draw."""
    batch = full_batch(result.data).to(result.device, result.dtype)
    given = {*chosen, *draws.auxiliary}
    state = torch.get_rng_state()
    log_joint, log_guide = [], []
    for draw in range(draws.num_draws):
        torch.set_rng_state(state)
        values = draws.at(draw) | {name: value[draw] for name, value in draws.auxiliary.items()}
        theta = {name: value for name, value in values.items() if name in given}
        guide_trace = run(result.guide, batch, theta)
        sites = sites_with_density(guide_trace)
        of_theta = sum(_log_density(site) for name, site in sites.items() if name in given)
        log_joint.append(_bound(result, batch, guide_trace, theta) + of_theta)
        log_guide.append(of_theta)
    return np.array(log_joint), np.array(log_guide)


def _bound(
    result: FittedModel, batch: Batch, guide_trace: Trace, theta: Mapping[str, Tensor]
) -> float:
    """``E_q[log p - log q]`` of the local sites given theta, with which the guide has run.

    Pyro sums over sites that model or guide enumerate, as in training.
    """
    with pyro.validation_enabled(False):
        replayed = poutine.replay(result.model, trace=guide_trace)
        model_trace = poutine.trace(replayed).get_trace(batch)
        of_model, of_guide = (
            list(sites_with_density(trace).values()) for trace in (model_trace, guide_trace)
        )
        if any(site["infer"].get("enumerate") for site in of_model + of_guide):
            elbo = EnumeratedELBO(max_plate_nesting=plate_nesting(model_trace, guide_trace))
            return -elbo.loss(result.model, GivenValues(theta)(result.guide), batch)
    return sum(map(_log_density, of_model)) - sum(map(_log_density, of_guide))


def _log_density(site: dict) -> float:
    """Sum of a site's log-density over its plates, with the scale that it has in the ELBO."""
    log_density = site["fn"].log_prob(site["value"])
    return float(scale_and_mask(log_density, site["scale"], site["mask"]).double().sum())
