"""Variational message passing among the local sites: assignments z, latents x, pair answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.families import Moments, NormalInverseWishart

# Up to this many paired items the couplings form a dense matrix (8 MB in float64); beyond, and
# only there, messages are summed pair by pair.
_DENSE_LIMIT = 1024


class PairCoupling:
    """Messages ``sum_j w_ij E[z_j]`` between the ends of answered pairs; Luo et al. 2018, eq. 14.

    ``w_ij = E[log p(L | same) - log p(L | different)]``, summed over the answers of the pair.

    Parameters
    ----------
    left, right
        The ends of every pair, as rows of the assignments, all below ``num_items``.
    weight
        w of every answer.
    num_items
        The first ``num_items`` rows of the assignments may be ends of pairs.
    """

    def __init__(
        self,
        left: Int[Tensor, " pair"],
        right: Int[Tensor, " pair"],
        weight: Float[Tensor, " pair"],
        num_items: int,
    ) -> None:
        self.num_items = num_items
        self._left, self._right, self._weight = left, right, weight
        self._dense: Tensor | None = None
        if num_items <= _DENSE_LIMIT:
            zeros = weight.new_zeros(num_items, num_items)
            half = zeros.index_put((left, right), weight, accumulate=True)
            self._dense = half + half.mT

    def messages(self, assignments: Float[Tensor, "item cluster"]) -> Tensor:
        """What every paired item hears, shape ``[num_items, K]``."""
        if self._dense is not None:
            return self._dense @ assignments[: self.num_items]
        weight = self._weight.unsqueeze(-1)
        total = assignments.new_zeros(self.num_items, assignments.shape[-1])
        total = total.index_add(0, self._left, weight * assignments[self._right])
        return total.index_add(0, self._right, weight * assignments[self._left])


@dataclass(frozen=True)
class LocalPosterior:
    """q of the local sites of a batch.

    Attributes
    ----------
    logits
        Unnormalized log q(z), shape ``[item, K]``.
    latent
        Moments of q(x); None where the features are the latents.
    """

    logits: Float[Tensor, "item cluster"]
    latent: Moments | None

    @property
    def assignments(self) -> Float[Tensor, "item cluster"]:
        """q(z)."""
        return self.logits.softmax(-1)


@dataclass(frozen=True)
class LocalConditionals:
    """The two local updates of a mixture with Gaussian potentials; Luo et al. 2018, eq. 12, 14.

    Attributes
    ----------
    family
        Prior family of the components.
    log_weights
        E[log pi], shape ``[K]``.
    components
        E[t(theta_k)], shape ``[K, size]``.
    potential
        r(o): natural parameters of the recognition potentials, ``[item, d + d^2]``; None where
        the latents are observed.
    observed
        Values of the latent sites where they are observed, ``[item, moments]``, else None.
    """

    family: NormalInverseWishart
    log_weights: Float[Tensor, " cluster"]
    components: Float[Tensor, "cluster size"]
    potential: Float[Tensor, "item natural"] | None
    observed: Float[Tensor, "item moments"] | None = None

    def rows(self, stop: int) -> LocalConditionals:
        """The same updates for the first ``stop`` items."""
        return LocalConditionals(
            self.family,
            self.log_weights,
            self.components,
            None if self.potential is None else self.potential[:stop],
            None if self.observed is None else self.observed[:stop],
        )

    def detach(self) -> LocalConditionals:
        """The same updates, through which no gradient flows."""
        parts = (self.log_weights, self.components, self.potential, self.observed)
        return LocalConditionals(
            self.family, *(None if part is None else part.detach() for part in parts)
        )

    def latent(self, assignments: Float[Tensor, "item cluster"] | None) -> Moments | None:
        """``eta_x = E[t(theta)][:2]^T E[z] + r(o)`` (eq. 12); from r(o) alone without z."""
        if self.potential is None:
            return None
        local = self.family.local
        if assignments is None:
            return local.moments(self.potential)
        prior = assignments @ self.components[:, : local.size]
        return local.moments(prior + self.potential)

    def logits(self, latent: Moments | None) -> Float[Tensor, "item cluster"]:
        """``eta_z = E[log pi] + E[t(theta)]^T E[(t(x), 1)]`` (eq. 14 without messages)."""
        value = self.observed if latent is None else latent.flat()
        statistics = self.family.observation_statistics(value)
        return self.log_weights + statistics @ self.components.mT


def solve_without_answers(conditionals: LocalConditionals, iterations: int) -> LocalPosterior:
    """Alternate eq. 12 and 14 without messages, starting from the potentials alone.

    Only the last round is differentiable: at the fixed point the earlier ones add little, and
    any q gives a bound.
    """
    with torch.no_grad():
        fixed = conditionals.detach()
        assignments = fixed.logits(fixed.latent(None)).softmax(-1)
        if conditionals.potential is not None:
            for _ in range(iterations - 1):
                assignments = fixed.logits(fixed.latent(assignments)).softmax(-1)
    latent = conditionals.latent(assignments)
    return LocalPosterior(conditionals.logits(latent), latent)


def solve_with_answers(
    conditionals: LocalConditionals,
    start: LocalPosterior,
    coupling: PairCoupling,
    iterations: int,
    damping: float,
    exchanges: int = 3,
) -> LocalPosterior:
    """Alternate eq. 12 and 14 with the messages of the answers, for the items that have any.

    One iteration is an update of x and ``exchanges`` rounds of messages among the z. All items
    move at once, so a round is damped: ``eta_z <- damping eta_z + (1 - damping) eta_z*``. Without
    damping, two items that were called different can change places forever. Only the last round
    is differentiable.
    """
    paired = coupling.num_items
    rows = conditionals.rows(paired)
    with torch.no_grad():
        fixed = rows.detach()
        logits, alone = start.logits[:paired].detach(), None
        for iteration in range(iterations):
            # The start is already the answer-free update of the first iteration.
            alone = logits if iteration == 0 else fixed.logits(fixed.latent(logits.softmax(-1)))
            for _ in range(exchanges):
                target = alone + coupling.messages(logits.softmax(-1))
                logits = torch.lerp(target, logits, damping)
        assignments = logits.softmax(-1)
    latent = rows.latent(assignments)
    logits = rows.logits(latent) + coupling.messages(assignments)
    return _replace_first(start, LocalPosterior(logits, latent))


def _replace_first(start: LocalPosterior, first: LocalPosterior) -> LocalPosterior:
    """``start`` with its first rows taken from ``first``."""
    paired = len(first.logits)

    def join(new: Tensor, old: Tensor) -> Tensor:
        return torch.cat([new, old[paired:]])

    latent = None
    if start.latent is not None and first.latent is not None:
        latent = Moments(*map(join, first.latent, start.latent))
    return LocalPosterior(join(first.logits, start.logits), latent)
