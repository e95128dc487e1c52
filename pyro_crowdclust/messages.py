"""Variational message passing among the local sites: assignments z, latents x, pair answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.families import Moments, NormalInverseWishart, softmax_without_denormals
from pyro_crowdclust.families.gaussian import inverse_cholesky, root_sensitivity

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
        return softmax_without_denormals(self.logits)

    def rows(self, index: slice) -> LocalPosterior:
        """q of some of the items."""
        latent = None if self.latent is None else Moments(*(part[index] for part in self.latent))
        return LocalPosterior(self.logits[index], latent)


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

    def _map(self, change: Callable[[Tensor], Tensor]) -> LocalConditionals:
        potential, observed = (
            None if part is None else change(part) for part in (self.potential, self.observed)
        )
        return replace(self, potential=potential, observed=observed)

    def first(self, count: int) -> LocalConditionals:
        """The same updates for the first ``count`` items."""
        return self._map(lambda part: part[:count])

    def with_first_twice(self, count: int) -> LocalConditionals:
        """The same updates for the first ``count`` items and, after them, for all items."""
        return self._map(lambda part: torch.cat([part[:count], part]))

    def detach(self) -> LocalConditionals:
        """The same updates, through which no gradient flows."""
        return self._map(Tensor.detach).with_fixed_globals()

    def with_fixed_globals(self) -> LocalConditionals:
        """The same updates, through which no gradient flows to weights and components."""
        return replace(
            self, log_weights=self.log_weights.detach(), components=self.components.detach()
        )

    def latent(self, assignments: Float[Tensor, "item cluster"]) -> Moments | None:
        """``eta_x = E[t(theta)][:2]^T E[z] + r(o)`` (eq. 12)."""
        if self.potential is None:
            return None
        local = self.family.local
        prior = assignments @ self.components[:, : local.size]
        return local.moments(prior + self.potential)

    def potential_alone(self) -> Moments | None:
        """The latent as the recognition network alone sees it, its precision being diagonal."""
        if self.potential is None:
            return None
        linear, quadratic = self.family.local.unpack(self.potential)
        precision = -2 * quadratic.diagonal(dim1=-2, dim2=-1)
        return Moments(linear / precision, precision.rsqrt().diag_embed())

    def logits(self, latent: Moments | None) -> Float[Tensor, "item cluster"]:
        """``eta_z = E[log pi] + E[t(theta)]^T E[(t(x), 1)]`` (eq. 14 without messages)."""
        value = self.observed if latent is None else latent.flat()
        statistics = self.family.observation_statistics(value)
        return torch.addmm(self.log_weights, statistics, self.components.mT)


@dataclass(frozen=True)
class LocalSolver:
    """Alternates eq. 12 and 14 to the local fixed point, first without messages, then with them.

    All but the last round run without gradients: at the fixed point the earlier ones add little,
    and any q gives a bound. The last rounds of both phases run as one.

    Attributes
    ----------
    iterations
        Updates of x without messages, at least 1, starting from the recognition potentials.
    message_iterations
        Updates of x with messages, at least 1, for items with answers.
    exchanges
        Rounds of messages among the z for every update of x.
    damping
        All items move at once, so a round of messages is damped: ``eta_z <- damping eta_z +
        (1 - damping) eta_z*``. Without damping, two items that were called different can change
        places forever; with it, an isolated pair still can at |w| > 2 (1 + damping) /
        (1 - damping).
    """

    iterations: int = 1
    message_iterations: int = 1
    exchanges: int = 3
    damping: float = 0.3

    def __post_init__(self) -> None:
        counts = (self.iterations, self.message_iterations, self.exchanges)
        if min(counts) < 1 or not 0 <= self.damping < 1:
            raise ValueError(f"need at least one round of each kind and damping in [0, 1): {self}")

    def solve(
        self, conditionals: LocalConditionals, coupling: PairCoupling | None = None
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """q of a batch: of the items with answers as if they had none, and of all items.

        Without a ``coupling`` both are the same.
        """
        with torch.no_grad():
            fixed = conditionals.detach()
            logits = fixed.logits(fixed.potential_alone())
            if fixed.potential is not None:
                for _ in range(self.iterations - 1):
                    logits = fixed.logits(fixed.latent(softmax_without_denormals(logits)))
            assignments = softmax_without_denormals(logits)
            if coupling is not None:
                heard = self._exchange(fixed.first(coupling.num_items), logits, coupling)
        if coupling is None:
            alone = _last_round(conditionals, assignments)
            return alone, alone
        # Rows: paired items alone, paired items with their messages, all other items.
        paired = coupling.num_items
        both = _last_round(
            conditionals.with_first_twice(paired),
            torch.cat([assignments[:paired], heard, assignments[paired:]]),
        )
        messages = coupling.messages(heard)
        with_messages = both.rows(slice(paired, None))
        logits = with_messages.logits
        logits = logits + nn.functional.pad(messages, (0, 0, 0, len(logits) - paired))
        return both.rows(slice(paired)), replace(with_messages, logits=logits)

    def _exchange(
        self, fixed: LocalConditionals, logits: Tensor, coupling: PairCoupling
    ) -> Float[Tensor, "paired cluster"]:
        alone = logits[: coupling.num_items]
        logits = alone
        for iteration in range(self.message_iterations):
            if iteration > 0:
                alone = fixed.logits(fixed.latent(softmax_without_denormals(logits)))
            for _ in range(self.exchanges):
                target = alone + coupling.messages(softmax_without_denormals(logits))
                logits = torch.lerp(target, logits, self.damping)
        return softmax_without_denormals(logits)


def _last_round(conditionals: LocalConditionals, assignments: Tensor) -> LocalPosterior:
    """Eq. 12, then eq. 14 without messages, differentiable in the recognition potentials."""
    globals_learn = conditionals.components.requires_grad or conditionals.log_weights.requires_grad
    if conditionals.potential is None or globals_learn:
        latent = conditionals.latent(assignments)
        return LocalPosterior(conditionals.logits(latent), latent)
    mean, root, logits = _LastRound.apply(
        conditionals.potential,
        assignments,
        conditionals.components,
        conditionals.log_weights,
        conditionals.family,
    )
    return LocalPosterior(logits, Moments(mean, root))


class _LastRound(torch.autograd.Function):
    """``LocalConditionals.latent`` and ``logits`` in one piece, with the gradient by hand.

    It is differentiable in the potentials alone and does in 6 small products what autograd does
    in some 60 steps. With S = U + U^T for the gradient U of E[x x^T], C the covariance and W the
    inverse Cholesky factor of the precision Lambda:

        grad m     = grad_m + u + S m,          grad h = C grad m
        grad Lambda = -W^T (W (S + grad_m h^T + h grad_m^T) W^T + Phi) W / 2

    where Phi, from the gradient of the root R = W^T, is that of ``inverse_cholesky``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        potential: Tensor,
        assignments: Tensor,
        components: Tensor,
        log_weights: Tensor,
        family: NormalInverseWishart,
    ) -> tuple[Tensor, Tensor, Tensor]:
        local = family.local
        natural = torch.addmm(potential, assignments, components[:, : local.size])
        linear, quadratic = local.unpack(natural)
        inverse = inverse_cholesky(-2 * quadratic)
        root = inverse.mT
        covariance = root @ inverse
        mean = (covariance @ linear.unsqueeze(-1)).squeeze(-1)
        second = torch.baddbmm(covariance, mean.unsqueeze(-1), mean.unsqueeze(-2))
        constants = log_weights + components[:, local.size :].sum(-1)
        statistics = local.pack(mean, second)
        logits = torch.addmm(constants, statistics, components[:, : local.size].mT)
        ctx.local = local
        ctx.save_for_backward(components, mean, linear, covariance, inverse)
        return mean, root, logits

    @staticmethod
    def backward(
        ctx: Any, mean_grad: Tensor, root_grad: Tensor, logits_grad: Tensor
    ) -> tuple[Tensor, None, None, None, None]:
        components, mean, linear, covariance, inverse = ctx.saved_tensors
        vector, matrix = ctx.local.unpack(logits_grad @ components[:, : ctx.local.size])
        symmetric = matrix + matrix.mT
        mean_grad = mean_grad + vector + (symmetric @ mean.unsqueeze(-1)).squeeze(-1)
        linear_grad = (covariance @ mean_grad.unsqueeze(-1)).squeeze(-1)
        outer = mean_grad.unsqueeze(-1) * linear.unsqueeze(-2)
        inner = inverse @ (symmetric + outer + outer.mT) @ inverse.mT
        inner = inner + root_sensitivity(root_grad.mT, inverse)
        # The potential holds -Lambda / 2, whose gradient is -2 grad Lambda.
        quadratic_grad = inverse.mT @ inner @ inverse
        return ctx.local.pack(linear_grad, quadratic_grad), None, None, None, None
