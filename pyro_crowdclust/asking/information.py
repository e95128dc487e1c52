"""Information of answers in nats, in closed form, as sums over the possible truths."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh_tridiagonal
from scipy.special import xlogy

# Points of the quadrature over a worker's rate.
_RATE_POINTS = 32


def entropy(probabilities: Float[np.ndarray, "*batch value"]) -> Float[np.ndarray, "*batch"]:
    """``-sum_j p_j log p_j``.

    Examples
    --------
    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(3)
    array([ 0.693, -0.   ])
    """
    return np.asarray(-xlogy(probabilities, probabilities).sum(-1))


def channel_information(
    outcomes: Float[np.ndarray, "question outcome"], channel: Float[np.ndarray, "outcome label"]
) -> Float[np.ndarray, " question"]:
    """``I(L; o) = H(sum_o p_o p(L | o)) - sum_o p_o H(p(L | o))``.

    For a pair the outcomes are different and same, and the channel has the worker's two coins; for
    a label they are the classes, and the channel is the worker's confusion matrix.

    Parameters
    ----------
    outcomes
        Probabilities of the possible truths, for every question.
    channel
        Probability of every answer, given the truth.

    Examples
    --------
    >>> even, perfect, guessing = np.full((1, 2), 0.5), np.eye(2), np.full((2, 2), 0.5)
    >>> channel_information(even, perfect).round(3), channel_information(even, guessing)
    (array([0.693]), array([0.]))
    """
    return entropy(outcomes @ channel) - outcomes @ entropy(channel)


def placement_information(
    outcomes: Float[np.ndarray, "#question outcome"],
    reliability: float | Float[np.ndarray, "#question 1"],
) -> Float[np.ndarray, " question"]:
    """``I(L; o)`` if L is o with probability r, and otherwise a new draw from p(o).

    ``sum_j p_j [t_j log(t_j / p_j) + (1 - p_j) (1 - r) log(1 - r)]``, ``t_j = r + (1 - r) p_j``:
    a misplaced item is in a random group, more often in larger ones, so that L has the distribution
    of o. With r = 1 it is the entropy of o.

    Parameters
    ----------
    outcomes
        Probability of every group of the page, for every item.
    reliability
        r of the worker, in [0, 1]; or of the worker of every question.

    Examples
    --------
    >>> placement_information(np.array([[0.5, 0.5]]), 1.0).round(3)
    array([0.693])
    """
    slip = 1.0 - reliability
    right = reliability + slip * outcomes
    kept = xlogy(right, right) - right * np.log(np.where(outcomes > 0, outcomes, 1.0))
    return (outcomes * (kept + (1 - outcomes) * xlogy(slip, slip))).sum(-1)


def mutual_information(
    draws: Int[np.ndarray, "draw variable"],
) -> Float[np.ndarray, "variable variable"]:
    """Mutual information of every two discrete variables, in nats, from draws; entropies for i = j.

    ``H_1 + H_2 - H_12``, at least 0, with ``H = -sum_v p_v log p_v + (m - 1) / 2 R`` for m values
    seen in R draws (Miller 1955).

    Parameters
    ----------
    draws
        Values in ``0 .. M - 1`` of M variables, such as the root of each of M components.

    Examples
    --------
    >>> mutual_information(np.array([[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1]] * 500)).round(2)
    array([[0.69, 0.69, 0.  ],
           [0.69, 0.69, 0.  ],
           [0.  , 0.  , 0.69]])
    """
    number, variables = draws.shape
    joint = np.empty((variables, variables))
    place = np.arange(variables) * variables**2
    for one in range(variables):
        codes = place + draws[:, one, None] * variables + draws
        values, counts = np.unique(codes, return_counts=True)
        terms = -xlogy(counts / number, counts / number) + 0.5 / number
        joint[one] = np.bincount(values // variables**2, terms, variables) - 0.5 / number
    alone = joint.diagonal()
    return np.maximum(alone[:, None] + alone - joint, 0.0)


def rate_information(
    certainty: Float[np.ndarray, " question"], right: float, wrong: float
) -> Float[np.ndarray, " question"]:
    """``I(R; a)``: information of R on a worker's rate ``a ~ Beta(right, wrong)``.

    R is whether the answer is the most probable one, ``P(R | a) = c a + (1 - c)(1 - a)`` with c the
    probability of that one. If c is 1/2, the answer has no information on the rate.

    Examples
    --------
    >>> rate_information(np.array([1.0, 0.5]), 2.0, 1.0).round(3)
    array([0.137, 0.   ])
    """
    rate, weight = _beta_quadrature(right, wrong)
    agrees = certainty[:, None] * rate + (1 - certainty[:, None]) * (1 - rate)
    mean = agrees @ weight
    return np.maximum(_binary_entropy(mean) - _binary_entropy(agrees) @ weight, 0.0)


def _beta_quadrature(
    right: float, wrong: float
) -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """Points and weights of Gauss-Jacobi quadrature, exact for polynomials of a Beta variable.

    They are the eigenvalues of the matrix of the polynomials' recurrence, and the squares of the
    first entries of its eigenvectors (Golub and Welsch 1969). So the points are where the density
    is, however narrow, and powers of rates do not underflow. (The weights of scipy's
    ``roots_jacobi`` are NaN from a few thousand answers on.)
    """
    a, b = wrong - 1, right - 1
    n = np.arange(1, _RATE_POINTS)
    both = 2 * n + a + b
    middle = np.append((b - a) / (a + b + 2), (b**2 - a**2) / (both * (both + 2)))
    # A common factor of the first polynomial, which may be zero, is cancelled.
    common = np.append(1.0, (both - n)[1:] / (both[1:] - 1))
    square = 4 * n * (n + a) * (n + b) * common / (both**2 * (both + 1))
    nodes, vectors = eigh_tridiagonal(middle, np.sqrt(square))
    return (nodes + 1) / 2, vectors[0] ** 2


def _binary_entropy(probability: np.ndarray) -> np.ndarray:
    return -xlogy(probability, probability) - xlogy(1 - probability, 1 - probability)
