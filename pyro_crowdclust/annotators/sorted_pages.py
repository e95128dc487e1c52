"""An annotator model of sorted pages, in which every item of a page, not every pair, is an answer.

    a_m ~ Beta,  (sorted, lumped, careless)_m ~ Dir            of every worker
    s_p | m ~ Cat                                              of every page: what state it is in
    h_p | s_p ~ PageHomes                                      the home group of every cluster
    g_i | z_i = k, h_p, s_p: attentive with a_m at home, else in any other group, or, on a lumped
                             page, in any at all; careless anywhere

Names of groups mean nothing; homes give them a meaning. Whatever the worker calls the groups, the
items of a cluster lie in its home group except for slips, each of which counts once. On a *sorted*
page clusters have homes of their own; on a *lumped* page several may share a home, by chance, and
this does not count against the worker's other pages; a *careless* page carries no information. All
sites are conjugate. Messages between items and clusters' homes replace those between the ends of
pairs, at ``|S| K`` numbers a page.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.page_coupling import PAGE_STATES, PageCoupling, PagePosterior
from pyro_crowdclust.annotators.page_sites import PageSites
from pyro_crowdclust.distributions.pages import LOG_OVERLAP, placement_scores
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.families import Beta, Dirichlet
from pyro_crowdclust.files.parts import described
from pyro_crowdclust.minibatches.pages import BatchPages


@described
class SortedPages(nn.Module):
    """Workers who sort pages into groups.

    Parameters
    ----------
    num_workers
        M.
    accuracy
        Pseudo-counts (right, misplaced) of the Beta prior of the share of items that a worker puts
        into the home group of their cluster.
    habits
        Pseudo-counts of pages that are sorted, lumped and careless; at least 1, so that point
        estimates have a mode.

    Raises
    ------
    ValueError
        For habits below 1.

    Examples
    --------
    >>> sorted(SortedPages(3).priors())
    ['accuracy', 'habits']
    """

    def __init__(
        self,
        num_workers: int,
        accuracy: tuple[float, float] = (4.0, 1.0),
        habits: tuple[float, float, float] = (8.0, 1.5, 1.5),
    ) -> None:
        super().__init__()
        if min(habits) < 1:
            raise ValueError(f"habits are {habits}, but must be pseudo-counts of at least 1")
        self.num_workers = num_workers
        right, misplaced = (torch.tensor(count, dtype=torch.float64) for count in accuracy)
        pages = torch.tensor(habits, dtype=torch.float64)
        beta, dirichlet = Beta(), Dirichlet(len(PAGE_STATES))
        self.accuracy = ConjugatePrior(
            beta, beta.natural(right, misplaced), num_workers, dims=("worker",)
        )
        self.habits = ConjugatePrior(
            dirichlet, dirichlet.natural(pages), num_workers, dims=("worker", "page_state")
        )

    def priors(self) -> dict[str, ConjugatePrior]:
        """The global sites of the workers, by name."""
        return {"accuracy": self.accuracy, "habits": self.habits}

    def sites(self, owners: Float[Tensor, "component cluster"] | None = None) -> PageSites:
        """The verbs of the sites; ``owners`` as in ``sites_of``."""
        return PageSites(self.priors(), owners)

    def posterior(
        self,
        rates: dict[str, Float[Tensor, "worker size"]],
        assignments: Float[Tensor, "item cluster"],
        pages: BatchPages,
    ) -> PagePosterior:
        """q of the states and homes of some pages, given q(z) of their items."""
        return PageCoupling(rates, pages, len(assignments)).posterior(assignments)

    @torch.no_grad()
    def expected_counts(
        self,
        rates: dict[str, Float[Tensor, "worker size"]],
        assignments: Float[Tensor, "item cluster"],
        pages: BatchPages,
    ) -> dict[str, Float[Tensor, "worker size"]]:
        """What the pages add to the natural parameters of the workers' sites, given q(z).

        With ``R_ps`` the expected placements at home among the n_p of page p in state s, and e_ps
        the share of these that lie there by chance (0 on a sorted page),

            right_m = sum_{p of m} sum_s q(s_p = s) R_ps (1 - e_ps)
            misplaced_m = sum_{p of m} sum_s q(s_p = s) n_p - right_m
            habits_m = sum_{p of m} q(s_p)

        over the states with homes, where ``e = p(slip into the home) / p(at home)``.
        """
        found = self.posterior(rates, assignments, pages)
        placed = pages.counts(assignments)
        at_home = (found.homes[..., 1:] * placed.unsqueeze(1)).sum((-2, -1))
        attentive = found.states[:, : at_home.shape[1]]
        home, other = placement_scores(rates["accuracy"][pages.worker], pages.num_groups)
        # Only on a lumped page an item can slip into the group that is its cluster's home.
        by_chance = (other - home).exp() * (home.new_tensor(LOG_OVERLAP) == 0)
        right = (attentive * at_home * (1 - by_chance)).sum(1)
        number = attentive.sum(1) * placed.sum((1, 2))
        of_pages = {"accuracy": torch.stack([right, number - right], 1), "habits": found.states}
        return {
            name: one.new_zeros(self.num_workers, one.shape[1]).index_add(0, pages.worker, one)
            for name, one in of_pages.items()
        }


def pair_rates(
    accuracy: Float[np.ndarray, "*batch"], num_clusters: int | Int[np.ndarray, "*batch"]
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    """Sensitivity and specificity over pairs that follow from the accuracy a of placements.

    ``a^2 + (1 - a)^2 / (C - 1)`` and ``1 - 2 a (1 - a) / (C - 1) - (1 - a)^2 (C - 2) / (C - 1)^2``
    for C clusters, on sorted pages whose misplaced items lie anywhere else. Both increase with a
    above ``1 / C``, so that the ends of an interval of a give those of an interval of each.

    Examples
    --------
    >>> pair_rates(np.array([1.0]), 4)
    (array([1.]), array([1.]))
    """
    slip, others = 1 - accuracy, num_clusters - 1
    sensitivity = accuracy**2 + slip**2 / others
    specificity = 1 - 2 * accuracy * slip / others - slip**2 * (others - 1) / others**2
    return sensitivity, specificity
