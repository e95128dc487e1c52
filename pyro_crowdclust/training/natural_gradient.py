"""The optimizer of natural parameters by natural gradients, and its step sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_crowdclust.distributions.priors import ConjugatePosterior

StepSize = Callable[[int], float]

# A row whose step leaves its domain after this many halvings of rho is left unchanged.
_MAX_HALVINGS = 20


@dataclass(frozen=True)
class RobbinsMonro:
    """Step sizes ``rho_t = initial (1 + t / delay)^(-forgetting)``; Hoffman et al. 2013, eq. 26.

    Attributes
    ----------
    initial
        rho_0, in (0, 1].
    delay
        The number of steps, > 0, after which the decay sets in.
    forgetting
        Exponent in (0.5, 1] for convergence.

    Examples
    --------
    >>> RobbinsMonro(0.5, delay=10.0, forgetting=1.0)(10)
    0.25
    """

    initial: float = 1.0
    delay: float = 1.0
    forgetting: float = 0.7

    def __post_init__(self) -> None:
        if not 0 < self.initial <= 1 or self.delay <= 0 or not 0 <= self.forgetting <= 1:
            raise ValueError(
                "RobbinsMonro needs 0 < initial <= 1, delay > 0 and 0 <= forgetting <= 1, but they "
                f"are {self.initial}, {self.delay} and {self.forgetting}"
            )

    def __call__(self, step: int) -> float:
        """The step size rho_t of a step, from 0 on."""
        return self.initial * (1 + step / self.delay) ** -self.forgetting


def check_step_size(step_size: Any) -> None:
    """Raise a ``ValueError`` unless a step size is in (0, 1].

    Examples
    --------
    >>> check_step_size(1.5)
    Traceback (most recent call last):
    ValueError: step_size is 1.5, but a natural step needs 0 < step_size <= 1
    """
    if step_size is None or isinstance(step_size, str) or not 0 < step_size <= 1:
        raise ValueError(f"step_size is {step_size}, but a natural step needs 0 < step_size <= 1")


class NaturalGradient:
    """``eta <- eta - rho grad``, where ``eta.grad`` is the natural gradient of the loss.

    The loss must be the whole negative ELBO, not one divided by the number of items. With
    conjugate terms alone the step is ``eta <- (1 - rho) eta + rho (eta0 + sum E[t])``, the
    stochastic variational step; ``rho = 1`` on the full data is coordinate ascent (Luo et al.
    2018, eq. 17 first term; Hoffman et al. 2013).

    Without further terms the new value is a convex combination of valid points and so valid. With
    the term through the local messages (eq. 17, second term) it need not be: rho is then halved,
    row by row, until the row stays in its family's domain. On a GPU such a row is not changed.

    This is not a ``torch.optim.Optimizer``: the first of these in a process loads torch's compiler,
    which can take as long as a fit without networks.

    Parameters
    ----------
    posteriors
        The modules whose natural parameters are trained.
    step_size
        rho in (0, 1].
    """

    def __init__(self, posteriors: Iterable[ConjugatePosterior], step_size: float = 0.01) -> None:
        self.posteriors = list(posteriors)
        if not self.posteriors:
            raise ValueError("posteriors is empty, but there must be one to optimize")
        self.set_step_size(step_size)
        self.num_halvings = 0

    def set_step_size(self, step_size: float) -> None:
        """Use ``step_size`` from the next step on.

        Raises
        ------
        ValueError
            If it lies outside (0, 1].
        """
        check_step_size(step_size)
        self.step_size = step_size

    @torch.no_grad()
    def step(self) -> None:
        """Step every posterior, and keep it in its domain."""
        for posterior in self.posteriors:
            eta = posterior.natural_parameters
            if eta.grad is None:
                continue
            proposal = torch.sub(eta, eta.grad, alpha=self.step_size)
            legal = posterior.family.in_domain(proposal)
            if not eta.is_cpu:
                # bool(legal.all()) would wait for the device.
                proposal = torch.where(legal.unsqueeze(-1), proposal, eta)
            elif not bool(legal.all()):
                proposal = self._halved(posterior, eta.grad, proposal, legal)
            eta.copy_(proposal)

    def _halved(
        self, posterior: ConjugatePosterior, gradient: Tensor, proposal: Tensor, legal: Tensor
    ) -> Tensor:
        """The proposal with rho halved, row by row, until every row is legal or stays."""
        eta = posterior.natural_parameters
        rate = torch.full_like(legal, self.step_size, dtype=eta.dtype)
        for _ in range(_MAX_HALVINGS):
            self.num_halvings += 1
            rate = torch.where(legal, rate, rate / 2)
            proposal = eta - rate.unsqueeze(-1) * gradient
            legal = posterior.family.in_domain(proposal)
            if bool(legal.all()):
                break
        return torch.where(legal.unsqueeze(-1), proposal, eta)
