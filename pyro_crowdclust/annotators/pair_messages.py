"""Messages between the ends of answered pairs, and the gain of the answers from merged clusters."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.distributions.pairs import pair_places

# Up to this many paired items the couplings form a dense matrix (8 MB in float64); beyond it,
# messages are summed pair by pair.
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
    together
        B of ``Ownership``, under which messages are ``sum_j w_ij B E[z_j]``; by default the
        identity.
    """

    def __init__(
        self,
        left: Int[Tensor, " pair"],
        right: Int[Tensor, " pair"],
        weight: Float[Tensor, " pair"],
        num_items: int,
        together: Float[Tensor, "cluster cluster"] | None = None,
    ) -> None:
        self.num_items = num_items
        self._together = None if together is None else together.to(weight.dtype)
        self._left, self._right, self._weight = left, right, weight
        self._dense: Tensor | None = None
        if num_items <= _DENSE_LIMIT:
            zeros = weight.new_zeros(num_items * num_items)
            half = zeros.index_add_(0, pair_places(left, right, num_items), weight)
            half = half.view(num_items, num_items)
            self._dense = half + half.mT

    def messages(self, assignments: Float[Tensor, "item cluster"], last: bool = False) -> Tensor:
        """The sum of the messages to every paired item, ``[num_items, K]``; ``last`` is ignored."""
        if self._together is not None:
            assignments = assignments[: self.num_items] @ self._together
        if self._dense is not None:
            return self._dense @ assignments[: self.num_items]
        order, sender, first = self._by_receiver
        # Gathered here, since the rounds in which gradients flow are not the first.
        weight = self._weight.to(assignments.dtype).repeat(2).index_select(0, order)
        # One pass over the answers, without a row of numbers for each: an eighth of the time.
        return nn.functional.embedding_bag(
            sender, assignments, first, mode="sum", per_sample_weights=weight
        )

    @cached_property
    def _by_receiver(self) -> tuple[Tensor, Tensor, Tensor]:
        """Ends of the answers in order of the receiver: this order, senders, each item's first."""
        receiver = torch.cat([self._left, self._right])
        order = receiver.argsort(stable=True)
        items = torch.arange(self.num_items, device=receiver.device)
        first = torch.searchsorted(receiver[order], items)
        return order, torch.cat([self._right, self._left])[order], first

    def potential(self, assignments: Float[Tensor, "item cluster"]) -> Float[Tensor, ""]:
        """``sum_ij w_ij <q_i, q_j>``, whose gradient is the messages to the items."""
        paired = assignments[: self.num_items]
        # Of this quadratic form in q, the messages are the gradient, and half of <q, gradient> is
        # the value.
        twice = (paired * self.messages(paired.detach())).sum()
        return twice - twice.detach() / 2


def answer_gain(
    assignments: Float[Tensor, "item cluster"],
    left: Int[Tensor, " pair"],
    right: Int[Tensor, " pair"],
    weight: Float[Tensor, " pair"],
) -> Float[Tensor, "cluster cluster"]:
    """``G_kl = sum_ij w_ij (q_ik q_jl + q_il q_jk)``: what the answers gain if k and l were one.

    The expected log-likelihood of the answers is ``sum_ij w_ij <q_i, q_j>`` plus a constant
    (Luo et al. 2018, eq. 20); joining k and l replaces ``q_ik q_jk + q_il q_jl`` by
    ``(q_ik + q_il)(q_jk + q_jl)``.
    """
    half = assignments[left].mT @ (weight.unsqueeze(-1) * assignments[right])
    return half + half.mT
