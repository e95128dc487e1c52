"""Tests whether one prediction of the same answers, or items, is better than another, or chance.

Standard errors are for independent answers (``error_of_mean``), for blocks of dependent ones
(``error_of``), or for answers about pairs that share items (``dyadic_error``).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from torch import Tensor

# Smallest difference of ELBOs, in nats, that is strong evidence: odds of 20 to one (Kass and
# Raftery 1995).
SMALLEST_EVIDENCE = 3.0


def is_clearly_better(
    one: Float[np.ndarray, " answer"] | Float[Tensor, " answer"],
    other: Float[np.ndarray, " answer"] | Float[Tensor, " answer"],
    errors: float = 2.0,
) -> bool:
    """Whether the mean of one is larger than that of the other by more than ``errors``.

    ``errors`` counts standard errors of the difference. Answers are taken as independent; if they
    share items, the true error is larger.

    Examples
    --------
    >>> other = np.zeros(4)
    >>> is_clearly_better(other + [0.2, 0.0, 0.2, 0.0], other)  # .1 with an error of .05
    False
    >>> is_clearly_better(other + [0.2, 0.0, 0.2, 0.0], other, errors=1.5)
    True
    """
    gains = np.asarray(one - other)
    return bool(gains.mean() > errors * error_of_mean(gains))


def error_of_mean(values: Float[np.ndarray, " answer"]) -> float:
    """Standard error of a mean of independent values."""
    return float(values.std() / np.sqrt(len(values)))


def error_of(difference: Float[np.ndarray, " answer"], blocks: Int[np.ndarray, " answer"]) -> float:
    """Standard error of a mean difference whose values within a block are not independent."""
    sums = np.bincount(blocks, difference - difference.mean())
    return float(np.sqrt(np.square(sums).sum()) / len(difference))


def gain_by_a_part(
    found: Float[np.ndarray, " answer"], chance: Float[np.ndarray, " answer"]
) -> Float[np.ndarray, " answer"]:
    """``p(L) / p_0(L) - 1`` of every answer: the gain from mixing the prediction into chance.

    It is the derivative of ``log((1 - t) p_0(L) + t p(L))`` at t = 0. Its mean is above 0 if and
    only if some mixture with the prediction makes the answers likelier than chance alone. If the
    answers are independent of the prediction, the expectation is
    ``sum_L p_0(L) (p(L) / p_0(L) - 1) = 0``, however confident the prediction is, whereas that of
    ``log p(L) / p_0(L)`` is negative.

    Parameters
    ----------
    found, chance
        ``log p(L)`` and ``log p_0(L)``.

    Examples
    --------
    >>> surely = np.log([0.9, 0.1])  # of an outcome that occurs, and of one that does not
    >>> bool(np.isclose(gain_by_a_part(surely, np.log([0.5, 0.5])).mean(), 0))
    True
    """
    return np.expm1(found - chance)


def is_clear(
    gain: Float[np.ndarray, " answer"], ends: Int[np.ndarray, "2 answer"], num_candidates: int
) -> bool:
    """Whether the best of C candidates is better than chance, given that the best was picked.

    With d_p its gain in answer p, of P answers, and d the mean gain,

        d > Phi^-1(1 - .05 / C) se,
        P^2 se^2 = sum_i (sum_{p of i} (d_p - d))^2 - sum_{ij} (sum_{p of i, j} (d_p - d))^2

    The level is corrected for picking the best of C (Bonferroni). The error allows for answers that
    share either of their items (Aronow, Samii and Assenova 2015): the sums over the answers about
    each item, less those about each pair, which are in the sums of two items. It is at least the
    error of independent pairs, and that of independent answers: with few items the formula can fall
    below these.

    Parameters
    ----------
    gain
        d_p.
    ends
        The two items of every answer.
    num_candidates
        C.

    Examples
    --------
    >>> gain = np.where(np.arange(100) % 2, 0.3, -0.1)  # .1 with an error of .02
    >>> is_clear(gain, np.arange(200).reshape(2, 100), 20)
    True
    >>> is_clear(gain, np.arange(200).reshape(2, 100) % 4, 20)  # about few items
    False
    """
    return bool(gain.mean() > critical_value(num_candidates) * dyadic_error(gain, ends))


def critical_value(num_candidates: int) -> float:
    """``Phi^-1(1 - .05 / C)``: standard errors that the best of C seldom exceeds by chance.

    Examples
    --------
    >>> round(critical_value(1), 2), round(critical_value(6), 2)
    (1.64, 2.39)
    """
    return float(-ndtri(0.05 / num_candidates))


def dyadic_error(
    difference: Float[np.ndarray, " answer"], ends: Int[np.ndarray, "2 answer"]
) -> float:
    """Standard error of a mean over answers that are dependent if they share an item."""
    residual = difference - difference.mean()
    of_items = sum(np.bincount(end, residual, ends.max() + 1) for end in ends)
    pairs = np.unique(np.sort(ends, axis=0), axis=1, return_inverse=True)[1]
    of_pairs = np.square(np.bincount(pairs.reshape(-1), residual)).sum()
    # Opposite answers about one pair cancel in its sum, but they still count.
    least = max(of_pairs, np.square(residual).sum())
    return float(np.sqrt(max(np.square(of_items).sum() - of_pairs, least)) / len(difference))
