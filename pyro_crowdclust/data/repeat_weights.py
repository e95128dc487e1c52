"""How much each of several answers counts that one worker gave about one item.

    w  =  1 / (1 + (m - 1) rho_j)

of each of the m answers of worker j about the item, the design effect of Kish (1965): together they
count as m answers if the worker's errors are independent given the class (rho = 0), as if different
workers had answered, and as one if the worker always repeats what was said (rho = 1), right or
wrong. With weights, p(labels | classes) is a power likelihood, linear in answers.

1 - rho_j is how often such answers differ, as a share of how often independent ones would,

    rho_j  =  1 - sum_c (1 - A_c) / sum_c D_c,        D_c  =  sum_k q(y_i = k) D_jk,

over the items c with several answers of the worker, and answers of others, who show the class. A_c
is the share of pairs of these answers that agree. D_jk is how often two independent answers about
items of class k differ, without bias from how many answers it is estimated from (Simpson 1949): of
the n_kl answers l to items of class k, in q, n_k in all,

    D_jk  =  (n_k^2 - sum_l n_kl^2) / (n_k (n_k - 1)).

1 - sum_l gamma_jkl^2 at rows gamma that a prior pulls away from 1 is larger, above all of workers
who are hardly ever wrong. q is that of a few steps of EM (Dawid and Skene 1979), half of them with
rho = 1, half with the rho that follows. Workers with few such items have about the rho of all, and
if there are few in all, it is 1. As D_jk <= 1 - 1 / K with K classes, 1 - rho_j is at least the
mean of 1 - A_c over all items with several answers of the worker, divided by 1 - 1 / K, whoever
else answered; one more expected difference is added there, too.
"""

from __future__ import annotations

import numpy as np
import scipy  # loads its subpackages when they are first used
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pyro_crowdclust.data.soft_counts import soft_counts, states_given

# How often rho is estimated, and steps of EM before: at every step, a worker who repeats much could
# take over q, and so never seem to be wrong.
_ESTIMATES, _STEPS = 2, 10
# So many items are enough to estimate rho.
_MAX_ITEMS = 2000
# Right and wrong answers of the prior of the rows.
_RIGHT, _WRONG = 2.8, 1.2
# Expected differences that are added: with the share of all, and, to that of all, never seen.
_AS_ALL, _AS_ONE = 3.0, 1.0


def repeat_weights(
    item: Int[Tensor, " answer"],
    worker: Int[Tensor, " answer"],
    label: Int[Tensor, " answer"],
    num_workers: int,
    num_classes: int,
) -> Float[Tensor, " answer"] | None:
    """The weight of every answer; None if all count in full, as without repeats.

    All answers of the only worker count in full: nobody can tell whether this is one worker, or the
    name of all.

    Parameters
    ----------
    item, worker, label
        Codes of each answer.
    num_workers, num_classes
        How many workers and classes there are.

    Examples
    --------
    >>> item, worker = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 1])
    >>> repeat_weights(item, worker, torch.tensor([0, 0, 1, 1, 1]), 2, 2).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.5]
    """
    if not len(item) or bool((worker == worker[0]).all()):
        return None
    key = (item * num_workers + worker).numpy()
    # Narrow integers are sorted far faster.
    in_order = np.sort(key.astype(np.min_scalar_type(key.max())))
    if not (in_order[1:] == in_order[:-1]).any():
        return None
    groups, group, size = np.unique(key, return_inverse=True, return_counts=True)
    shape = len(groups), num_classes
    count = scipy.sparse.coo_array((np.ones(len(key)), (group, label.numpy())), shape).tocsr()
    squares = np.asarray(count.multiply(count).sum(1)).ravel()
    differ = 1 - (squares - size) / (size * (size - 1)).clip(1)
    differ[size == 1] = 0
    whose = groups % num_workers
    rho = _dependence(groups // num_workers, whose, count, size, differ, num_workers)
    seen, number = (np.bincount(whose, part, num_workers) for part in (differ, size > 1))
    rho = np.minimum(rho, 1 - seen / (number * (1 - 1 / num_classes) + _AS_ONE)).clip(0)
    return torch.from_numpy(1 / (1 + (size - 1) * rho[whose]))[group]


def _dependence(
    item: Int[np.ndarray, " group"],
    worker: Int[np.ndarray, " group"],
    count: scipy.sparse.csr_array,
    size: Int[np.ndarray, " group"],
    differ: Float[np.ndarray, " group"],
    num_workers: int,
) -> Float[np.ndarray, " worker"]:
    """rho of every worker, from the counts of their answers about each item.

    Parameters
    ----------
    item, worker
        Of every group of answers of one worker about one item, sorted by item.
    count
        How many answers of the group name each class.
    size
        How many there are.
    differ
        Share of pairs of them that differ.
    num_workers
        How many workers there are.
    """
    shows = (size > 1) & (np.bincount(item)[item] > 1)
    items = np.unique(item[shows])
    if not len(items):
        return np.ones(num_workers)
    items = items[:: -(-len(items) // _MAX_ITEMS)]
    used = np.isin(item, items)
    shows, size, differ, count = shows[used], size[used], differ[used], count[used]
    _, item = np.unique(item[used], return_inverse=True)
    of_all, worker = np.unique(worker[used], return_inverse=True)
    number, num_classes = len(of_all), count.shape[1]
    prior = np.full((num_classes, num_classes), _WRONG / (num_classes - 1))
    np.fill_diagonal(prior, _RIGHT)
    rho = np.ones(number)
    group, label = count.nonzero()
    place = item[group], worker[group] * num_classes + label
    shape = len(items), number * num_classes
    q = np.full((len(items), num_classes), 0.5)
    np.add.at(q, (item[group], label), count.data / size[group])
    q /= q.sum(1, keepdims=True)
    for _ in range(_ESTIMATES):
        weight = count.data / (1 + (size - 1) * rho[worker])[group]
        matrix = scipy.sparse.csr_array((weight, place), shape)
        for _ in range(_STEPS):
            counted = soft_counts(matrix, q)
            rows = counted + prior
            rows /= rows.sum(-1, keepdims=True)
            log_shares = np.log(q.mean(0).clip(np.finfo(float).tiny))
            q = states_given(matrix, log_shares, np.log(rows))
        given = counted.sum(-1)
        differing = np.square(given) - np.square(counted).sum(-1)
        differing /= given.clip(1) * (given - 1).clip(1)
        expected = (q[item[shows]] * differing[worker[shows]]).sum(1)
        seen, most = (
            np.bincount(worker[shows], part, number) for part in (differ[shows], expected)
        )
        common = min(seen.sum() / (most.sum() + _AS_ONE), 1.0)
        rho = 1 - np.minimum((seen + _AS_ALL * common) / (most + _AS_ALL), 1)
    found = np.full(num_workers, 1 - common)
    found[of_all] = rho
    return found
