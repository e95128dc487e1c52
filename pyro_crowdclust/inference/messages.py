"""Variational message passing among the local sites: assignments z, latents x, pair answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.summaries import LocalPosterior
from pyro_crowdclust.families import Moments, NormalInverseWishart, softmax_without_denormals
from pyro_crowdclust.families.gaussian import second_moment
from pyro_crowdclust.families.potential import GaussianPotential
from pyro_crowdclust.protocols import Coupling


class SumCoupling:
    """The messages of several couplings of the same items; see ``Coupling``."""

    def __init__(self, *couplings: Coupling) -> None:
        self._couplings = couplings
        self.num_items = max(coupling.num_items for coupling in couplings)

    @classmethod
    def of(cls, *couplings: Coupling | None) -> SumCoupling | None:
        """The sum of the couplings that are not None; None if there is none."""
        found = [coupling for coupling in couplings if coupling is not None]
        return cls(*found) if found else None

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """Messages to each of the first ``num_items`` items from all couplings."""
        total = torch.zeros_like(assignments[: self.num_items])
        for coupling in self._couplings:
            messages = coupling.messages(assignments[: coupling.num_items], last)
            total[: coupling.num_items] += messages
        return total


class Conditionals(Protocol):
    """Interface of the local updates of a mixture for a solver."""

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the logits."""

    def with_fixed_globals(self) -> Conditionals:
        """The same updates, without gradients to weights and components."""

    def first_logits(self) -> Tensor:
        """``eta_z`` before any update of x, without messages."""

    def last_round(
        self, alone: Tensor, assignments: Tensor, messages: Tensor
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """q of the paired items without messages, and of all items."""


def _with_messages(
    logits: Float[Tensor, "item cluster"], messages: Float[Tensor, "paired cluster"]
) -> Float[Tensor, "item cluster"]:
    return logits + nn.functional.pad(messages, (0, 0, 0, len(logits) - len(messages)))


@dataclass(frozen=True)
class LocalConditionals:
    """The two local updates of a mixture with Gaussian potentials; Luo et al. 2018, eq. 12, 14.

    Attributes
    ----------
    family
        Prior family of the components.
    log_weights
        E[log pi], shape ``[K]``; or, plus the evidence of labels, ``[item, K]``.
    components
        E[t(theta_k)], shape ``[K, size]``.
    potential
        r(o) of every item.
    """

    family: NormalInverseWishart
    log_weights: Float[Tensor, "... cluster"]
    components: Float[Tensor, "cluster size"]
    potential: GaussianPotential

    @property
    def dtype(self) -> torch.dtype:
        """Of local arithmetic."""
        return self.components.dtype

    def first(self, count: int) -> LocalConditionals:
        """The same updates for the first ``count`` items."""
        potential = GaussianPotential(*(part[:count] for part in self.potential))
        of_items = self.log_weights.dim() > 1
        log_weights = self.log_weights[:count] if of_items else self.log_weights
        return replace(self, potential=potential, log_weights=log_weights)

    def with_fixed_globals(self) -> LocalConditionals:
        """The same updates, without gradients to weights and components."""
        return replace(
            self, log_weights=self.log_weights.detach(), components=self.components.detach()
        )

    def latent(self, assignments: Float[Tensor, "item cluster"]) -> Moments:
        """``eta_x = E[t(theta)][:2]^T E[z] + r(o)`` (eq. 12)."""
        local = self.family.local
        prior = assignments @ self.components[:, : local.size]
        return local.moments(prior + self.potential.natural_parameters())

    def first_logits(self) -> Float[Tensor, "item cluster"]:
        """``eta_z`` at the latent given by the recognition network alone.

        The precision of its potentials is diagonal, so no matrix is factorized or multiplied.
        """
        variance = self.potential.precision.reciprocal()
        mean = self.potential.linear * variance
        second = second_moment(mean, variance.diag_embed())
        statistics = self.family.local.pack(mean, second)
        return self.log_weights + self.family.log_likelihoods(self.components, statistics)

    def logits(self, latent: Moments) -> Float[Tensor, "item cluster"]:
        """``eta_z = E[log pi] + E[t(theta)]^T E[(t(x), 1)]`` (eq. 14 without messages)."""
        value = latent.expected_statistics()
        return self.log_weights + self.family.log_likelihoods(self.components, value)

    def last_round(
        self,
        alone: Float[Tensor, "paired cluster"],
        assignments: Float[Tensor, "item cluster"],
        messages: Float[Tensor, "paired cluster"],
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """Eq. 12, then eq. 14: of the paired items without messages, and of all items.

        ``alone`` and ``assignments`` are q(z) of the round before. All rows are updated together,
        since small matrices take their time by the number of operations.
        """
        count = len(messages)
        both = self._first_and_all(count)
        latent = both.latent(torch.cat([alone, assignments]))
        logits = both.logits(latent)
        return (
            LocalPosterior(logits[:count], Moments(*(part[:count] for part in latent))),
            LocalPosterior(
                _with_messages(logits[count:], messages),
                Moments(*(part[count:] for part in latent)),
            ),
        )

    def _first_and_all(self, count: int) -> LocalConditionals:
        """The same updates for the first ``count`` items, and then for all."""
        first = self.first(count)
        parts = zip(first.potential, self.potential, strict=True)
        potential = GaussianPotential(*(torch.cat(pair) for pair in parts))
        log_weights = self.log_weights
        if log_weights.dim() > 1:
            log_weights = torch.cat([first.log_weights, log_weights])
        return replace(self, potential=potential, log_weights=log_weights)


@dataclass(frozen=True)
class FixedConditionals:
    """The local update where ``eta_z_i = l_i + sum_j w_ij E[z_j]``, with the same l in every round.

    Attributes
    ----------
    own
        l of every item: with observed latents ``E[log pi] + E[t(theta)]^T u(x)`` (eq. 14 without
        eq. 12), with a network that predicts z ``log q(z | o)``.
    of_latents
        The update of the latents (eq. 12); None if they are observed.
    """

    own: Float[Tensor, "item cluster"]
    of_latents: LocalConditionals | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Of local arithmetic."""
        return self.own.dtype if self.of_latents is None else self.of_latents.dtype

    def first(self, count: int) -> FixedConditionals:
        """The same update for the first ``count`` items."""
        of_latents = None if self.of_latents is None else self.of_latents.first(count)
        return FixedConditionals(self.own[:count], of_latents)

    def with_fixed_globals(self) -> FixedConditionals:
        """The same update, without gradients to weights and components."""
        if self.of_latents is None:
            return FixedConditionals(self.own.detach())
        return replace(self, of_latents=self.of_latents.with_fixed_globals())

    def latent(self, assignments: Float[Tensor, "item cluster"]) -> Moments | None:
        """Eq. 12, if a latent is inferred."""
        return None if self.of_latents is None else self.of_latents.latent(assignments)

    def first_logits(self) -> Float[Tensor, "item cluster"]:
        """``eta_z`` without messages, the same before and after an update of x."""
        return self.own

    def last_round(
        self,
        alone: Float[Tensor, "paired cluster"],
        assignments: Float[Tensor, "item cluster"],
        messages: Float[Tensor, "paired cluster"],
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """Of the paired items without messages, and of all items."""
        paired = self.first(len(messages))
        return (
            LocalPosterior(paired.own, paired.latent(alone)),
            LocalPosterior(_with_messages(self.own, messages), self.latent(assignments)),
        )


@dataclass(frozen=True)
class LocalSolver:
    """One update of q(z), x and q(z): first logits, rounds of messages, then eq. 12 and 14.

    Only the last two run with gradients; any q gives a bound. What the items with answers would be
    without their messages is updated beside.

    Attributes
    ----------
    exchanges
        Rounds of messages among the z before the update of x, at least 1.
    damping
        All items move at once, so a round of messages is damped:
        ``eta_z <- damping eta_z + (1 - damping) eta_z*``. Without damping, two items with the
        answer "different" can swap clusters forever; with it, an isolated pair still can at
        ``|w| > 2 (1 + damping) / (1 - damping)``.
    """

    exchanges: int = 3
    damping: float = 0.3

    def __post_init__(self) -> None:
        if self.exchanges < 1 or not 0 <= self.damping < 1:
            raise ValueError(f"need at least one exchange and damping in [0, 1): {self}")

    def solve(
        self, conditionals: Conditionals, coupling: Coupling | None = None
    ) -> tuple[LocalPosterior, LocalPosterior]:
        """q of a batch: of the items with answers without their messages, and of all items.

        Without a ``coupling`` both are the same.
        """
        with torch.no_grad():
            logits = conditionals.first_logits()
            assignments = softmax_without_denormals(logits)
            if coupling is None:
                alone = messages = assignments[:0]
            else:
                alone, others = assignments.tensor_split([coupling.num_items])
                first = logits[: coupling.num_items]
                _, paired = self.exchange(first, first, alone, coupling)
                assignments = torch.cat([paired, others])
        if coupling is not None:
            messages = coupling.messages(assignments, last=True)
        without_messages, joined = conditionals.last_round(alone, assignments, messages)
        return (joined if coupling is None else without_messages), joined

    def exchange(
        self,
        alone: Float[Tensor, "paired cluster"],
        logits: Float[Tensor, "paired cluster"],
        assignments: Float[Tensor, "paired cluster"],
        coupling: Coupling,
    ) -> tuple[Float[Tensor, "paired cluster"], Float[Tensor, "paired cluster"]]:
        """Rounds of messages among the z: log q(z) and q(z) after them.

        ``logits`` and ``assignments`` are log q(z) and q(z) before, and ``alone`` is log q(z)
        without any messages.
        """
        for _ in range(self.exchanges):
            target = alone + coupling.messages(assignments)
            # Not lerp, which returns NaN for two -inf: with a known label only one cluster is
            # possible.
            logits = (1 - self.damping) * target + self.damping * logits
            assignments = softmax_without_denormals(logits)
        return logits, assignments

    def exchanged(
        self,
        alone: Float[Tensor, "item cluster"],
        coupling: Coupling,
        before: Float[Tensor, "paired cluster"] | None = None,
    ) -> Float[Tensor, "item cluster"]:
        """Log q(z) of all items after rounds of messages among those of a coupling.

        Parameters
        ----------
        alone
            log q(z) of all items without any messages.
        coupling
            The messages.
        before
            log q(z) where the rounds start; by default that without messages.
        """
        paired, others = alone[: coupling.num_items], alone[coupling.num_items :]
        first = paired if before is None else before
        log_paired, _ = self.exchange(paired, first, softmax_without_denormals(first), coupling)
        return torch.cat([log_paired, others])
