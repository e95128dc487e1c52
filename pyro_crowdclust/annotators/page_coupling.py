"""Messages between the items of sorted pages, and the posterior of the local sites of a page."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.pages import (
    LOG_OVERLAP,
    log_home_normalizers,
    mean_homes,
    overlap_of,
    placement_scores,
)
from pyro_crowdclust.minibatches.pages import BatchPages

# What the homes on a page look like, in this order.
PAGE_STATES = ("sorted", "lumped", "careless")

# Rounds over the homes of a page, which update all clusters at once and are damped by a half.
_HOME_ROUNDS = 8
# A cluster with fewer expected items on a page than this is not on it.
_SEEN = 0.5
# With fewer on all pages together, it gets the same messages as a cluster without items.
_ABSENT = 1e-6
# Log odds of a group that a page does not have, although the table has a column for it.
_NEVER = -1e9
# Merge gains are computed for this many pages at a time, to limit memory.
_PAGES_AT_A_TIME = 128


class PagePosterior(NamedTuple):
    """q(s) q(h | s) of the local sites of pages.

    Attributes
    ----------
    state_logits
        Unnormalized log q(s), ``[page, state]``.
    homes
        q(h | s) of sorted and of lumped pages, ``[page, state, cluster, home]``; zero for clusters
        without items on the page, that is with less than half an expected item.
    offered
        The same, with the homes that these clusters would have, so that they can gain items.
    """

    state_logits: Float[Tensor, "page state"]
    homes: Float[Tensor, "page homed cluster home"]
    offered: Float[Tensor, "page homed cluster home"]

    @property
    def states(self) -> Float[Tensor, "page state"]:
        """q(s)."""
        return self.state_logits.softmax(-1)

    @property
    def mean_homes(self) -> Float[Tensor, "page cluster home"]:
        """``q(attentive, h_k = g)``."""
        return mean_homes(self.states, self.homes)


class PageCoupling:
    """Messages between the items of sorted pages, which pass through the clusters' homes.

    With w_s the log odds of a placement at home against one other group (``placement_scores``), C
    the expected overlap of homes and F_s the bound of a page given its state,

        to z_i = k:     sum_p sum_s w_ps q(s_p) q(h_pk = g_i | s_p)
        to h_k = g | s: w_s sum_{i in g} q(z_i = k) + log r_s sum_{l != k} q(h_l = g | s)
        to s:           E[log habits_s] + F_s
        F_s = sum_i E[log p(g_i | s)] + log r_s C_s - log Z_s + entropy of q(h | s)
        F_careless = |S| log(1 / (G + 1))

    Pages can be careless in the last round only: before, the items of a page would be ignored until
    they agreed with features that may still be vague.

    Parameters
    ----------
    rates
        E[t] of the workers' accuracy and habits.
    pages
        The pages.
    num_items
        Only this many first rows of the assignments may be on pages.
    weighted
        Whether messages are multiplied by the weights of the pages.
    owners
        q(c) of every component, where clusters own components: homes belong to clusters, and
        assignments and messages to components. The message to component k is the sum over clusters
        m of ``q(c_k = m)`` times the message above to m.
    """

    def __init__(
        self,
        rates: dict[str, Float[Tensor, "worker size"]],
        pages: BatchPages,
        num_items: int,
        weighted: bool = False,
        owners: Float[Tensor, "component cluster"] | None = None,
    ) -> None:
        self.num_items, self._pages, self._owners = num_items, pages, owners
        accuracy = rates["accuracy"].index_select(0, pages.worker)
        right, wrong = placement_scores(accuracy, pages.num_groups)
        self._habits = rates["habits"].index_select(0, pages.worker)
        self._right, self._wrong = right, wrong
        self._chance = -pages.num_groups.to(right.dtype).log1p()
        self._sent = right - wrong
        if weighted:
            self._sent = self._sent * pages.weight.unsqueeze(-1)
        self._log_overlap = right.new_tensor(LOG_OVERLAP)
        place = torch.arange(pages.most_groups, device=right.device)
        self._outside = torch.where(place < pages.num_groups.unsqueeze(-1), 0.0, _NEVER)

    @torch.no_grad()
    def posterior(
        self, assignments: Float[Tensor, "item cluster"], careless: bool = True
    ) -> PagePosterior:
        """q(s) q(h | s) given q of the items' clusters, all pages at once.

        Without ``careless`` no page can be careless.
        """
        counts = self._pages.counts(assignments.to(self._right.dtype))
        return self.posterior_of(counts, careless)

    @torch.no_grad()
    def posterior_of(
        self, counts: Float[Tensor, "page cluster group"], careless: bool = True
    ) -> PagePosterior:
        """The same, given how many items of every cluster lie in every group."""
        # Clusters that are on no page all have the same posterior.
        absent = counts.sum((0, 2)) < _ABSENT
        same = absent.nonzero().squeeze(1)
        if len(same) > 1:
            kept = torch.cat([(~absent).nonzero().squeeze(1), same[:1]])
            place = torch.full_like(absent, len(kept) - 1, dtype=torch.long)
            place[kept] = torch.arange(len(kept), device=place.device)
            logits, *homes = self._posterior_of(counts[:, kept], careless)
            return PagePosterior(logits, *(one.index_select(2, place) for one in homes))
        return self._posterior_of(counts, careless)

    def _posterior_of(
        self, counts: Float[Tensor, "page cluster group"], careless: bool
    ) -> PagePosterior:
        seen = counts.sum(-1) >= _SEEN
        logits = self._home_logits(self._evidence(counts), seen)
        homes = logits.softmax(2)
        # log q(h) less its logit; the likeliest home gives it without another sum of exponentials.
        shift = homes.amax(2).log() - logits.amax(2)
        held = homes * seen[:, None, None]
        right = (held[:, :, 1:] * counts.mT.unsqueeze(1)).sum((-2, -1))
        num_placed = counts.sum((1, 2)).unsqueeze(-1)
        likelihood = right * self._right + (num_placed - right) * self._wrong
        negentropy = (held * logits).sum((-2, -1)) + (shift * seen.unsqueeze(1)).sum(-1)
        held, homes = held.mT, homes.mT
        divergence = negentropy - overlap_of(held) * self._log_overlap
        log_normalizers = log_home_normalizers(seen.sum(-1), self._pages.num_groups)
        attentive = likelihood - divergence - log_normalizers
        at_random = num_placed * self._chance.unsqueeze(-1)
        if not careless:
            at_random = torch.full_like(at_random, _NEVER)
        state_logits = self._habits + torch.cat([attentive, at_random], -1)
        return PagePosterior(state_logits, held, homes)

    def _evidence(
        self, counts: Float[Tensor, "page cluster group"]
    ) -> Float[Tensor, "page homed cluster home"]:
        """The evidence of the items of every cluster about its home; 0 for having none."""
        weight = (self._right - self._wrong)[..., None, None]
        evidence = weight * counts.unsqueeze(1) + self._outside[:, None, None]
        return nn.functional.pad(evidence, (1, 0))

    def _home_logits(
        self, evidence: Float[Tensor, "page homed cluster home"], seen: Bool[Tensor, "page cluster"]
    ) -> Float[Tensor, "page homed home cluster"]:
        """log q(h | s), unnormalized; clusters that are not on a page repel no others.

        The axis of homes comes before that of clusters: with only a few homes in the last axis
        torch takes eight times as long.
        """
        # Of many clusters few may be on any page; the others are only repelled by these.
        somewhere = seen.any(0).nonzero().squeeze(1)
        seen = seen.index_select(1, somewhere).float()
        of_states = []
        for state, overlap in enumerate(LOG_OVERLAP):
            logits = evidence[:, state].mT.clone(memory_format=torch.contiguous_format)
            # Where homes do not repel each other there is nothing to exchange.
            if overlap:
                # The rounds end before they settle to more digits than these.
                some = logits.index_select(2, somewhere).float()
                # With homes in the first axis torch's softmax takes a sixth of the time.
                some = some.transpose(0, 1).contiguous()
                of_groups = some[1:].clone()  # no cluster is repelled from the empty home
                for _ in range(_HOME_ROUNDS):
                    groups = some.softmax(0)[1:] * seen
                    repelled = groups.sum(-1, keepdim=True) - groups
                    some[1:].lerp_(of_groups.add(repelled, alpha=overlap), 0.5)
                held = (some.softmax(0)[1:] * seen).sum(-1, keepdim=True)
                logits[:, 1:].add_(held.transpose(0, 1), alpha=overlap)
                logits.index_copy_(2, somewhere, some.transpose(0, 1).to(logits))
            of_states.append(logits)
        return torch.stack(of_states, 1)

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """The sum of the messages to every item that may be on pages, ``[num_items, K]``."""
        if self._owners is None:
            return self._about_clusters(assignments, last).to(assignments.dtype)
        owners = self._owners.to(assignments.dtype)
        return self._about_clusters(assignments @ owners, last).to(assignments.dtype) @ owners.mT

    def _about_clusters(
        self, clusters: Float[Tensor, "item cluster"], last: bool
    ) -> Float[Tensor, "placed cluster"]:
        """The messages about the cluster of every item that may be on pages."""
        posterior = self.posterior(clusters, careless=last)
        table = self.group_messages(posterior).mT.flatten(0, 1)
        total = table.new_zeros(self.num_items, table.shape[-1])
        return total.index_add(0, self._pages.row, table.index_select(0, self._pages.cell))

    def group_messages(self, posterior: PagePosterior) -> Float[Tensor, "page cluster group"]:
        """The message about every cluster to items in every group of a page."""
        states = posterior.states[:, : self._sent.shape[1]]
        return ((states * self._sent)[..., None, None] * posterior.offered).sum(1)[..., 1:]

    def pair_weights(self) -> tuple[Float[Tensor, " page"], Float[Tensor, " page"]]:
        """Log odds of one cluster against two, for a pair in one group and for any other pair.

        If an item lies at home with probability a and in each other group with b, and clusters have
        homes of their own, two items lie in one group with probability ``a^2 + (G - 1) b^2`` in one
        cluster, and ``2 a b + (G - 2) b^2`` in two. A page of one group counts like one of two.
        """
        groups = self._pages.num_groups.clamp_min(2).to(self._right.dtype)
        right, wrong = self._right[:, 0].exp(), self._wrong[:, 0].exp()
        total = right + (groups - 1) * wrong
        right, wrong = right / total, wrong / total
        same = right.square() + (groups - 1) * wrong.square()
        different = 2 * right * wrong + (groups - 2) * wrong.square()
        return (same / different).log(), ((1 - same) / (1 - different)).log()

    def potential(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, ""]:
        """``sum_i <q(z_i), message_i>`` at the pages' own optimum, where its gradient is exact."""
        return (assignments * self.messages(assignments, last=True)).sum()

    @torch.no_grad()
    def merge_gain(
        self, assignments: Float[Tensor, "item cluster"]
    ) -> Float[Tensor, "cluster cluster"]:
        """What the bound would gain if two clusters were one, with all else on the pages unchanged.

        The best q(h_k) given the others adds ``F_k = log sum_g exp(evidence_kg + repulsion_kg)``.
        A cluster that replaces k and l has the evidence of both; the other one then has no items,
        and only its prior of homes counts.
        """
        posterior = self.posterior(assignments)
        evidence = self._evidence(self._pages.counts(assignments.to(self._right.dtype)))
        parts = evidence, posterior.homes, posterior.states, self._pages.num_groups
        of_parts = zip(*(part.split(_PAGES_AT_A_TIME) for part in parts), strict=True)
        return torch.stack([self._gain(*part) for part in of_parts]).sum(0)

    def _gain(self, evidence: Tensor, homes: Tensor, states: Tensor, groups: Tensor) -> Tensor:
        total = evidence.new_zeros(evidence.shape[2], evidence.shape[2])
        seen = homes[:, 0].sum(-1)
        both = seen.unsqueeze(1) * seen.unsqueeze(2)
        # A page that had both has one cluster less that needs a home.
        num_seen = seen.sum(-1).round().long()
        fewer = (num_seen - 1).clamp_min(0)
        spared = log_home_normalizers(num_seen, groups) - log_home_normalizers(fewer, groups)
        for state, overlap in enumerate(self._log_overlap):
            at, own = nn.functional.pad(homes[:, state, :, 1:], (1, 0)), evidence[:, state]
            others = at.sum(1, keepdim=True) - at
            alone = (own + overlap * others).logsumexp(-1) * seen
            # The homes of all others repel both.
            rest = overlap * (others.unsqueeze(1) - at.unsqueeze(2))
            joined = (own.unsqueeze(1) + own.unsqueeze(2) + rest).logsumexp(-1)
            either = seen.unsqueeze(1) + seen.unsqueeze(2) - both
            gain = joined * either - alone.unsqueeze(1) - alone.unsqueeze(2)
            # Their repulsion was counted twice, once in each of the two.
            gain = gain + overlap * (at @ at.mT) + both * spared[:, state, None, None]
            total += (states[:, state, None, None] * gain).sum(0)
        return total
