"""Posteriors q(z) that need the latents of only some clusters per item, not of all.

All log-densities are linear in z, so at its mean q they equal the sum over all values,
``sum_k q_k f_k``. ``SparseAtMean`` returns this mean as a sparse matrix: entries whose total
probability is negligible are not stored, and their f_k are not computed.

``SampledAssignment`` represents all improbable values by one draw. With q_1 >= q_2 >= ... of an
item in falling order, R = sum_{k>m} q_k, and j > m drawn from q_k / R,

    sum_k q_k f_k  =  E_j[ sum_{k<=m} q_k f_k + R f_j ],

so m + 1 values of f suffice for an unbiased estimate of the sum, whose error is of the order of R.
Gradients are unbiased, too, if the weight of the draw is ``q_j (R / q_j)`` with the second factor
held fixed: its derivative then has the mean ``sum_{k>m} (q_k' f_k + q_k f_k')``.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from pyro.distributions.score_parts import ScoreParts
from torch import Tensor

from pyro_crowdclust.distributions.at_mean import RealDraws
from pyro_crowdclust.distributions.likelihoods import Assignment
from pyro_crowdclust.distributions.rows import Rows
from pyro_crowdclust.distributions.statistics import StatisticValued


class SampledAssignment(Assignment):
    """``Assignment`` whose enumeration has the most probable z of every item, and one of the rest.

    For a guide under ``TraceEnum_ELBO``, which weights every enumerated value by the score function
    of the distribution: q for the probable values, ``q_j R / q_j`` for the drawn one.

    Parameters
    ----------
    log_probabilities
        log q(z), normalized, shape ``[item, K]``.
    num_summed
        m, below K.
    uniform
        A number in [0, 1) for every item, which determines its draw.
    """

    def __init__(
        self,
        log_probabilities: Float[Tensor, "item cluster"],
        num_summed: int,
        uniform: Float[Tensor, " item"],
    ) -> None:
        super().__init__(log_probabilities)
        fixed = log_probabilities.detach()
        summed = fixed.topk(num_summed, -1).indices
        rest = fixed.scatter(-1, summed, -torch.inf)
        log_rest = rest.logsumexp(-1, keepdim=True)
        cumulative = (rest - log_rest).exp().cumsum(-1)
        # Rounding may leave the last sum below 1; the draw must not be a value that is summed.
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
            return ScoreParts(log_prob, log_prob, torch.zeros_like(log_prob))
        log_scale = self._log_scale.reshape(log_prob.shape)
        return ScoreParts(log_prob, log_prob + log_scale, log_prob)


class SparseAtMean(StatisticValued):
    """q(z); the value of the site is not a draw but the probabilities, as a sparse matrix.

    Latents that differ between the values of z have a row (``Rows``) for every stored entry. Values
    with a total probability below ``left_out`` are not stored: the error of ``sum_k q_k f_k`` is
    then at most ``left_out`` times the largest ``|f_k|``.

    Parameters
    ----------
    log_probabilities
        log q(z), normalized, shape ``[item, K]``.
    left_out
        A probability below 1.

    Examples
    --------
    >>> site = SparseAtMean(torch.tensor([[0.7, 0.3], [1.0, 0.0]]).log())
    >>> Rows.of(site.sample()).cluster.tolist()
    [0, 1, 0]
    """

    def __init__(
        self, log_probabilities: Float[Tensor, "item cluster"], left_out: float = 0.0
    ) -> None:
        self._log_probabilities = log_probabilities
        probabilities = log_probabilities.exp()
        ascending, order = probabilities.detach().sort(-1)
        is_stored = torch.empty_like(ascending, dtype=torch.bool)
        # Written so that NaN is stored, and not silently lost.
        is_stored.scatter_(-1, order, ~(ascending.cumsum(-1) <= left_out))
        entries = is_stored.nonzero(as_tuple=True)
        self._value = torch.sparse_coo_tensor(
            torch.stack(entries),
            probabilities[entries],
            probabilities.shape,
            is_coalesced=True,
            check_invariants=False,
        )
        super().__init__(log_probabilities.shape[:-1], log_probabilities.shape[-1:])

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, "item cluster"]:
        self._one_draw(sample_shape)
        return self._value

    def log_prob(self, value: Float[Tensor, "item cluster"]) -> Float[Tensor, " item"]:
        # A value that cannot occur, log q = -inf, has no row.
        rows = Rows.of(value)
        return rows.total(self._log_probabilities[rows.item, rows.cluster])

    def real_draws(self, num_draws: int) -> RealDraws:
        """One-hot z from q, instead of its mean."""
        shape = num_draws, *self._log_probabilities.shape
        drawn = torch.distributions.OneHotCategorical(
            logits=self._log_probabilities.expand(shape), validate_args=False
        ).sample()
        return RealDraws(drawn, drawn)
