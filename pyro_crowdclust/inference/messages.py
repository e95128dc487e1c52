"""Variational message passing among the local sites: assignments z, latents x, pair answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.families import (
    Gaussian,
    Moments,
    NormalInverseWishart,
    RowDensity,
    softmax_without_denormals,
)
from pyro_crowdclust.families.gaussian import second_moment
from pyro_crowdclust.families.potential import GaussianPotential
from pyro_crowdclust.inference.last_round import last_round
from pyro_crowdclust.protocols import Coupling


class SumCoupling:
    """The messages of several couplings of the same items; see ``Coupling``."""

    def __init__(self, *couplings: Coupling) -> None:
        self._couplings = couplings
        self.num_items = max(coupling.num_items for coupling in couplings)

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """What each of the first ``num_items`` items hears from all."""
        total = torch.zeros_like(assignments[: self.num_items])
        for coupling in self._couplings:
            heard = coupling.messages(assignments[: coupling.num_items], last)
            total[: coupling.num_items] += heard
        return total


@dataclass(frozen=True)
class LocalConditionals:
    """The two local updates of a mixture with Gaussian potentials; Luo et al. 2018, eq. 12, 14.

    Attributes
    ----------
    family
        Prior family of the components.
    log_weights
        E[log pi], shape ``[K]``; or, with what labels say of every item, ``[item, K]``.
    components
        E[t(theta_k)], shape ``[K, size]``.
    potential
        r(o) of every item; None where the latents are observed.
    observed
        Values of the latent sites where they are observed, ``[item, moments]``, else None.
    """

    family: RowDensity
    log_weights: Float[Tensor, "... cluster"]
    components: Float[Tensor, "cluster size"]
    potential: GaussianPotential | None
    observed: Float[Tensor, "item moments"] | None = None

    def _map(self, change: Callable[[Tensor], Tensor]) -> LocalConditionals:
        potential, observed = self.potential, self.observed
        if potential is not None:
            potential = GaussianPotential(*map(change, potential))
        if observed is not None:
            observed = change(observed)
        of_items = self.log_weights.dim() > 1
        log_weights = change(self.log_weights) if of_items else self.log_weights
        return replace(self, potential=potential, observed=observed, log_weights=log_weights)

    def first(self, count: int) -> LocalConditionals:
        """The same updates for the first ``count`` items."""
        return self._map(lambda part: part[:count])

    def with_fixed_globals(self) -> LocalConditionals:
        """The same updates, through which no gradient flows to weights and components."""
        return replace(
            self, log_weights=self.log_weights.detach(), components=self.components.detach()
        )

    @property
    def _local(self) -> Gaussian:
        """The family of a latent, which is behind a network and whole."""
        assert isinstance(self.family, NormalInverseWishart)
        return self.family.local

    def latent(self, assignments: Float[Tensor, "item cluster"]) -> Moments | None:
        """``eta_x = E[t(theta)][:2]^T E[z] + r(o)`` (eq. 12)."""
        if self.potential is None:
            return None
        local = self._local
        prior = assignments @ self.components[:, : local.size]
        return local.moments(prior + self.potential.natural_parameters())

    def first_logits(self) -> Float[Tensor, "item cluster"]:
        """``eta_z`` at the latent that the recognition network alone sees.

        The precision of its potentials is diagonal, so no matrix is factorized or multiplied.
        """
        if self.potential is None:
            return self.logits(None)
        variance = self.potential.precision.reciprocal()
        mean = self.potential.linear * variance
        second = second_moment(mean, variance.diag_embed())
        statistics = self._local.pack(mean, second)
        return self.log_weights + self.family.log_likelihoods(self.components, statistics)

    def logits(self, latent: Moments | None) -> Float[Tensor, "item cluster"]:
        """``eta_z = E[log pi] + E[t(theta)]^T E[(t(x), 1)]`` (eq. 14 without messages)."""
        value = self.observed if latent is None else latent.expected_statistics()
        assert value is not None  # there are potentials where latents are not observed
        return self.log_weights + self.family.log_likelihoods(self.components, value)

    def last_round(
        self,
        alone: Float[Tensor, "paired cluster"],
        assignments: Float[Tensor, "item cluster"],
        messages: Float[Tensor, "paired cluster"],
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """Eq. 12, then eq. 14: of the paired items without messages, and of all items.

        ``alone`` and ``assignments`` are q(z) of the round before.
        """
        of_items = self.log_weights.dim() > 1
        if self.potential is None or of_items or self._globals_learn or messages.requires_grad:
            return self._last_round_by_autograd(alone, assignments, messages)
        rounds = last_round(
            self._local,
            self.log_weights,
            self.components,
            self.potential,
            alone,
            assignments,
            messages,
        )
        return (
            LocalPosterior(rounds.alone_logits, rounds.alone),
            LocalPosterior(rounds.logits, rounds.latent, rounds.log_determinant),
        )

    @property
    def _globals_learn(self) -> bool:
        return self.components.requires_grad or self.log_weights.requires_grad

    def _last_round_by_autograd(
        self, alone: Tensor, assignments: Tensor, messages: Tensor
    ) -> tuple[LocalPosterior, LocalPosterior]:
        paired = self.first(messages.shape[0])
        unheard, latent = paired.latent(alone), self.latent(assignments)
        logits = self.logits(latent)
        heard = logits + nn.functional.pad(messages, (0, 0, 0, logits.shape[0] - messages.shape[0]))
        return (
            LocalPosterior(paired.logits(unheard), unheard),
            LocalPosterior(heard, latent),
        )


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
        places forever; with it, an isolated pair still can at
        ``|w| > 2 (1 + damping) / (1 - damping)``.
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
        self, conditionals: LocalConditionals, coupling: Coupling | None = None
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """q of a batch: of the items with answers as if they had none, and of all items.

        Without a ``coupling`` both are the same.
        """
        with torch.no_grad():
            logits = conditionals.first_logits()
            if conditionals.potential is not None:
                for _ in range(self.iterations - 1):
                    assignments = softmax_without_denormals(logits)
                    logits = conditionals.logits(conditionals.latent(assignments))
            assignments = softmax_without_denormals(logits)
            if coupling is None:
                alone = messages = assignments[:0]
            else:
                alone = assignments[: coupling.num_items]
                heard = self._exchange(conditionals, logits, assignments, coupling)
                assignments = torch.cat([heard, assignments[coupling.num_items :]])
        if coupling is not None:
            messages = coupling.messages(assignments, last=True)
        unheard, joined = conditionals.last_round(alone, assignments, messages)
        return (joined if coupling is None else unheard), joined

    def _exchange(
        self,
        conditionals: LocalConditionals,
        logits: Tensor,
        assignments: Tensor,
        coupling: Coupling,
    ) -> Float[Tensor, "paired cluster"]:
        alone = logits = logits[: coupling.num_items]
        assignments = assignments[: coupling.num_items]
        paired = conditionals.first(coupling.num_items)
        for iteration in range(self.message_iterations):
            if iteration > 0:
                alone = paired.logits(paired.latent(assignments))
            logits, assignments = self.exchange(alone, logits, assignments, coupling)
        return assignments

    def exchange(
        self,
        alone: Float[Tensor, "paired cluster"],
        logits: Float[Tensor, "paired cluster"],
        assignments: Float[Tensor, "paired cluster"],
        coupling: Coupling,
    ) -> tuple[Float[Tensor, "paired cluster"], Float[Tensor, "paired cluster"]]:
        """Rounds of messages among the z: log q(z) and q(z) after them.

        ``logits`` and ``assignments`` are what these were before, and ``alone`` is log q(z) without
        any messages.
        """
        for _ in range(self.exchanges):
            target = alone + coupling.messages(assignments)
            # No lerp, which makes NaN of two -inf: a known label leaves one cluster possible.
            logits = (1 - self.damping) * target + self.damping * logits
            assignments = softmax_without_denormals(logits)
        return logits, assignments
