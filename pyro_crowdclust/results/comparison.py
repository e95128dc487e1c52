"""Whether one prediction of the same answers, or items, is better than another, or than chance.

Standard errors are of independent answers (``error_of_mean``), of blocks of them (``error_of``), or
of answers that share items (``dyadic_error``).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri
from torch import Tensor

# A difference of ELBOs, in nats, below which none is strong evidence: odds of 20 to one (Kass and
# Raftery 1995).
SMALLEST_EVIDENCE = 3.0


def is_clearly_better(
    one: Float[np.ndarray, " answer"] | Float[Tensor, " answer"],
    other: Float[np.ndarray, " answer"] | Float[Tensor, " answer"],
    errors: float = 2.0,
) -> bool:
    """Whether the mean of one is larger by more than so many standard errors of the difference.

    Answers are taken as independent: of those that share items the error is larger.

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
    """Standard error of a mean difference, whose parts of one item are not independent."""
    sums = np.bincount(blocks, difference - difference.mean())
    return float(np.sqrt(np.square(sums).sum()) / len(difference))


def gain_by_a_part(
    found: Float[np.ndarray, " answer"], chance: Float[np.ndarray, " answer"]
) -> Float[np.ndarray, " answer"]:
    """``p(L) / p_0(L) - 1`` of every answer: what chance gains by a little of a prediction.

    It is the derivative of ``log((1 - t) p_0(L) + t p(L))`` at t = 0, whose mean is above 0 if and
    only if some share of the prediction makes the answers likelier than chance does. For answers
    that have nothing to do with it the expectation is ``sum_L p_0(L) (p(L) / p_0(L) - 1) = 0``,
    however sure it is of itself; that of ``log p(L) / p_0(L)`` is below.

    Parameters
    ----------
    found, chance
        ``log p(L)`` and ``log p_0(L)``.

    Examples
    --------
    >>> surely = np.log([0.9, 0.1])  # of what happens, and of what does not
    >>> bool(np.isclose(gain_by_a_part(surely, np.log([0.5, 0.5])).mean(), 0))
    True
    """
    return np.expm1(found - chance)


def is_clear(
    gain: Float[np.ndarray, " answer"], ends: Int[np.ndarray, "2 answer"], num_candidates: int
) -> bool:
    """Whether the best of many candidates is better than chance, and not the luckiest of them.

    With d_p what it gains in answer p, of P, and d its mean,

        d > Phi^-1(1 - .05 / C) se,
        P^2 se^2 = sum_i (sum_{p of i} (d_p - d))^2 - sum_{ij} (sum_{p of i, j} (d_p - d))^2

    The level is that of the best of C (Bonferroni), the error that of answers that share items,
    either of the two (Aronow, Samii and Assenova 2015): sums over the answers about an item, less
    those about a pair, which are in the sums of two items. Where that is less than the error of
    independent pairs, or of independent answers, which few items can make it, it is this.

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
    return bool(gain.mean() > errors_of_the_luckiest(num_candidates) * dyadic_error(gain, ends))


def errors_of_the_luckiest(num_candidates: int) -> float:
    """``Phi^-1(1 - .05 / C)``: standard errors that the luckiest of C seldom has by chance alone.

    Examples
    --------
    >>> round(errors_of_the_luckiest(1), 2), round(errors_of_the_luckiest(6), 2)
    (1.64, 2.39)
    """
    return float(-ndtri(0.05 / num_candidates))


def dyadic_error(
    difference: Float[np.ndarray, " answer"], ends: Int[np.ndarray, "2 answer"]
) -> float:
    """Standard error of a mean over answers of which those that share an item depend."""
    residual = difference - difference.mean()
    of_items = sum(np.bincount(end, residual, ends.max() + 1) for end in ends)
    pairs = np.unique(np.sort(ends, axis=0), axis=1, return_inverse=True)[1]
    of_pairs = np.square(np.bincount(pairs.reshape(-1), residual)).sum()
    # Answers that say the opposite of one pair cancel in its sum, but are no fewer for that.
    least = max(of_pairs, np.square(residual).sum())
    return float(np.sqrt(max(np.square(of_items).sum() - of_pairs, least)) / len(difference))
