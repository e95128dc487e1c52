"""Splits that hold out placements: the group of an item on a page, given the other items there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust import CrowdData, Fitted
from pyro_crowdclust.annotators import pair_rates
from pyro_crowdclust.data import Placements
from pyro_crowdclust.distributions import WorkerSummary
from pyro_crowdclust.distributions.pages import placement_scores
from pyro_crowdclust.interface.holding_out.parts import folds, has_fewer
from pyro_crowdclust.minibatches import BatchPages

# Number of parts of the items in ``placement_parts``.
_PARTS = 4
# Fewer placements are not enough to score a fit by.
_MIN_PLACEMENTS = 20


@dataclass(frozen=True)
class PlacementSplit:
    """Data without the placements of some items, and without some of others, and those placements.

    Attributes
    ----------
    data
        All items, with the placements that are not held out.
    held_out
        The held-out placements.
    """

    data: CrowdData
    held_out: Placements

    @property
    def item(self) -> Int[Tensor, " placement"]:
        """The item of every placement that is held out."""
        return self.held_out.item

    def sentence(self, score: float) -> str:
        """A score in words."""
        return f"held-out placements are predicted at {score:.3f} nats a placement"

    @property
    def chance(self) -> float:
        """Mean log-probability, whatever the items are."""
        return float(self.by_chance.mean())

    @property
    def by_chance(self) -> Float[np.ndarray, " placement"]:
        """Log-probability of every held-out placement, whatever the item is.

        With n_g of the n other items of the page in group g of G, ``(n_g + 1) / (n + G)``; or
        ``1 / G`` of all, as of people who guess, if that is likelier.
        """
        held, counts = self.held_out, self.data.needed_placements.group_sizes.double() + 1
        total = self.data.needed_placements.page_sizes + held.num_groups
        by_size = (counts[held.page, held.group] / total[held.page]).log()
        even = -held.num_groups[held.page].double().log()
        return max(by_size, even, key=lambda one: float(one.mean())).numpy()

    @property
    def ends(self) -> Int[Tensor, "2 placement"]:
        """The item and the page of every held-out placement, in one numbering.

        Placements of an item, and those on a page, are dependent, like answers that share an item.
        """
        return torch.stack([self.held_out.item, self.data.num_items + self.held_out.page])

    def log_probability(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " placement"]:
        """``log p(g_i)`` of every held-out placement, by q(z_i) and the homes on its page.

        With q(s) and q(h | s) of a page given the placements on it that are not held out
        (``SortedPages``), and the mean of the worker's accuracy,

            p(g_i = g) = sum_s q(s) sum_k q(z_i = k) p(g | h_k, s) + q(careless) / (G + 1)

        divided by ``1 - p(g_i = 0)``, as every group of a page has items.
        """
        return self._log_probability(result, workers, lambda q: q[self.held_out.item])

    def of_any_item(self, result: Fitted) -> Float[np.ndarray, " placement"]:
        """The same with the mean of q(z) over all items, so without what is known of the item.

        If placements have nothing to do with the items, the gain by a part
        (``pooling.comparison.gain_by_a_part``) of ``log_probability`` over this one is 0 on
        average, however a page is sorted.
        """
        number = len(self.held_out)
        return self._log_probability(result, None, lambda q: q.mean(0).expand(number, -1))

    def of_pairs(
        self, result: Fitted, workers: WorkerSummary | None = None
    ) -> Float[np.ndarray, " placement"]:
        """Log-probability of which items on the page lie with each held-out placement.

        It is the mean over the other items j of the page of ``log p([g_i = g_j])``. With s the
        probability that i and j share a cluster, G the groups of the page, and the worker's mean
        accuracy,

            p(g_i = g_j) = s p_1 + (1 - s) p_0
            p_1 = (h_sorted + h_lumped) sensitivity + h_careless / G
            p_0 = h_sorted (1 - specificity) + (h_lumped + h_careless) / G

        (``pair_rates`` of G). The habits h are those of the prior. By its own habits, a fit with
        many small clusters calls pages lumped, and their items lie together by chance, however
        surely it says that they do not share a cluster.
        """
        held, (own, left, right, lie_together) = self.held_out, self._pairs
        page = held.page[own]
        worker = held.worker[page].numpy()
        summary = result.guide.workers() if workers is None else workers
        habits = result.model.annotators.habits
        pages = habits.family.standard(habits.natural_parameters).concentration.numpy(force=True)
        in_order, lumped, careless = (pages / pages.sum(1, keepdims=True))[worker].T
        groups = held.num_groups[page].clamp_min(2).numpy()
        accuracy = summary.rates["accuracy"].mean[worker]
        sensitivity, specificity = pair_rates(accuracy, groups)
        if_same = (in_order + lumped) * sensitivity + careless / groups
        if_different = in_order * (1 - specificity) + (lumped + careless) / groups
        same = result.same_cluster_by_position(left.numpy(), right.numpy()).clip(0, 1)
        together = same * if_same + (1 - same) * if_different
        found = np.log(np.where(lie_together, together, 1 - together))
        number = np.bincount(own, minlength=len(held)).clip(1)
        return np.bincount(own, found, len(held)) / number

    @cached_property
    def _pairs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Every held-out placement with every other one on its page, held out or not.

        These are the number of the held-out placement, the two items, and whether they lie in one
        group.
        """
        held, kept = self.held_out, self.data.needed_placements
        item, page, group = (
            torch.cat(both)
            for both in ((held.item, kept.item), (held.page, kept.page), (held.group, kept.group))
        )
        by_page, sizes = page.argsort(stable=True), torch.bincount(page, minlength=kept.num_pages)
        number = sizes[held.page]
        own = torch.arange(len(held)).repeat_interleave(number)
        place = torch.arange(len(own)) - (number.cumsum(0) - number)[own]
        other = by_page[(sizes.cumsum(0) - sizes)[held.page[own]] + place]
        own, other = own[other != own], other[other != own]
        return own, item[own], item[other], group[own] == group[other]

    def _log_probability(
        self,
        result: Fitted,
        workers: WorkerSummary | None,
        of_placed: Callable[[Tensor], Float[Tensor, "placement cluster"]],
    ) -> Float[np.ndarray, " placement"]:
        kept, held = self.data.needed_placements, self.held_out
        every = torch.arange(kept.num_pages), torch.arange(result.data.num_items)
        assignments = torch.from_numpy(np.array(result.probabilities))
        rates, annotators = result.guide.rate_statistics(), result.model.annotators
        pages = BatchPages.of(kept, *every)
        posterior = annotators.posterior(rates, assignments, pages)
        summary = result.guide.workers() if workers is None else workers
        mean = torch.as_tensor(summary.rates["accuracy"].mean)[pages.worker]
        accuracy = torch.stack([mean, 1 - mean], -1).log()
        right, wrong = (score.exp() for score in placement_scores(accuracy, pages.num_groups))
        placed, states = of_placed(assignments).unsqueeze(1), posterior.states[held.page]
        anywhere = 1 / (held.num_groups[held.page].double() + 1).unsqueeze(1)

        def probability(home: Int[Tensor, " placement"]) -> Float[Tensor, " placement"]:
            # [placement, homed, cluster]: probability that the cluster is at home there.
            homes = posterior.offered.movedim(3, 1)[held.page, home]
            at_home = (homes * placed).sum(2)
            of_states = wrong[held.page] + at_home * (right - wrong)[held.page]
            return (states * torch.cat([of_states, anywhere], 1)).sum(1)

        empty = probability(torch.zeros_like(held.group))
        return (probability(held.group + 1) / (1 - empty)).log().numpy()


def placement_split(
    data: CrowdData, share: float, generator: torch.Generator
) -> PlacementSplit | None:
    """Hold out a share of the placements; None if one part would have fewer than 20.

    Held out are all placements of some items, and single placements of others. With r the share of
    items that are on any page, a share r of the held-out placements is of the second kind: items
    that also have placements in the fit, which are as frequent there as among all items.
    """
    placements = data.needed_placements
    on_page = torch.bincount(placements.item, minlength=data.num_items) > 0
    share_on_page = float(on_page.double().mean())
    of_items = share * (1 - share_on_page)
    single = share * share_on_page / (1 - of_items)
    chosen = torch.rand(data.num_items, generator=generator) < of_items
    out = chosen[placements.item]
    out |= torch.rand(len(placements), generator=generator) < single
    if has_fewer(_MIN_PLACEMENTS, out, ~out):
        return None
    kept, held = (placements.at(part) for part in (~out, out))
    return PlacementSplit(data.with_parts(placements=kept), held)


def placement_parts(data: CrowdData, generator: torch.Generator) -> list[PlacementSplit]:
    """Splits that hold out all placements of a quarter of the items each, every item once.

    None of fewer than 20 placements, and none without others that stay.
    """
    placements = data.needed_placements
    if len(placements) < _MIN_PLACEMENTS:
        return []
    part = folds(torch.arange(data.num_items), _PARTS, generator)[placements.item]
    held_out = [part == one for one in range(_PARTS)]
    return [
        PlacementSplit(data.with_parts(placements=placements.at(~out)), placements.at(out))
        for out in held_out
        if not has_fewer(1, out, ~out)
    ]
