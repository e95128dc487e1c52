"""Finds the site or parameter that is not finite if a bound is not."""

from __future__ import annotations

from collections.abc import Callable

import pyro
import torch

from pyro_crowdclust.inference.enumeration import trace_sites
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.protocols import (
    module_of,
)
from pyro_crowdclust.training.site_checks import traces_of


@torch.no_grad()
def find_not_finite(model: Callable, guide: Callable, batch: Batch) -> str | None:
    """The first site whose value or log-density is not finite, or else such a parameter.

    Returns a text with its name, or None if everything is finite.
    """
    try:
        return _bad_site(model, guide, batch) or _bad_parameter(model, guide)
    except (ValueError, RuntimeError):  # they no longer run, or a value has another shape
        return _bad_parameter(model, guide)


def _bad_site(model: Callable, guide: Callable, batch: Batch) -> str | None:
    model_trace, guide_trace = traces_of(model, guide, batch)
    for role, trace in (("guide", guide_trace), ("model", model_trace)):
        for name, site in trace_sites(trace).items():
            is_given = site["is_observed"]  # NaN in data are gaps, which are allowed
            if not is_given and not torch.isfinite(site["value"].to_dense()).all():
                return f"the value of site {name!r} in the {role} is not finite"
            if not torch.isfinite(site["fn"].log_prob(site["value"])).all():
                return f"the log-density of site {name!r} in the {role} is not finite"
    return None


def _bad_parameter(model: Callable, guide: Callable) -> str | None:
    named = dict(pyro.get_param_store().named_parameters())
    for role, part in (("guide", guide), ("model", model)):
        root = module_of(part)
        if root is not None:
            named |= {f"{role}.{name}": value for name, value in root.named_parameters()}
    for name, value in named.items():
        if not torch.isfinite(value).all():
            return f"the parameter {name!r} is not finite"
    return None
