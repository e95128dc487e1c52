"""Partitions into few clusters by annealing: several chains at once, and the evidence of each.

    p_b(z) propto prod_k Gamma(n_k + a) / Gamma(a)  exp( b sum_ij w_ij [z_i = z_j] )

is the prior of a mixture of K clusters at b = 0, and the posterior at b = 1. A chain that goes from
one to the other in small steps finds clusters that a chain from anywhere else does not, and the
mean of the sum along its way is the derivative of the log normalizer (Gelman and Meng 1998):
``log sum_z p(z) exp(...) = int_0^1 E_b[ sum_ij w_ij [z_i = z_j] ] db``. By that numbers of
clusters are compared. A bound of a single partition, which leaves out how many others there are
beside it, would compare them wrongly where answers are few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.partitions.asked_pairs import AskedPairs

# Sweeps that lead to b = 1, as many as so many visits of items take; and those after them.
_VISITS, _FEWEST, _MOST = 40_000, 20, 60
_LAST = 10


class Annealed(NamedTuple):
    """What chains have found.

    Attributes
    ----------
    labels
        The last partition of every chain.
    together
        Of every pair the share of the last sweeps in which its items were together.
    log_evidence
        ``log sum_z p(z) exp(sum_ij w_ij [z_i = z_j])`` as each chain estimates it: exact of one
        cluster, of more too low while chains are short.
    """

    labels: Int[Tensor, "chain item"]
    together: Float[Tensor, "chain pair"]
    log_evidence: Float[Tensor, " chain"]


def anneal(
    evidence: Float[Tensor, "chain pair"],
    pairs: AskedPairs,
    numbers: Int[Tensor, " chain"],
    concentration: float,
    generator: torch.Generator,
) -> Annealed:
    """Draw a partition of every chain, by Gibbs sweeps from b near 0 to b = 1, and some more.

    Parameters
    ----------
    evidence
        w, what the answers about every pair say for "same", in nats.
    pairs
        The pairs.
    numbers
        K of every chain.
    concentration
        a of every cluster.
    generator
        Source of chance.
    """
    rng = np.random.default_rng(int(torch.randint(2**31, (), generator=generator)))
    num_chains, num_items, most = len(numbers), pairs.num_items, int(numbers.max())
    first, others, pair = (part.numpy() for part in pairs.edges)
    weights = np.ascontiguousarray(evidence.numpy().T)
    said, left, right = weights[pair], pairs.left.numpy(), pairs.right.numpy()
    start = most * np.arange(num_chains)
    # Clusters of all chains are numbered through; those that a chain does not have are never drawn.
    z = start + (rng.random((num_items, num_chains)) * numbers.numpy()).astype(int)
    absent = np.where(np.arange(most) < numbers.numpy()[:, None], 0.0, -np.inf)
    sizes = np.bincount(z.ravel(), minlength=num_chains * most)
    log_join = np.log(np.arange(num_items + 1) + concentration)
    log_evidence, together = np.zeros(num_chains), np.zeros(weights.shape)
    power_before = 0.0
    steps = min(max(_VISITS // num_items, _FEWEST), _MOST)
    for power in [*np.arange(1, steps + 1) / steps, *np.ones(_LAST)]:
        for i in rng.permutation(num_items):
            edges = slice(first[i], first[i + 1])
            sums = np.bincount(z[others[edges]].ravel(), said[edges].ravel(), num_chains * most)
            sizes[z[i]] -= 1
            score = (power * sums + log_join[sizes]).reshape(num_chains, most) + absent
            # A Gumbel race: the largest is a draw with log odds the scores.
            race = score - np.log(rng.standard_exponential((num_chains, most)))
            z[i] = race.argmax(1) + start
            sizes[z[i]] += 1
        is_together = z[left] == z[right]
        energy = (weights * is_together).sum(0)
        # A chain lags behind: after a step it is where it would be in the middle of that.
        log_evidence += (power - power_before) * energy
        power_before = power
        together += is_together * (power == 1) / (_LAST + 1)
    return Annealed(
        torch.as_tensor(z.T - start[:, None]),
        torch.as_tensor(np.ascontiguousarray(together.T)),
        torch.as_tensor(log_evidence),
    )
