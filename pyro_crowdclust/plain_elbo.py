"""Pyro's bound for guides without score functions, with nothing in it that they do not need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer import Trace_ELBO
from pyro.infer.util import is_validation_enabled
from pyro.poutine.util import site_is_subsample
from torch import Tensor


class PlainELBO(Trace_ELBO):
    """``Trace_ELBO`` with ``sum log q - sum log p`` as its loss, and no more.

    Where all sites of the guide are reparameterized, or return their means, no site has a score
    function, and the loss is the plain difference. Pyro's own asks every site for its score parts
    and reads its log-density as a number, which takes a twentieth of a step on a processor, and
    for which a GPU is waited for. Any other guide, many particles, and steps with Pyro's checks on
    are left to ``Trace_ELBO``.
    """

    def differentiable_loss(
        self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        of_pyro = super().differentiable_loss
        is_messenger = isinstance(poutine.unwrap(guide), poutine.messenger.Messenger)
        if is_validation_enabled() or self.num_particles > 1 or is_messenger:
            return of_pyro(model, guide, *args, **kwargs)
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        if any(not site["fn"].has_rsample for site in _samples(guide_trace)):
            return of_pyro(model, guide, *args, **kwargs)
        replayed = poutine.replay(model, trace=guide_trace)
        model_trace = poutine.trace(replayed).get_trace(*args, **kwargs)
        return _log_density(guide_trace) - _log_density(model_trace)


def _samples(trace: poutine.Trace) -> list[dict[str, Any]]:
    sites = (site for site in trace.nodes.values() if site["type"] == "sample")
    return [site for site in sites if not site_is_subsample(site)]


def _log_density(trace: poutine.Trace) -> Tensor | float:
    """Of all sites, scaled and masked as Pyro does it, summed in float64."""
    total: Tensor | float = 0.0
    for site in _samples(trace):
        log_prob = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
        scale, mask = site["scale"], site["mask"]
        if isinstance(scale, Tensor) and scale.dim() == 1 and scale.shape == log_prob.shape:
            log_prob = scale_and_mask(log_prob, 1.0, mask).to(scale.dtype)
            total = total + torch.dot(scale, log_prob)
        elif isinstance(scale, Tensor):
            total = total + scale_and_mask(log_prob, scale, mask).sum(dtype=torch.float64)
        else:
            summed = scale_and_mask(log_prob, 1.0, mask).sum(dtype=torch.float64)
            total = total + (summed if scale == 1.0 else summed * scale)
    return total


__all__ = ["PlainELBO"]
