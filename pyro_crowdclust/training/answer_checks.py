"""A check that answers about pairs depend on enumerated clusters through ``SameCluster`` only."""

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


def check_answers(model: Callable, model_trace: Trace, guide_trace: Trace, batch: Batch) -> None:
    """Raise a ``ValueError`` if answers depend on a site of items that the guide enumerates.

    Pyro sums over the values of all items at once: ``z[batch.left]`` is the same value for every
    pair, whatever the answers say, and the bound is wrong. The agreement of a pair is not, as the
    guide has a site for it.
    """
    sites = trace_sites(model_trace)
    same = [name for name, site in sites.items() if isinstance(site["fn"], SameCluster)]
    if not same or not batch.num_pairs:
        return
    plates = {frame.name for name in same for frame in sites[name]["cond_indep_stack"]}
    fixed = {name: site["value"] for name, site in sites.items() if not site["is_observed"]}

    def of_answers(values: dict[str, Tensor]) -> list[Tensor]:
        with torch.random.fork_rng():
            found = trace_sites(trace_of(poutine.condition(model, data=fixed | values), batch))
        return [
            unscaled_log_density(site)
            for name, site in found.items()
            if name not in fixed and plates & {frame.name for frame in site["cond_indep_stack"]}
        ]

    for name, site in trace_sites(guide_trace).items():
        if not site["infer"].get("enumerate") or name in same or name not in fixed:
            continue
        before = of_answers({})
        for other in _others(site):
            after = of_answers({name: other})
            pairs = zip(before, after, strict=True)
            if not all(torch.allclose(one, two, equal_nan=True) for one, two in pairs):
                raise ValueError(
                    f"the answers about pairs depend on {name!r} in another way than through the "
                    f"site {same[0]!r} of SameCluster, but the guide enumerates {name!r}: Pyro "
                    f"gives all items one value at a time, so that {name}[batch.left] is the same "
                    "for every pair, and the bound would be wrong. Let answers depend on "
                    f'{same[0]!r} only, or take {name!r} at its mean (see "Rates by worker and '
                    'cluster" in docs/own_model.md)'
                )


def _others(site: dict[str, Any]) -> Iterator[Tensor]:
    """Other values of a discrete site: the next ones of all items, and of every other item."""
    support = site["fn"].enumerate_support(expand=False).flatten()
    code = torch.searchsorted(support, site["value"])
    every = torch.ones_like(code)
    for step in (every, every.cumsum(-1) % 2):
        yield support[(code + step) % len(support)]
