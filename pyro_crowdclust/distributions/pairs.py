"""Statistic-valued Pyro distributions of pairs: whether both items share a cluster, and answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from pyro.distributions.score_parts import ScoreParts
from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to

from pyro_crowdclust.distributions.statistics import (
    StatisticValued,
    StatisticVector,
    refuse_coordinates,
)

# Up to this many paired items, the products of all of them are computed as one small matrix and the
# pairs are selected; for more items the rows of both ends are gathered.
_MATRIX_LIMIT = 1024


def pair_places(
    left: Int[Tensor, " pair"], right: Int[Tensor, " pair"], count: int
) -> Int[Tensor, " pair"]:
    """Positions of pairs in a flattened ``[count, count]`` matrix."""
    return torch.add(right, left, alpha=count)


def components_together(
    owners: Float[Tensor, "component cluster"],
) -> Float[Tensor, "component component"]:
    """B, from c or its mean: ``<c_k, c_l>`` off the diagonal, and 1 on it.

    Examples
    --------
    >>> components_together(torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]]))
    tensor([[1., 1., 0.],
            [1., 1., 0.],
            [0., 0., 1.]])
    """
    same = owners @ owners.mT
    return same + (1 - same.diag()).diag()


def agreement(
    assignments: Float[Tensor, "paired cluster"],
    left: Int[Tensor, " pair"],
    right: Int[Tensor, " pair"],
    together: Float[Tensor, "cluster cluster"] | None = None,
) -> Float[Tensor, " pair"]:
    """``z_i^T B z_j`` of every pair of rows: the probability that both share a cluster.

    B is ``together``, by default the identity.
    """
    others = assignments if together is None else assignments @ together.to(assignments)
    count = assignments.shape[0]
    if count <= _MATRIX_LIMIT:
        return (assignments @ others.mT).flatten().index_select(0, pair_places(left, right, count))
    return (assignments.index_select(0, left) * others.index_select(0, right)).sum(-1)


class _Agreement(StatisticVector):
    """The values of ``SameCluster``, which are a function of z."""

    refusal = (
        "the site of SameCluster, 'same' in the documentation, follows from z, so that Pyro's "
        "autoguides and NUTS cannot have it: hide both, AutoNormal(poutine.block(model, "
        'hide=["z", "same"])), and wrap this as EnumeratedGuide(model, ...)'
    )


biject_to.register(_Agreement, refuse_coordinates)
transform_to.register(_Agreement, refuse_coordinates)


class SameCluster(StatisticValued):
    """``s_ij = <z_i, z_j>`` of every pair: 1 if both ends share a cluster; ``log p = 0``.

    All items of a plate share one enumeration dimension, so an enumerated z must not be indexed by
    the ends of pairs: ``z_i == z_j`` would silently be true for every pair. The guide therefore
    also has a site for s. Its value there is ``<q(z_i), q(z_j)>``, the probability that the ends
    share a cluster; the pair likelihood is linear in s, so this is exact. The log-density is zero
    on both sides, since the item plate already has that of z.

    Parameters
    ----------
    assignments
        One-hot z or probabilities of all items, shape ``[item, K]``; or codes of their clusters,
        integers of shape ``[item]``.
    left, right
        The ends of every pair, as rows of the assignments, shape ``[pair]``.
    num_paired
        Only the first ``num_paired`` items occur in pairs.
    together
        B of ``Ownership``: which components share a cluster; by default each is one of its own.
    """

    adds_nothing = True
    support: constraints.Constraint = _Agreement()

    def __init__(
        self,
        assignments: Float[Tensor, "*enumerated item cluster"] | Int[Tensor, "*enumerated item"],
        left: Int[Tensor, " pair"],
        right: Int[Tensor, " pair"],
        num_paired: int,
        together: Float[Tensor, "cluster cluster"] | None = None,
    ) -> None:
        self._assignments = assignments
        self._together = together
        self._ends = left, right
        self._num_paired = num_paired
        super().__init__(left.shape, torch.Size())

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, " pair"]:
        self._one_draw(sample_shape)
        is_code = not self._assignments.is_floating_point()
        if self._assignments.dim() > (1 if is_code else 2):
            if not len(self._ends[0]):
                raise ValueError(
                    "z is enumerated, in a batch that has no answers: the library also runs model "
                    "and guide without answers, so write 'if batch.num_pairs:' before the plate of "
                    "the pairs"
                )
            raise ValueError(
                "z is enumerated, so it does not give the agreement of pairs: the guide must "
                "sample the site 'same' with distributions.SameCluster(q_z, ...)"
            )
        assignments = self._assignments
        if is_code:
            left, right = (assignments[end] for end in self._ends)
            return (left == right).to(torch.get_default_dtype())
        if assignments.is_sparse:
            assignments = assignments.to_dense()
        return agreement(assignments[: self._num_paired], *self._ends, self._together)

    def log_prob(self, value: Float[Tensor, "*value one"]) -> Float[Tensor, "*value pair"]:
        nothing = torch.zeros_like(value)
        # Pyro's render_model reads from this on which sites a site depends.
        for part in (self._assignments, self._together):
            if part is not None and not part.is_sparse:
                nothing = nothing + part.new_zeros(())
        # One number for every pair, also for enumerated values, which are the same for all pairs.
        return nothing.expand(np.broadcast_shapes(nothing.shape, self.batch_shape))


class EnumeratedAgreement(StatisticValued):
    """A guide's site for ``SameCluster`` that enumerates both values, for any likelihood of s.

    Under ``TraceEnum_ELBO`` s = 1 has the weight ``P(z_i = z_j)`` and s = 0 the rest; the
    log-density is zero, like that of ``SameCluster``.

    Parameters
    ----------
    probability
        ``<q(z_i), q(z_j)>`` of every pair.
    """

    has_rsample = False
    has_enumerate_support = True

    def __init__(self, probability: Float[Tensor, " pair"]) -> None:
        self._probability = probability
        super().__init__(probability.shape, torch.Size())

    def sample(self, sample_shape: Any = ()) -> Float[Tensor, " pair"]:
        self._one_draw(sample_shape)
        return torch.bernoulli(self._probability)

    def enumerate_support(self, expand: bool = True) -> Float[Tensor, "2 pair"]:
        values = self._probability.new_tensor([0.0, 1.0]).unsqueeze(-1)
        return values.expand(2, *self.batch_shape) if expand else values

    def log_prob(self, value: Float[Tensor, "*value one"]) -> Float[Tensor, "*value pair"]:
        return torch.zeros_like(value).expand(np.broadcast_shapes(value.shape, self.batch_shape))

    def score_parts(self, x: Tensor, *args: object, **kwargs: object) -> ScoreParts:
        weight = torch.lerp(1 - self._probability, self._probability, x)
        log_prob = self.log_prob(x)
        return ScoreParts(log_prob, weight.log(), torch.zeros_like(log_prob))


class TwoCoinAnswer(StatisticValued):
    """The two-coin likelihood of a "same" (1) or "different" (0) answer; Luo et al. 2018, eq. 1.

    ``log p(L | s, alpha, beta) = s <t(alpha), (L, 1-L)> + (1-s) <t(beta), (1-L, L)>`` with
    sensitivity alpha, specificity beta and s = 1 for a pair in the same cluster (or its
    probability, which gives the expectation).

    Parameters
    ----------
    same
        s, shape ``[pair]``.
    sensitivity, specificity
        t(alpha), t(beta) of the worker of every pair or their expectations, ``[pair, 2]``; or those
        of all workers, with ``worker``.
    worker
        The row of the rates for each pair.
    """

    support: constraints.Constraint = constraints.boolean

    def __init__(
        self,
        same: Float[Tensor, " pair"],
        sensitivity: Float[Tensor, "pair_or_worker 2"],
        specificity: Float[Tensor, "pair_or_worker 2"],
        worker: Int[Tensor, " pair"] | None = None,
    ) -> None:
        self.same = same
        self.sensitivity = sensitivity
        self.specificity = specificity
        self.worker = torch.arange(len(same), device=same.device) if worker is None else worker
        super().__init__(same.shape, torch.Size())

    def rsample(self, sample_shape: Any = ()) -> Float[Tensor, " pair"]:
        self._one_draw(sample_shape)
        if_same = self.sensitivity[self.worker, 0].exp()
        if_different = self.specificity[self.worker, 1].exp()
        return torch.bernoulli(self.same * if_same + (1 - self.same) * if_different)

    def log_prob(self, value: Float[Tensor, " pair"]) -> Float[Tensor, " pair"]:
        # Rates are stored as (right, wrong); "same" is right for a pair in the same cluster.
        places = answer_places(self.worker, value)
        if_same = self.sensitivity.flatten().index_select(0, places)
        if_different = self.specificity.flatten().index_select(0, places ^ 1)
        return torch.lerp(if_different, if_same, self.same.to(if_same.dtype))


def answer_places(worker: Int[Tensor, " pair"], label: Tensor) -> Int[Tensor, " pair"]:
    """Position of the answer "same" (1) or "different" (0) of a worker in rows of (yes, no)."""
    return torch.add(1 - label.long(), worker, alpha=2)
