"""Messages between the ends of answered pairs, and the gain of the answers from merged clusters."""

from __future__ import annotations

from functools import cached_property, partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pyro_crowdclust.distributions.pairs import pair_places
from pyro_crowdclust.minibatches.batch import Batch

# Up to this many paired items the couplings form a dense matrix (8 MB in float64); beyond it,
# messages are summed pair by pair.
_DENSE_LIMIT = 1024


class ByReceiver(NamedTuple):
    """Both ends of every answer, in the order of the receivers of their messages.

    Attributes
    ----------
    order
        Places of the ends in ``(left, right)``, side by side.
    sender
        The other end of each.
    first
        Where those of every item begin.
    """

    order: Int[Tensor, " end"]
    sender: Int[Tensor, " end"]
    first: Int[Tensor, " item"]

    @classmethod
    def of(
        cls, left: Int[Tensor, " pair"], right: Int[Tensor, " pair"], num_items: int
    ) -> ByReceiver:
        """The order of the ends of these answers."""
        receiver = torch.cat([left, right])
        order = receiver.argsort(stable=True)
        items = torch.arange(num_items, device=receiver.device)
        first = torch.searchsorted(receiver[order], items)
        return cls(order, torch.cat([right, left])[order], first)


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
    by_receiver
        The order of the answers, if it is known.
    """

    def __init__(
        self,
        left: Int[Tensor, " pair"],
        right: Int[Tensor, " pair"],
        weight: Float[Tensor, " pair"],
        num_items: int,
        together: Float[Tensor, "cluster cluster"] | None = None,
        by_receiver: ByReceiver | None = None,
    ) -> None:
        self.num_items = num_items
        self._known_order = by_receiver
        self._together = None if together is None else together.to(weight.dtype)
        self._left, self._right, self._weight = left, right, weight
        self._dense: Tensor | None = None
        if num_items <= _DENSE_LIMIT:
            zeros = weight.new_zeros(num_items * num_items)
            half = zeros.index_add_(0, pair_places(left, right, num_items), weight)
            half = half.view(num_items, num_items)
            self._dense = half + half.mT

    @classmethod
    def of_batch(
        cls,
        batch: Batch,
        weight: Float[Tensor, " pair"],
        together: Float[Tensor, "cluster cluster"] | None = None,
    ) -> PairCoupling:
        """The messages of the answers of a batch, which keeps their order for further steps."""
        ends = batch.left, batch.right
        is_dense = batch.num_paired <= _DENSE_LIMIT
        in_order = partial(ByReceiver.of, *ends, batch.num_paired)
        by_receiver = None if is_dense else batch.once("answers by receiver", in_order)
        return cls(*ends, weight, batch.num_paired, together, by_receiver)

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
    def _by_receiver(self) -> ByReceiver:
        return self._known_order or ByReceiver.of(self._left, self._right, self.num_items)

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
