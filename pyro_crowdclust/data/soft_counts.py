"""The two updates of Dawid and Skene (1979), as functions of the classes in probability.

S_ijl says as how many answers those of worker j about item i count that name class l; it is a
sparse matrix with a row for every item and a column for every (worker, label), as in
``LabelMatrix``. With ``q_ik = q(y_i = k)``, confusion matrices follow from the counts

    n_jkl  =  sum_i q_ik S_ijl                                                   (eq. 2.3)
    q_ik  propto  pi_k exp(sum_jl S_ijl log gamma_jkl)                           (eq. 2.5)

What is a prior of the rows gamma, and what else is learned, differs between those who call this.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # loads its subpackages when they are first used
from jaxtyping import Float


def soft_counts(
    matrix: Any, q: Float[np.ndarray, "item class"]
) -> Float[np.ndarray, "worker class label"]:
    """``n_jkl = sum_i q_ik S_ijl``."""
    num_classes = q.shape[1]
    return (matrix.T @ q).reshape(-1, num_classes, num_classes).swapaxes(1, 2)


def log_shares_of(q: Float[np.ndarray, "item class"]) -> Float[np.ndarray, " class"]:
    """``log pi_k``, as if each class had one more item."""
    return np.asarray(np.log((q.sum(0) + 1) / (len(q) + q.shape[1])))


def states_given(
    matrix: Any,
    log_shares: Float[np.ndarray, "*item state"],
    log_rows: Float[np.ndarray, "worker state label"],
) -> Float[np.ndarray, "item state"]:
    """``q_ik propto pi_k exp(sum_jl S_ijl log gamma_jkl)`` of states k, such as the classes."""
    of_answer = log_rows.swapaxes(1, 2).reshape(-1, log_shares.shape[-1])
    return scipy.special.softmax(log_shares + matrix @ of_answer, axis=1)


def rate_of_all(
    votes: Float[np.ndarray, "item class"],
    q: Float[np.ndarray, "item class"],
    right: float,
    wrong: float,
) -> float:
    """``a = (r + sum_ik q_ik n_ik) / (r + w + sum_ik n_ik)``, one rate of all, from votes n."""
    return float(((q * votes).sum() + right) / (votes.sum() + right + wrong))


def classes_at_rate(
    votes: Float[np.ndarray, "item class"],
    log_shares: Float[np.ndarray, "*item class"] | float,
    rate: float,
) -> Float[np.ndarray, "item class"]:
    """``q_ik propto pi_k (a (K - 1) / (1 - a))^n_ik``: q if all workers are right at one rate a."""
    log_odds = np.log(rate * (votes.shape[1] - 1) / (1 - rate))
    return scipy.special.softmax(log_shares + votes * log_odds, axis=1)
