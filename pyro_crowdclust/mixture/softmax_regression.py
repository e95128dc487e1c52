"""Softmax regression with a Gaussian posterior and a bound that needs no draws.

    phi_k ~ N(0, diag(s^2, ..., s^2, s_0^2))        log p(y = k | x) = <phi_k, (x, 1)> - lse(x)

``lse`` is the log of the sum of the exponentiated scores, whose expectation under q(phi) has no
closed form. For independent scores with means m_k and variances v_k and any a on the simplex

    E[lse] <= sum_j a_j^2 v_j / 2 + log sum_k exp(m_k + (1 - 2 a_k) v_k / 2)

(Knowles and Minka 2011, the tilted bound; a = 0 is Jensen's inequality), which is exact for v = 0
and tightest at ``a_k`` proportional to ``exp(m_k + (1 - 2 a_k) v_k / 2)``. There the derivative in
v_k is ``a_k (1 - a_k) / 2``, so a natural step is a Newton step averaged over q, and a convex
combination of positive definite precisions.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pyro_crowdclust.distributions.plates import FullPlate
from pyro_crowdclust.distributions.priors import ConjugatePrior
from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.families import Gaussian
from pyro_crowdclust.files.parts import described

# Rounds of the fixed point of a; after any number of them the bound is a bound.
_TILT_ROUNDS = 12


@torch.no_grad()
def best_tilt(
    mean: Float[Tensor, "item class"], variance: Float[Tensor, "item class"]
) -> Float[Tensor, "item class"]:
    """The a of the tightest bound, by a damped fixed point."""
    tilt = mean.softmax(-1)
    for _ in range(_TILT_ROUNDS):
        tilt = (tilt + (mean + (0.5 - tilt) * variance).softmax(-1)) / 2
    return tilt


def expected_log_sum_exp(
    mean: Float[Tensor, "item class"], variance: Float[Tensor, "item class"]
) -> Float[Tensor, " item"]:
    """An upper bound of ``E[log sum_k exp(s_k)]`` for independent ``s_k ~ N(mean, variance)``.

    Examples
    --------
    >>> expected_log_sum_exp(torch.zeros(1, 2), torch.zeros(1, 2))  # log 2
    tensor([0.6931])
    """
    tilt = best_tilt(mean, variance)
    shifted = mean + (0.5 - tilt) * variance
    return (tilt.square() * variance).sum(-1) / 2 + shifted.logsumexp(-1)


def with_one(features: Float[Tensor, "item ..."]) -> Float[Tensor, "item weight"]:
    """``(x, 1)`` in float64."""
    x = features.flatten(1).double()
    return nn.functional.pad(x, (0, 1), value=1.0)


class _ZeroMeanPrior(StatisticValued):
    """``sum_f log N(phi_f | 0, 1 / precision_f)`` of statistics that begin and end as t(phi) does.

    Parameters
    ----------
    precision
        ``[weight]``.
    num_classes
        K.
    family
        Gaussian family of the statistics.
    """

    def __init__(self, precision: Float[Tensor, " weight"], num_classes: int, family: Gaussian):
        self._precision, self._family = precision, family
        super().__init__(torch.Size([num_classes]), torch.Size([family.size]))

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "class size"]:
        self._one_draw(sample_shape)
        shape = *self.batch_shape, len(self._precision)
        noise = torch.randn(shape, dtype=torch.float64, device=self._precision.device)
        return self._family.sufficient_statistics(noise * self._precision.rsqrt())

    def log_prob(self, value: Float[Tensor, "class size"]) -> Float[Tensor, " class"]:
        squares = self._family.unpack(value)[1].diagonal(dim1=-2, dim2=-1)
        constant = (self._precision.log() - math.log(2 * math.pi)).sum() / 2
        return constant - (squares * self._precision).sum(-1) / 2


@described
class SoftmaxRegression(nn.Module):
    """``p(y = k | x)``, with a Gaussian of full covariance over the weights of every class.

    Parameters
    ----------
    num_classes, num_features
        K and F. Memory grows with ``K F^2``: reduce features to a few hundred, and standardize
        them, since one prior scale serves all.
    scale
        s, the prior deviation of a weight; ``2 F^-1/2`` by default, so that scores of standardized
        features deviate by 2. Above 0.
    intercept_scale
        s_0, fixed, above 0.
    learn_scale
        Learn s by the ELBO, from ``scale`` on. With few answers the ELBO prefers a smaller scale
        than the one that predicts best.
    """

    def __init__(
        self,
        num_classes: int,
        num_features: int,
        scale: float | None = None,
        intercept_scale: float = 3.0,
        learn_scale: bool = False,
    ) -> None:
        super().__init__()
        self.num_classes, self.num_features = num_classes, num_features
        self.intercept_scale = intercept_scale
        self.family = Gaussian(num_features + 1)
        scale = 2 * max(num_features, 1) ** -0.5 if scale is None else scale
        for name, value in (("scale", scale), ("intercept_scale", intercept_scale)):
            if not value > 0:
                raise ValueError(f"{name} is {value}, but must be above 0")
        log_scale = torch.tensor(math.log(scale), dtype=torch.float64)
        self.log_scale = nn.Parameter(log_scale, requires_grad=learn_scale)
        precision = torch.diag(self.precision().detach())
        eta = self.family.pack(torch.zeros_like(precision[0]), -precision / 2)
        self.prior = ConjugatePrior(self.family, eta, num_classes)

    def precision(self) -> Float[Tensor, " weight"]:
        """Prior precision of the weights, the intercept's last."""
        weights = (-2 * self.log_scale).exp().expand(self.num_features)
        return torch.cat([weights, weights.new_tensor([self.intercept_scale**-2])])

    def distribution(self) -> StatisticValued:
        """The prior of the site ``coefficients``."""
        return _ZeroMeanPrior(self.precision(), self.num_classes, self.family)

    def sample(self) -> dict[str, Tensor]:
        """Run the site ``coefficients`` of a model; returns its value by name."""
        with FullPlate("coefficients_plate", self.num_classes):
            return {"coefficients": pyro.sample("coefficients", self.distribution())}

    def log_joint(
        self,
        statistics: Float[Tensor, "class size"],
        features: Float[Tensor, "item feature"],
        is_labelled: Bool[Tensor, " item"] | None,
    ) -> Float[Tensor, "item class"]:
        """``log_classes`` of labelled items, and the prediction itself for all others.

        The class of an item without labels is a leaf: ``q(y_i | phi) = p(y_i | x_i, phi)`` is
        exact, and its term in the ELBO is zero. With a free q(y_i) the bound would be negative
        there, the more so the wider q(phi) is, and many such items would shrink phi towards zero.
        """
        prediction = self.log_prediction(statistics.detach(), features)
        if is_labelled is None:
            return prediction
        joint = self.log_classes(statistics, features)
        return torch.where(is_labelled.unsqueeze(-1), joint, prediction)

    def log_prediction(
        self, statistics: Float[Tensor, "class size"], features: Float[Tensor, "item feature"]
    ) -> Float[Tensor, "item class"]:
        """``log p(y = k | x)`` at the mean of phi."""
        mean, _ = self.family.unpack(statistics)
        return (with_one(features) @ mean.mT).log_softmax(-1)

    def log_moderated(
        self, statistics: Float[Tensor, "class size"], features: Float[Tensor, "item feature"]
    ) -> Float[Tensor, "item class"]:
        """Approximately ``log E[p(y = k | x)]``: uncertain scores shrink.

        ``softmax_k(m_k / sqrt(1 + pi v_k / 8))`` of scores with means m and variances v (MacKay
        1992).
        """
        scores, variance = self._scores(statistics, features)
        return (scores * (1 + math.pi / 8 * variance).rsqrt()).log_softmax(-1)

    def log_classes(
        self, statistics: Float[Tensor, "class size"], features: Float[Tensor, "item feature"]
    ) -> Float[Tensor, "item class"]:
        """A lower bound of ``E[log p(y = k | x)]``, exact for the statistics of one phi."""
        scores, variance = self._scores(statistics, features)
        return scores - expected_log_sum_exp(scores, variance).unsqueeze(-1)

    def _scores(
        self, statistics: Float[Tensor, "class size"], features: Float[Tensor, "item feature"]
    ) -> tuple[Float[Tensor, "item class"], Float[Tensor, "item class"]]:
        """Mean and variance of ``<phi_k, (x, 1)>``."""
        x = with_one(features)
        mean, second = self.family.unpack(statistics)
        covariance = second - mean.unsqueeze(-1) * mean.unsqueeze(-2)
        # Rounding may leave a point's variance just below zero.
        variance = (x @ covariance * x).sum(-1).mT.clamp_min(0)
        return x @ mean.mT, variance
