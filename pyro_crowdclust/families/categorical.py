"""The categorical family, for local assignments.

Convention (Luo et al. 2018, appendix A.1), for ``size`` = K categories:

    eta   = unnormalized log-probabilities
    t(z)  = one-hot z
    log Z = logsumexp(eta)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy  # submodules are loaded when they are used
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pyro_crowdclust.families.family import ExponentialFamily
from pyro_crowdclust.families.summaries import PosteriorSummary

# Replaces 0 before the logarithm of a probability, or a division by a sum of probabilities.
SMALLEST_PROBABILITY = 1e-300


def softmax_without_denormals(logits: Float[Tensor, "*batch size"]) -> Tensor:
    """Softmax whose entries below the cube root of the smallest normal number are zero.

    Processors handle denormal numbers some ten times slower, and confident assignments are full
    of them; with this cut neither probabilities nor their products are denormal.
    """
    return _Softmax.apply(logits) if logits.requires_grad else _softmax(logits)


def _softmax(logits: Float[Tensor, "*batch size"]) -> Tensor:
    smallest = torch.finfo(logits.dtype).tiny ** (1 / 3)
    if logits.is_cpu:
        # torch's softmax takes three times as long where exponentials are denormal, and in short
        # rows.
        positive = (logits - logits.amax(-1, keepdim=True)).clamp_min_(2 * math.log(smallest))
        total = positive.exp_() @ positive.new_ones(positive.shape[-1])
        normalized = positive.div_(total.unsqueeze(-1))
    else:
        normalized = logits.softmax(-1)
    return torch.threshold_(normalized, smallest, 0.0)


class _Softmax(torch.autograd.Function):
    """``_softmax`` with an analytic gradient, instead of one step per operation."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        probabilities = _softmax(logits)
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (probabilities,) = ctx.saved_tensors
        weighted = probabilities * gradient
        return torch.addcmul(weighted, probabilities, weighted.sum(-1, keepdim=True), value=-1)


class CategoricalParameters(NamedTuple):
    """Standard parameters: ``probabilities``, shape ``[..., K]``, summing to one."""

    probabilities: Float[Tensor, "*batch size"]


@dataclass(frozen=True)
class Categorical(ExponentialFamily):
    """``Cat(z | p)`` over ``size`` categories; values are one-hot vectors.

    Natural parameters are defined up to a constant: ``standard`` then ``natural`` returns the
    normalized representative.

    Examples
    --------
    >>> import torch
    >>> Categorical(2).expected_statistics(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    size: int

    def natural(self, probabilities: Float[Tensor, "*batch size"]) -> Tensor:
        return probabilities.log()

    def standard(self, natural_parameters: Tensor) -> CategoricalParameters:
        return CategoricalParameters(natural_parameters.softmax(-1))

    def log_normalizer(self, natural_parameters: Tensor) -> Tensor:
        # At the largest logit the log-softmax is the difference of both. ``logsumexp`` is several
        # times slower where exponentials underflow, which is common in confident assignments.
        largest = natural_parameters.amax(-1)
        return largest - natural_parameters.log_softmax(-1).amax(-1)

    def log_normalizer_at_mean(self, natural_parameters: Tensor, mean: Tensor) -> Tensor:
        # For the most probable category log p = eta - log Z.
        return natural_parameters.amax(-1) - mean.amax(-1).log()

    def expected_statistics(self, natural_parameters: Tensor) -> Tensor:
        return softmax_without_denormals(natural_parameters)

    def sufficient_statistics(self, value: Float[Tensor, "*batch size"]) -> Tensor:
        return value

    def sample(self, natural_parameters: Tensor) -> Float[Tensor, "*batch size"]:
        return torch.distributions.OneHotCategorical(
            logits=natural_parameters, validate_args=False
        ).sample()

    def in_domain(self, natural_parameters: Tensor) -> Bool[Tensor, "*batch"]:
        # -inf is a valid logit (an impossible category) as long as one category is possible.
        legal = ~natural_parameters.isnan() & (natural_parameters != torch.inf)
        return legal.all(-1) & (natural_parameters > -torch.inf).any(-1)

    def summary(
        self, natural_parameters: Float[Tensor, "*batch size"], interval: float
    ) -> PosteriorSummary:
        one = scipy.stats.bernoulli(natural_parameters.softmax(-1).numpy(force=True))
        parts = one.mean(), one.std(), *one.interval(interval)
        return PosteriorSummary(*map(np.asarray, parts))

    def inner_product(self, natural_parameters: Tensor, statistics: Tensor) -> Tensor:
        # A category that cannot occur, eta = -inf, adds nothing where its probability is 0. The
        # root leaves room for weights, by which the gradient -eta is still multiplied.
        impossible = -math.sqrt(torch.finfo(natural_parameters.dtype).max)
        return (natural_parameters.clamp_min(impossible) * statistics).sum(-1)

    def kl_divergence(self, natural_parameters: Tensor, other: Tensor) -> Tensor:
        mean = self.expected_statistics(natural_parameters)
        difference = (natural_parameters - other).masked_fill(mean == 0, 0.0)
        cross = (difference * mean).sum(-1)
        return cross - self.log_normalizer(natural_parameters) + self.log_normalizer(other)
