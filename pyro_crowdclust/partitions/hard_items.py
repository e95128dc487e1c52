"""Items that are hard to recognize, about which people give other answers than about clear ones.

    share ~ Beta(a, b),    h_i | share ~ Bern(share)

How a pair looks depends on whether its items are in one cluster, and on how many of the two are
hard: 0, 1 or 2. The share is summed out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.distributions.statistics import StatisticValued
from pyro_crowdclust.partitions.asked_pairs import AskedPairs

# A pair may have none, one or two hard items.
NUM_KINDS = 3
# Pseudo-counts of hard items and of clear ones.
_HARD, _CLEAR = 1.0, 9.0


class HardItems(StatisticValued):
    """p(h) for the items that anybody was asked about: 1 where an item is hard, ``[N]``.

        p(h) = B(a + n_hard, b + n_clear) / B(a, b)

    Parameters
    ----------
    pairs
        The pairs that were compared.

    Examples
    --------
    >>> hard = HardItems(AskedPairs.of(torch.tensor([[0, 1]]), num_items=2))
    >>> hard.log_prob(torch.tensor([1, 0])).exp().round(decimals=4)
    tensor(0.0818, dtype=torch.float64)
    """

    has_rsample = False

    def __init__(self, pairs: AskedPairs) -> None:
        self.pairs = pairs
        super().__init__(torch.Size(), torch.Size([pairs.num_items]))

    def sample(self, sample_shape: Any = ()) -> Int[Tensor, " item"]:
        self._one_draw(sample_shape)
        share = torch.distributions.Beta(_HARD, _CLEAR).sample()
        hard = torch.zeros(self.pairs.num_items, dtype=torch.int64)
        items = self.pairs.items_in_pairs
        hard[items] = torch.bernoulli(share.expand(len(items))).long()
        return hard

    def log_prob(self, value: Int[Tensor, " item"]) -> Float[Tensor, ""]:
        is_hard = value[self.pairs.items_in_pairs].double()
        prior = torch.tensor([_HARD, _CLEAR], dtype=torch.float64)
        found = prior + torch.stack([is_hard.sum(), (1 - is_hard).sum()])
        return _log_beta(found) - _log_beta(prior)


def _log_beta(counts: Float[Tensor, " side"]) -> Float[Tensor, ""]:
    return torch.lgamma(counts).sum() - torch.lgamma(counts.sum())


def num_hard_ends(hard: Int[Tensor, "*draw item"], pairs: AskedPairs) -> Int[Tensor, "*draw pair"]:
    """How many of the two items of every pair are hard."""
    return hard[..., pairs.left] + hard[..., pairs.right]


def sweep_hard(
    hard: Int[Tensor, " item"],
    pairs: AskedPairs,
    log_answers: Float[Tensor, "pair kind"],
) -> Int[Tensor, " item"]:
    """Draw whether every asked item is hard, given all others, in random order.

        log odds = sum_j log p(answers_ij | 1 + h_j hard) / p(answers_ij | h_j hard)
                   + log (a + n_hard) / (b + n_clear),     n of all other items

    Parameters
    ----------
    hard
        1 where an item is hard.
    pairs
        The pairs that were compared.
    log_answers
        ``log p(answers)`` for every pair if none, one or two of its items are hard, given whether
        they are in one cluster.
    """
    from pyro_crowdclust.partitions.gibbs import visit_hard_items

    h = hard.numpy().copy()
    first, others, pair = (part.numpy() for part in pairs.edges)
    # Evidence of pairs that an item is hard, if the other item is clear and if it is hard.
    gain = log_answers.diff(dim=1).numpy()[pair]
    uniform = torch.rand(pairs.num_items, dtype=torch.float64)
    order = torch.randperm(pairs.num_items).numpy()
    order = order[np.diff(first)[order] > 0]
    chance = torch.logit(uniform).numpy()
    visit_hard_items(order, h, (first, others), gain, chance, (_HARD, _CLEAR))
    return torch.from_numpy(h)
