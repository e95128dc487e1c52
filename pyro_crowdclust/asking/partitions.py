"""Draws of which components are one cluster, given the answers and distances of components.

A component links to itself or to a larger one. Linked components are one cluster, which is named
after its largest component, the root (Blei and Frazier 2011, ordered by size instead of time):

    p(l_k = k) = 1 - d ,    p(l_k = j) = d [(1 - f) near_kj + f / n_k]  for the n_k larger ones
    d ~ Beta, f ~ Beta ,    p(answers | links) ~ exp(sum_{k < l, one cluster} G_kl)

Changing a link moves all components that are linked to this one, so that whole groups can be joined
with others. f is learned from the answers: the share of links that do not follow distances.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from pyro_crowdclust.partitions.categorical_draws import draw_categories_by

# Beta pseudo-counts of links to others and to oneself, and of far links and near ones.
_LINKED = (7.0, 3.0)
_FAR = (1.0, 9.0)
_DRAWS = 192
_SWEEPS = 16


def draw_roots(
    gain: Float[np.ndarray, "component component"],
    near: Float[np.ndarray, "component component"],
    start: Int[np.ndarray, " component"],
    generator: np.random.Generator,
) -> Int[np.ndarray, "draw component"]:
    """The root of every component, drawn by Gibbs sampling of the links.

    Parameters
    ----------
    gain
        G: gain in the log-likelihood of the answers if two components are one cluster; symmetric.
    near
        Nearness of the larger components, as shares; components are sorted by size, largest first,
        so only entries left of the diagonal are used.
    start
        A partition to start from: a number per component, equal for those in one cluster.
    generator
        Source of random numbers.

    Examples
    --------
    >>> gain = np.array([[0.0, -9.0, 0.0], [-9.0, 0.0, 9.0], [0.0, 9.0, 0.0]])
    >>> near = np.array([[0.0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]])
    >>> roots = draw_roots(gain, near, np.arange(3), np.random.default_rng(0))
    >>> (roots == [0, 1, 1]).all(1).mean() > 0.95
    np.True_
    """
    chains = _Chains.starting(gain, np.tril(near, -1), start, _DRAWS)
    for _ in range(_SWEEPS):
        chains.sweep(generator)
    return chains.roots


@dataclass
class _Chains:
    """Links of all chains, which are drawn in one batch."""

    gain: np.ndarray
    near: np.ndarray
    links: Int[np.ndarray, "draw component"]
    linked: Float[np.ndarray, " draw"]
    far: Float[np.ndarray, " draw"]
    roots: Int[np.ndarray, "draw component"] = field(init=False)

    def __post_init__(self) -> None:
        self._find_roots()

    @classmethod
    def starting(
        cls, gain: np.ndarray, near: np.ndarray, start: Int[np.ndarray, " component"], draws: int
    ) -> _Chains:
        number = len(start)
        links = np.arange(number)
        for one in range(1, number):
            mates = np.flatnonzero(start[:one] == start[one])
            if len(mates):
                links[one] = mates[near[one, mates].argmax()]
        linked, far = (np.full(draws, counts[0] / sum(counts)) for counts in (_LINKED, _FAR))
        return cls(gain, near, np.tile(links, (draws, 1)), linked, far)

    def _find_roots(self) -> None:
        rows = np.arange(len(self.links))
        self.roots = self.links.copy()
        for one in range(self.links.shape[1]):
            self.roots[:, one] = self.roots[rows, self.links[:, one]]

    def _hanging(self, one: int) -> Bool[np.ndarray, "draw component"]:
        """The components that are linked to a component, directly or not, itself included."""
        rows = np.arange(len(self.links))
        hangs = np.zeros(self.links.shape, dtype=bool)
        hangs[:, one] = True
        for other in range(one + 1, self.links.shape[1]):
            hangs[:, other] = hangs[rows, self.links[:, other]]
        return hangs

    def sweep(self, generator: np.random.Generator) -> None:
        """Draw every link given all others, then d and f given the links."""
        draws, number = self.links.shape
        rows = np.arange(draws)
        for one in range(1, number):
            hangs = self._hanging(one)
            # Gain if the component and all that is linked to it joins each other cluster.
            with_each = np.where(hangs, 0.0, hangs.astype(np.float64) @ self.gain)
            flat = (rows[:, None] * number + self.roots).ravel()
            of_cluster = np.bincount(flat, with_each.ravel(), draws * number).reshape(draws, number)
            larger = slice(0, one)
            far = self.far[:, None]
            prior = self.linked[:, None] * ((1 - far) * self.near[one, larger] + far / one)
            logits = np.empty((draws, one + 1))
            logits[:, larger] = np.log(prior) + of_cluster[rows[:, None], self.roots[:, larger]]
            logits[:, one] = np.log1p(-self.linked)
            chosen = draw_categories_by(generator, logits)
            self.links[:, one] = chosen
            root = np.where(chosen == one, one, self.roots[rows, chosen])
            self.roots = np.where(hangs, root[:, None], self.roots)
        others = np.arange(1, number)
        links = self.links[:, 1:]
        is_linked = links != others
        share = self.far[:, None] / others
        near = (1 - self.far[:, None]) * self.near[others, np.minimum(links, others)]
        is_far = is_linked & (generator.random(links.shape) * (share + near) < share)
        counts = is_linked.sum(1), (~is_linked).sum(1)
        self.linked = generator.beta(_LINKED[0] + counts[0], _LINKED[1] + counts[1])
        counts = is_far.sum(1), (is_linked & ~is_far).sum(1)
        self.far = generator.beta(_FAR[0] + counts[0], _FAR[1] + counts[1])
