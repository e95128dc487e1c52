"""Chains of draws of sorted items' clusters and of sorters' rates, given components (Gibbs).

h_pk | s, z   propto  exp(w_s n_pkg) prod_{l != k} r_s^[h_pl = g]     one cluster after the other
s_p | h, z    propto  habits_s p(h | s) prod_i p(g_i | z_i, h, s)
z_i | h, s    propto  p(z_i) prod_{p of i} exp(w_s [h_pk = g_i])
a_m, habits_m from the counts of placements at home, and of pages in every state

with the symbols of ``SortedPages``. All clusters have homes on all pages, also those without items
there. A careless page has no homes: in its place are those that it would have if it was lumped, so
that it can become that (Carlin and Chib 1995).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.annotators.learned_rows import draw_log_shares
from pyro_crowdclust.annotators.sorted_pages import SortedPages
from pyro_crowdclust.distributions.pages import (
    LOG_OVERLAP,
    log_home_normalizers,
    placement_scores,
)
from pyro_crowdclust.minibatches.pages import BatchPages
from pyro_crowdclust.partitions.categorical_draws import draw_categories_by

_SORTED, _LUMPED, _CARELESS = range(3)


class PageChains:
    """All chains, drawn at the same time in one batch.

    Parameters
    ----------
    annotators
        The model of the sorters.
    accuracy
        The accuracy of every worker at which all chains start.
    log_clusters
        Log-probabilities of the clusters of every item of a batch, without its pages.
    clusters
        Probabilities with the pages, from which the first clusters are drawn.
    pages
        The pages of the batch.
    num_chains
        The number of independent chains.
    rng
        Source of all draws.
    """

    def __init__(
        self,
        annotators: SortedPages,
        accuracy: Float[np.ndarray, " worker"],
        log_clusters: Float[Tensor, "item cluster"],
        clusters: Float[Tensor, "item cluster"],
        pages: BatchPages,
        num_chains: int,
        rng: np.random.Generator,
    ) -> None:
        self.pages, self.rng, self.num_chains = pages, rng, num_chains
        self._log_clusters = log_clusters.expand(num_chains, *log_clusters.shape)
        self._prior = {
            name: prior.natural_parameters.double().cpu()
            for name, prior in annotators.priors().items()
        }
        shares = torch.as_tensor(accuracy).expand(num_chains, -1)
        self.log_accuracy = torch.stack([shares, 1 - shares], -1).log()
        habits = self._prior["habits"] + 1
        self.log_habits = (habits / habits.sum(1, keepdim=True)).log().expand(num_chains, -1, -1)
        # The log odds of a shared home; none on a page where homes are those of a lumped one.
        self._log_overlap = habits.new_tensor([*LOG_OVERLAP, 0.0])
        num_clusters = torch.full_like(pages.num_groups, log_clusters.shape[1])
        self._log_normalizer = log_home_normalizers(num_clusters, pages.num_groups)
        self.cluster = self._draw(clusters.log().expand_as(self._log_clusters))
        self.state = torch.full((num_chains, pages.num_pages), _SORTED)
        # Until the homes are drawn, all are the group that stayed empty.
        shape = num_chains, pages.num_pages, log_clusters.shape[1]
        self.home = torch.zeros(shape, dtype=torch.long)

    def step(self) -> dict[str, Float[Tensor, "chain worker size"]]:
        """Draw all sites once.

        Returns the natural parameters of the posteriors from which the rates were drawn, by site.
        """
        of_pages = self.log_accuracy[:, self.pages.worker]
        groups = self.pages.num_groups.expand(of_pages.shape[:-1])
        of_page = placement_scores(of_pages, groups)
        counts = self._counts()
        occupied = self._draw_homes(counts, *of_page)
        self._draw_states(counts, occupied, *of_page)
        self._draw_clusters(*of_page)
        natural = self._given_homes()
        # Those of Betas and Dirichlets are their concentrations less one.
        self.log_accuracy, self.log_habits = (
            draw_log_shares(natural[name].numpy() + 1, self.rng) for name in ("accuracy", "habits")
        )
        return natural

    def _draw(self, logits: Float[Tensor, "*batch value"]) -> Int[Tensor, "*batch"]:
        return torch.from_numpy(draw_categories_by(self.rng, logits.numpy()))

    def _counts(self) -> Float[Tensor, "chain page cluster home"]:
        """Items of every cluster in every group, after a column of zeros for the empty one."""
        pages, shape = self.pages, (*self.home.shape, self.pages.most_groups)
        first = torch.arange(self.num_chains).unsqueeze(1) * pages.num_pages + pages.page
        cell = (first * shape[2] + self.cluster[:, pages.row]) * shape[3] + pages.group
        counts = torch.bincount(cell.flatten(), minlength=int(np.prod(shape))).view(shape)
        return nn.functional.pad(counts.double(), (1, 0))

    def _draw_homes(
        self,
        counts: Float[Tensor, "chain page cluster home"],
        right: Float[Tensor, "chain page homed"],
        wrong: Float[Tensor, "chain page homed"],
    ) -> Float[Tensor, "chain page home"]:
        """Draw the homes of one cluster after the other; returns how many there are in a group."""
        homed = self.state.clamp(max=_LUMPED).unsqueeze(-1)
        sent = (right - wrong).gather(-1, homed)
        repelled = self._log_overlap[self.state].unsqueeze(-1)
        number = counts.shape[-1]
        places = torch.arange(number)
        never = torch.where(places <= self.pages.num_groups.unsqueeze(-1), 0.0, -torch.inf)
        shared = (places > 0).double()
        occupied = nn.functional.one_hot(self.home, number).sum(2).double()
        for cluster in range(counts.shape[2]):
            occupied -= nn.functional.one_hot(self.home[..., cluster], number)
            logits = sent * counts[:, :, cluster] + repelled * shared * occupied + never
            self.home[..., cluster] = self._draw(logits)
            occupied += nn.functional.one_hot(self.home[..., cluster], number)
        return occupied

    def _draw_states(
        self,
        counts: Float[Tensor, "chain page cluster home"],
        occupied: Float[Tensor, "chain page home"],
        right: Float[Tensor, "chain page homed"],
        wrong: Float[Tensor, "chain page homed"],
    ) -> None:
        groups, placed = self.pages.num_groups.double(), counts.sum((2, 3))
        at_home = counts.gather(-1, self.home.unsqueeze(-1)).squeeze(-1)
        overlaps = (occupied * (occupied - 1) / 2)[..., 1:].sum(-1)
        logits = self.log_habits[:, self.pages.worker].clone()
        for state in (_SORTED, _LUMPED):
            logits[..., state] += at_home.sum(-1) * (right - wrong)[..., state]
            logits[..., state] += placed * wrong[..., state]
            logits[..., state] += self._log_overlap[state] * overlaps
            logits[..., state] -= self._log_normalizer[:, state]
        # The homes in the place of those of a careless page: as of a lumped page, given its items.
        evidence = (right - wrong)[..., _LUMPED, None, None] * counts
        places = torch.arange(counts.shape[-1])
        beyond = places > self.pages.num_groups.unsqueeze(-1)
        evidence = evidence.masked_fill(beyond.unsqueeze(1), -torch.inf)
        chosen = evidence.gather(-1, self.home.unsqueeze(-1)).squeeze(-1)
        logits[..., _CARELESS] += (chosen - evidence.logsumexp(-1)).sum(-1)
        logits[..., _CARELESS] -= placed * groups.log1p()
        self.state = self._draw(logits)

    def _draw_clusters(
        self,
        right: Float[Tensor, "chain page homed"],
        wrong: Float[Tensor, "chain page homed"],
    ) -> None:
        pages = self.pages
        sent = nn.functional.pad(right - wrong, (0, 1)).gather(-1, self.state.unsqueeze(-1))
        is_home = self.home[:, pages.page] == (pages.group + 1).unsqueeze(-1)
        messages = is_home * sent[:, pages.page]
        self.cluster = self._draw(self._log_clusters.index_add(1, pages.row, messages))

    def _given_homes(self) -> dict[str, Float[Tensor, "chain worker size"]]:
        """Natural parameters of the rates, given clusters, homes and states."""
        pages, state = self.pages, self.state[:, self.pages.page]
        own = self.cluster[:, pages.row].unsqueeze(-1)
        is_home = self.home[:, pages.page].gather(-1, own).squeeze(-1) == pages.group + 1
        worker = pages.worker[pages.page]
        # A slip on a lumped page can end at home.
        right, slip = self.log_accuracy[:, worker].exp().unbind(-1)
        by_chance = slip / (pages.num_groups[pages.page] + 1)
        meant = torch.from_numpy(self.rng.random(right.shape)) * (right + by_chance) < right
        is_right = is_home & ((state != _LUMPED) | meant)
        of_placements = torch.stack([is_right, ~is_right], -1) & (state != _CARELESS).unsqueeze(-1)
        of_pages = nn.functional.one_hot(self.state, 3)
        parts = {"accuracy": (worker, of_placements), "habits": (pages.worker, of_pages)}
        return {
            name: self._prior[name]
            + torch.zeros(self.num_chains, *self._prior[name].shape, dtype=torch.float64).index_add(
                1, of_whom, counts.double()
            )
            for name, (of_whom, counts) in parts.items()
        }
