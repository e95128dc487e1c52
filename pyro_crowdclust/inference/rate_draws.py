"""Posteriors of workers' rates in draws of the items' clusters, by chains that start at a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.annotators.graded_pairs import GradedPairs
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.annotators.two_coin import TwoCoin
from pyro_crowdclust.data.crowd_data import CrowdData
from pyro_crowdclust.families import SMALLEST_PROBABILITY, OutsideDomain
from pyro_crowdclust.inference.page_chains import PageChains
from pyro_crowdclust.inference.pair_chains import MixtureDraw, PairChains
from pyro_crowdclust.minibatches.batch import Batch
from pyro_crowdclust.minibatches.making import full_batch, items_alone, needed_batch

# Many chains and few steps, since a step of one chain takes hardly less than one of all.
_PAIR_CHAINS, _UNUSED_OF_PAIRS, _DRAWS_OF_PAIRS = 16, 20, 40
_PAGE_CHAINS, _UNUSED_OF_PAGES, _DRAWS_OF_PAGES = 4, 100, 150
# Draws of more answers, or features, times components take long, and so many determine clusters.
_MAX_DRAWN = 50_000
# A component, or cluster, with fewer expected items has no part in the draws.
_SEEN = 0.5


@runtime_checkable
class SupportsMixtureDraws(Protocol):
    """A guide of a mixture whose weights and components can be drawn, given those of the items."""

    def mixture_draws(self, batch: Batch, used: Int[Tensor, " used"]) -> MixtureDraw | None:
        """Draws for the components that are used; None where these are not conjugate."""


def drawn_by_pairs(
    guide: Any, annotators: TwoCoin | GradedPairs, data: CrowdData
) -> dict[str, Float[Tensor, "draw worker size"]] | None:
    """Natural parameters of the rates of workers asked about pairs; None for many answers."""
    if data.num_pairs * guide.model.num_clusters > _MAX_DRAWN:
        return None
    try:
        return _drawn_by_pairs(guide, annotators, data)
    except OutsideDomain:  # of a drawn component, by rounding
        return _drawn_by_pairs(guide, annotators, data, draws_mixture=False)


def drawn_by_pages(
    guide: Any, annotators: SortedPages, data: CrowdData, accuracy: Float[np.ndarray, " worker"]
) -> dict[str, Float[Tensor, "draw worker size"]] | None:
    """Natural parameters of sorters' rates, at the components of the fit; None for many pages.

    Chains start at the ``accuracy``.
    """
    if len(data.needed_placements) * guide.model.num_clusters > _MAX_DRAWN:
        return None
    batch = needed_batch(data)
    starts, owners = _log_assignments(guide, data, batch), _owners_of(guide)
    if owners is not None:
        log_owners = owners.clamp_min(SMALLEST_PROBABILITY).log()
        starts = [(one.unsqueeze(2) + log_owners).logsumexp(1) for one in starts]
    seen = _seen(starts)
    log_alone, log_start = (one[:, seen] for one in starts)
    assert batch.pages is not None  # as there are placements
    rng = np.random.default_rng(0)  # a table is the same at every reading
    parts = accuracy, log_alone, log_start.exp(), batch.pages, _PAGE_CHAINS, rng
    return _after(_UNUSED_OF_PAGES, _DRAWS_OF_PAGES, PageChains(annotators, *parts))


def _drawn_by_pairs(
    guide: Any, annotators: TwoCoin | GradedPairs, data: CrowdData, draws_mixture: bool = True
) -> dict[str, Float[Tensor, "draw worker size"]]:
    device = next(guide.parameters()).device
    is_small = data.num_items * data.num_features * guide.model.num_clusters <= _MAX_DRAWN
    batch = full_batch(data) if is_small else needed_batch(data)
    starts, owners, mixture = _log_assignments(guide, data, batch), _owners_of(guide), None
    used = _seen(starts)
    log_alone, log_start = (one[:, used] for one in starts)
    if draws_mixture and is_small and isinstance(guide, SupportsMixtureDraws):
        mixture = guide.mixture_draws(batch.to(device, torch.float64), used)
    owners = None if owners is None else owners[used]
    parts = batch, log_alone, log_start.exp(), _PAIR_CHAINS, owners, mixture
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # a table is the same at every reading
        return _after(_UNUSED_OF_PAIRS, _DRAWS_OF_PAIRS, PairChains(annotators, *parts))


def _log_assignments(
    guide: Any, data: CrowdData, batch: Batch
) -> list[Float[Tensor, "item component"]]:
    """log q(z) of the items of a batch, without and with the answers about them."""
    device = next(guide.parameters()).device
    return [
        guide.infer(one.to(device, torch.float64)).logits.double().cpu().log_softmax(1)
        for one in (items_alone(data, batch.items), batch)
    ]


def _owners_of(guide: Any) -> Float[Tensor, "component cluster"] | None:
    """The clusters of components that may share one; None where every component is a cluster."""
    if "owners" not in guide.posteriors:
        return None
    owners: Tensor = guide.posteriors["owners"].mean().double().cpu()
    return owners


def _seen(starts: Sequence[Float[Tensor, "item part"]]) -> Int[Tensor, " seen"]:
    """The components, or clusters, that have items in one of the starts."""
    return (torch.stack(list(starts)).exp().sum(1).amax(0) > _SEEN).nonzero().squeeze(1)


def _after(
    num_unused: int, num_draws: int, chains: PairChains | PageChains
) -> dict[str, Float[Tensor, "draw worker size"]]:
    """What all chains draw after some steps, side by side."""
    found = [chains.step() for _ in range(num_unused + num_draws)][num_unused:]
    return {name: torch.cat([one[name] for one in found]) for name in found[0]}
