"""Statistic-valued Pyro distributions of sorted pages: the homes of clusters, and placements.

A page has G groups and one more that has stayed empty. Every cluster k with items on the page has a
home h_k, the group where the worker means to put its items: one of the groups, or the empty one
(0). Two clusters with the same home are a *lumped* pair. Clusters without items on the page have no
home, a row of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import gammaln, logsumexp
from torch import Tensor
from torch.distributions import constraints

from pyro_crowdclust.distributions.statistics import StatisticValued

# log r_s, the prior log odds with which two clusters share a home, against two homes: on a sorted
# page, and on a lumped one, where clusters choose their homes independently.
LOG_OVERLAP = (math.log(0.01), 0.0)


@lru_cache(maxsize=4096)
def _log_counts(num_clusters: int, num_groups: int, log_overlap: float) -> np.ndarray:
    """``log F_g[n]``: n clusters on g groups, every overlapping pair counting ``overlap``.

    ``F_g[n] = sum_m binom(n, m) overlap^(m (m - 1) / 2) F_{g-1}[n - m]``, where the first group has
    m of them; shape ``[num_groups + 1, num_clusters + 1]``.
    """
    n = np.arange(num_clusters + 1)
    # Weight of n clusters in one group, divided by n!.
    one = n * (n - 1) / 2 * log_overlap - gammaln(n + 1)
    rest = n[:, None] - n
    shifted = np.where(rest >= 0, one[np.maximum(rest, 0)], -np.inf)
    rows = [np.where(n == 0, 0.0, -np.inf)]
    for _ in range(num_groups):
        rows.append(logsumexp(rows[-1] + shifted, axis=1))
    return np.stack(rows) + gammaln(n + 1)


@lru_cache(maxsize=4096)
def log_home_normalizer(num_clusters: int, num_groups: int, log_overlap: float) -> float:
    """``log Z = log sum_h prod_{k<l} overlap^[h_k = h_l > 0]`` over all h in ``{0..G}^K``.

    Any clusters can have the empty group as their home, so ``Z = sum_n binom(K, n) F_G[n]``,
    without a sum over the ``(G + 1)^K`` values of h.

    Examples
    --------
    >>> log_normalizer = log_home_normalizer(2, 3, np.log(0.5))  # 16 values, 3 of them overlap
    >>> round(float(np.exp(log_normalizer)), 6)
    14.5
    """
    if log_overlap == 0:
        return num_clusters * math.log(num_groups + 1)
    n = np.arange(num_clusters + 1)
    binomial = gammaln(num_clusters + 1) - gammaln(n + 1) - gammaln(num_clusters - n + 1)
    return float(logsumexp(binomial + _log_counts(num_clusters, num_groups, log_overlap)[-1]))


def overlap_of(homes: Float[Tensor, "*page cluster home"]) -> Float[Tensor, "*page"]:
    """``sum_{k<l} sum_{g>0} h_kg h_lg``: (expected) number of cluster pairs that share a home."""
    groups = homes[..., 1:]
    return (groups.sum(-2).square().sum(-1) - groups.square().sum((-2, -1))) / 2


def log_home_normalizers(
    num_seen: Int[Tensor, " page"], num_groups: Int[Tensor, " page"]
) -> Float[Tensor, "page state"]:
    """log Z_s of every page and state, in float64."""
    # One code for both sizes, as torch takes far longer to sort rows of two numbers.
    radix = int(num_groups.max()) + 1 if len(num_groups) else 1
    codes, place = (num_seen * radix + num_groups).unique(return_inverse=True)
    sizes = [divmod(code, radix) for code in codes.tolist()]
    rows = [[log_home_normalizer(*size, log) for log in LOG_OVERLAP] for size in sizes]
    table = torch.tensor(rows, dtype=torch.float64, device=num_groups.device)
    return table.reshape(-1, len(LOG_OVERLAP))[place]


class PageHomes(StatisticValued):
    """``p(h_s) = prod_{k<l} r_s^[h_sk = h_sl > 0] / Z_s``: homes on a page in state s.

    The value is one-hot homes of the clusters with items on the page, for each of the states with
    homes; those of the page's actual state count:
    ``log p = sum_s state_s (log r_s C(h_s) - log Z_s)``, where C is the number of overlapping
    pairs. It is linear in the state and in the home of every single cluster, so it is exact at the
    means of a q(s) q(h | s) in which clusters are independent given s.

    Parameters
    ----------
    state
        One-hot states of the pages or their probabilities, ``[page, state]``; only the first two,
        sorted and lumped, have homes.
    num_groups
        G of every page.
    num_clusters
        K.
    seen
        A function without arguments that returns which clusters have items on which page,
        ``[page, cluster]``; only called in simulations.
    """

    def __init__(
        self,
        state: Float[Tensor, "page state"],
        num_groups: Int[Tensor, " page"],
        num_clusters: int,
        seen: Callable[[], Tensor],
    ) -> None:
        self.state = state[:, : len(LOG_OVERLAP)]
        self.num_groups, self._seen = num_groups, seen
        shape = len(LOG_OVERLAP), num_clusters, int(num_groups.max()) + 1
        super().__init__(state.shape[:1], torch.Size(shape))

    def log_prob(self, value: Float[Tensor, "page homed cluster home"]) -> Float[Tensor, " page"]:
        log_overlap = self.state.new_tensor(LOG_OVERLAP)
        num_seen = value[:, 0].sum((-2, -1)).round().long()
        log_normalizers = log_home_normalizers(num_seen, self.num_groups)
        return (self.state * (overlap_of(value) * log_overlap - log_normalizers)).sum(-1)

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "page homed cluster home"]:
        """Exact draws: how many clusters each group has, then which."""
        self._one_draw(sample_shape)
        value = self.state.new_zeros(*self.batch_shape, *self.event_shape)
        seen = self._seen()
        for page, groups in enumerate(self.num_groups.tolist()):
            clusters = seen[page].nonzero().squeeze(1)
            for state, log_overlap in enumerate(LOG_OVERLAP):
                sizes = torch.tensor(_draw_sizes(len(clusters), groups, log_overlap))
                home = torch.arange(groups + 1).repeat_interleave(sizes)
                value[page, state, clusters[torch.randperm(len(clusters))], home] = 1.0
        return value


def _draw_sizes(num_clusters: int, num_groups: int, log_overlap: float) -> list[int]:
    """Draw the number of clusters without a home, and with each group as their home."""
    counts = _log_counts(num_clusters, num_groups, log_overlap)
    left, sizes = num_clusters, []
    for group in range(num_groups, -1, -1):
        n = np.arange(left + 1)
        binomial = gammaln(left + 1) - gammaln(n + 1) - gammaln(left - n + 1)
        # First those without a home, where F_G sums over the others; then one group after the
        # other.
        of_n = np.zeros(left + 1) if group == num_groups else n * (n - 1) / 2 * log_overlap
        log_weights = torch.from_numpy(binomial + of_n + counts[group][left - n])
        sizes.append(int(torch.distributions.Categorical(logits=log_weights).sample()))
        left -= sizes[-1]
    return sizes


class HomesAtMean(StatisticValued):
    """``q(h | s) = prod_k q(h_sk)``: its site returns the probabilities.

    ``log q = sum_s state_s sum_k log q(h_sk)``, at its own mean minus the entropy given the state.

    Parameters
    ----------
    probabilities
        q(h_sk = g), shape ``[page, state with homes, cluster, home]``.
    state
        See ``PageHomes``.
    """

    def __init__(
        self,
        probabilities: Float[Tensor, "page homed cluster home"],
        state: Float[Tensor, "page state"],
    ) -> None:
        self.probabilities = probabilities
        self.state = state[:, : probabilities.shape[1]]
        super().__init__(probabilities.shape[:1], probabilities.shape[1:])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "page homed cluster home"]:
        self._one_draw(sample_shape)
        return self.probabilities

    def log_prob(self, value: Float[Tensor, "page homed cluster home"]) -> Float[Tensor, " page"]:
        of_states = torch.special.xlogy(value, self.probabilities).sum((-2, -1))
        return (self.state * of_states).sum(-1)


class AtHome(StatisticValued):
    """``R_is = state_s sum_k z_ik [h_sk = g_i]``: 1 if an item is placed in its cluster's home.

    One value for each state with homes, 0 if the page is in another state. All items share one
    enumeration dimension, so an enumerated z must not be indexed by placements; like
    ``SameCluster`` this is therefore also a site of the guide, where its value is a probability.
    The likelihood is linear in R, so this is exact.

    Parameters
    ----------
    assignments
        One-hot z or probabilities of all items.
    state, homes
        Values of the sites of the pages, one-hot or probabilities.
    row, page, group
        For every placement: the item as a row of the assignments, the page, and the group.
    """

    adds_nothing = True

    def __init__(
        self,
        assignments: Float[Tensor, "*enumerated item cluster"],
        state: Float[Tensor, "page state"],
        homes: Float[Tensor, "page homed cluster home"],
        row: Int[Tensor, " placement"],
        page: Int[Tensor, " placement"],
        group: Int[Tensor, " placement"],
    ) -> None:
        self._assignments = assignments
        self._homes = state[:, : homes.shape[1], None, None] * homes
        self._row, self._page, self._group = row, page, group
        super().__init__(row.shape, homes.shape[1:2])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "placement homed"]:
        self._one_draw(sample_shape)
        if self._assignments.dim() > 2:
            raise ValueError(
                "z is enumerated, so it does not give the probability that placements are right: "
                "the guide must sample the site 'at_home' with distributions.AtHome(q_z, ...)"
            )
        homes = self._homes.movedim(-1, 1).flatten(0, 1)
        cell = self._page * self._homes.shape[-1] + self._group + 1
        own = self._assignments.index_select(0, self._row).to(homes.dtype)
        return (own.unsqueeze(1) * homes.index_select(0, cell)).sum(-1)

    def log_prob(self, value: Float[Tensor, "placement homed"]) -> Float[Tensor, " placement"]:
        return torch.zeros_like(value[:, 0])


def mean_homes(
    state: Float[Tensor, "page state"], homes: Float[Tensor, "page homed cluster home"]
) -> Float[Tensor, "page cluster home"]:
    """``sum_s state_s h_s``: homes in the actual state of a page; zero if that state has none."""
    return (state[:, : homes.shape[1], None, None] * homes).sum(1)


def placement_scores(
    accuracy: Float[Tensor, "*batch 2"], num_groups: Int[Tensor, "*batch"]
) -> tuple[Float[Tensor, "*batch homed"], Float[Tensor, "*batch homed"]]:
    """Log probabilities of a placement in the home and in each other group, by state of the page.

        sorted: log a                       and log((1 - a) / G)
        lumped: log(a + (1 - a) / (G + 1))  and log((1 - a) / (G + 1))

    On a sorted page a misplaced item is in another group; on a lumped page, where clusters share
    groups, it can also be in the home group by chance. At expectations of log a and log(1 - a) the
    sum is a bound, for the best q of whether a placement in the home is such a chance.

    Parameters
    ----------
    accuracy
        (log a, log (1 - a)) or its expectation.
    num_groups
        G of the page.

    Examples
    --------
    >>> accuracy = torch.tensor([0.8, 0.2]).log()
    >>> home, other = placement_scores(accuracy, torch.tensor(3))
    >>> home.exp() + 3 * other.exp()
    tensor([1., 1.])
    """
    right, slip = accuracy.unbind(-1)
    groups = num_groups.to(right.dtype)
    anywhere = slip - groups.log1p()
    home = torch.stack([right, torch.logaddexp(right, anywhere)], -1)
    return home, torch.stack([slip - groups.log(), anywhere], -1)


class GroupPlacement(StatisticValued):
    """The group of an item, among the G of its page and one that stayed empty.

    An attentive worker puts an item into the home of its cluster with probability a, otherwise into
    any of the G other groups (on a lumped page into any group, including the home); a careless
    worker puts it anywhere. With R_s = 1 at home and t_s = 1 in a state with homes, and
    ``placement_scores``,

        log p = sum_s R_s home_s + (t_s - R_s) other_s - (1 - sum_s t_s) log(G + 1)

    Parameters
    ----------
    at_home
        R of the observed placement, for every state with homes.
    accuracy
        (log a, log (1 - a)) of the page's worker or its expectation, ``[placement, 2]``.
    attentive
        t of the page or its probabilities.
    num_groups
        G of the page.
    home
        A function without arguments that returns the home of every item's cluster, one-hot rows
        ``[placement, home]``; only called in simulations.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        at_home: Float[Tensor, "placement homed"],
        accuracy: Float[Tensor, "placement 2"],
        attentive: Float[Tensor, "placement homed"],
        num_groups: Int[Tensor, " placement"],
        home: Callable[[], Tensor],
    ) -> None:
        self.at_home, self.accuracy, self.attentive = at_home, accuracy, attentive
        self.num_groups, self._home = num_groups, home
        super().__init__(num_groups.shape, torch.Size())

    def log_prob(self, value: Int[Tensor, " placement"]) -> Float[Tensor, " placement"]:
        home, other = placement_scores(self.accuracy, self.num_groups)
        score = self.at_home * home + (self.attentive - self.at_home) * other
        careless = 1 - self.attentive.sum(-1)
        return score.sum(-1) - careless * self.num_groups.to(score.dtype).log1p()

    def rsample(self, sample_shape: Any = ()) -> Int[Tensor, " placement"]:
        """A group 0, ..., G - 1, or G for the empty one."""
        self._one_draw(sample_shape)
        home = self._home().argmax(-1) - 1
        # Home 0, the empty group, has the number G here.
        home = torch.where(home < 0, self.num_groups, home)
        uniform = torch.rand(
            3, *self.batch_shape, dtype=self.accuracy.dtype, device=self.accuracy.device
        )
        right = uniform[0] < self.accuracy[:, 0].exp()
        step = 1 + (uniform[1] * self.num_groups).long()
        elsewhere = (home + step) % (self.num_groups + 1)
        anywhere = (uniform[2] * (self.num_groups + 1)).long()
        is_sorted, is_lumped = (self.attentive > 0.5).unbind(-1)
        slipped = torch.where(is_sorted, elsewhere, anywhere)
        return torch.where(right & (is_sorted | is_lumped), home, slipped)
