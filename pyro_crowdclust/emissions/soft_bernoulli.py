"""Bernoulli log-probabilities of values between 0 and 1, such as grey pixels."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import constraints


class SoftBernoulli(dist.TorchDistribution):
    """``log p(o | l) = sum_j o_j log sigmoid(l_j) + (1 - o_j) log sigmoid(-l_j)``, o in [0, 1].

    For o strictly between 0 and 1 it is the expected Bernoulli log-likelihood when every pixel is
    binarized at random with probability o.

    Parameters
    ----------
    logits
        l, shape ``[*batch, *event]``.
    event_dim
        The number of last dimensions over which j runs. Unlike with ``to_event``, only the sum is
        negated, and not every term, which saves time.
    validate_args
        As in torch's distributions.
    """

    arg_constraints = {"logits": constraints.real}

    def __init__(
        self,
        logits: Float[Tensor, "*shape"],
        event_dim: int = 0,
        validate_args: bool | None = None,
    ) -> None:
        self.logits = logits
        split = logits.dim() - event_dim
        super().__init__(logits.shape[:split], logits.shape[split:], validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.unit_interval, self.event_dim)

    @property
    def mean(self) -> Float[Tensor, "*shape"]:
        return self.logits.sigmoid()

    def expand(self, batch_shape: Any, _instance: object = None) -> SoftBernoulli:
        logits = self.logits.expand(torch.Size(batch_shape) + self.event_shape)
        return SoftBernoulli(logits, self.event_dim, validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, "*shape"]:
        with torch.no_grad():
            return torch.bernoulli(self.mean.expand(torch.Size(sample_shape) + self.logits.shape))

    def log_prob(self, value: Float[Tensor, "*shape"]) -> Float[Tensor, "*batch"]:
        logits, value = torch.broadcast_tensors(self.logits, value)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -loss.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else -loss
