"""Pyro's bound for guides without score functions, which reads no number back from the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyro.infer import Trace_ELBO
from pyro.infer.util import is_identically_zero
from torch import Tensor


class DeviceELBO(Trace_ELBO):
    """``Trace_ELBO`` with ``sum log p - sum log q`` as its loss, and no more.

    Pyro's own reads the log-density of every site as a number, for which a GPU waits each time.
    Where all sites of the guide are reparameterized, or return their means, the loss is the plain
    difference. Any other guide is left to ``Trace_ELBO``.
    """

    def differentiable_loss(
        self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Tensor:
        loss = 0.0
        for model_trace, guide_trace in self._get_traces(model, guide, args, kwargs):
            if _has_scores(guide_trace):
                return super().differentiable_loss(model, guide, *args, **kwargs)
            loss = loss + guide_trace.log_prob_sum() - model_trace.log_prob_sum()
        return loss / self.num_particles


def _has_scores(trace: Any) -> bool:
    sites = (site for site in trace.nodes.values() if site["type"] == "sample")
    return any(not is_identically_zero(site["score_parts"].score_function) for site in sites)


__all__ = ["DeviceELBO"]
