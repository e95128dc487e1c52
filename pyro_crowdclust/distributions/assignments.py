"""Sums ``sum_k q_k f_k`` over an enumerated z of which not all values are computed.

Log-densities are linear in z, so that at its mean q they are their sum over all values, in which
improbable ones can be left out up to a given error: ``SummedAssignment``.

Or one draw stands for all improbable values: ``SparseAssignment``. With q_1 >= q_2 >= ... of an
item in falling order, R = sum_{k>m} q_k, and j > m drawn from q_k / R,

    sum_k q_k f_k  =  E_j[ sum_{k<=m} q_k f_k + R f_j ],

so that m + 1 values of f are enough for an unbiased estimate of the sum, whose error is of the
order of R. Gradients are unbiased, too, if the weight of the draw is ``q_j (R / q_j)`` with the
second factor held fixed: its derivative then has the mean ``sum_{k>m} (q_k' f_k + q_k f_k')``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from pyro.distributions.score_parts import ScoreParts
from torch import Tensor

from pyro_crowdclust.distributions.statistics import Assignment


class SparseAssignment(Assignment):
    """``Assignment`` whose enumeration has the most probable z of every item, and one of the rest.

    In a guide under ``TraceEnum_ELBO``, which weights every enumerated value by the score function
    that the distribution names: q for the probable values, ``q_j R / q_j`` for the drawn one.

    Parameters
    ----------
    log_weights
        log q(z), normalized, shape ``[item, K]``.
    num_summed
        m, below K.
    uniform
        A number in [0, 1) for every item, which decides its draw.
    """

    def __init__(
        self,
        log_weights: Float[Tensor, "item cluster"],
        num_summed: int,
        uniform: Float[Tensor, " item"],
    ) -> None:
        super().__init__(log_weights)
        fixed = log_weights.detach()
        summed = fixed.topk(num_summed, -1).indices
        rest = fixed.scatter(-1, summed, -torch.inf)
        log_rest = rest.logsumexp(-1, keepdim=True)
        cumulative = (rest - log_rest).exp().cumsum(-1)
        # Rounding may leave the last sum below 1; it must not point at a value that is summed.
        cumulative = cumulative / cumulative[..., -1:]
        uniform = uniform.clamp(max=1 - torch.finfo(uniform.dtype).eps).unsqueeze(-1)
        drawn = torch.searchsorted(cumulative, uniform, right=True)
        self._values = torch.cat([summed, drawn], -1).mT
        self._log_scale = torch.cat(
            [torch.zeros_like(summed, dtype=fixed.dtype), log_rest - fixed.gather(-1, drawn)], -1
        ).mT

    def enumerate_support(self, expand: bool = True) -> Float[Tensor, "value item cluster"]:
        return torch.nn.functional.one_hot(self._values, self.event_shape[0]).to(self.log_weights)

    def score_parts(self, x: Tensor, *args: object, **kwargs: object) -> ScoreParts:
        log_prob = self.log_prob(x)
        if x.dim() == 2:
            return ScoreParts(log_prob, log_prob, 0)
        log_scale = self._log_scale.reshape(log_prob.shape)
        return ScoreParts(log_prob, log_prob + log_scale, log_prob)


class SummedAssignment(Assignment):
    """``Assignment`` that is enumerated by one value, its mean ``E[z] = q``, with weight 1.

    All log-densities are linear in z, so that at the mean they are their sums over all values:
    ``sum_k q_k f_k``. Latents that differ between the values of z have a row (``Rows``) for every
    entry of the mean that is not zero. Values that are together less probable than ``left_out``
    are zero: what the sum lacks is then at most ``left_out`` times the largest ``|f_k|``.

    Parameters
    ----------
    log_weights
        log q(z), normalized, shape ``[item, K]``.
    left_out
        A probability below 1.
    """

    def __init__(self, log_weights: Float[Tensor, "item cluster"], left_out: float = 0.0) -> None:
        super().__init__(log_weights)
        probabilities = log_weights.exp()
        ascending, order = probabilities.detach().sort(-1)
        kept = torch.empty_like(ascending).scatter_(
            -1, order, (ascending.cumsum(-1) > left_out).to(ascending.dtype)
        )
        self._mean = probabilities * kept

    def enumerate_support(self, expand: bool = True) -> Float[Tensor, "1 item cluster"]:
        return self._mean.unsqueeze(0)

    def score_parts(self, x: Tensor, *args: object, **kwargs: object) -> ScoreParts:
        log_prob = self.log_prob(x)
        if x.dim() == 2:
            return ScoreParts(log_prob, log_prob, 0)
        return ScoreParts(log_prob, torch.zeros_like(log_prob), 0)


__all__ = ["SparseAssignment", "SummedAssignment"]
