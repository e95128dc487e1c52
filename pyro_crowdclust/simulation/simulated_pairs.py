"""Crowds that answer about random pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Int
from numpy.typing import ArrayLike

from pyro_crowdclust.errors import check_whole
from pyro_crowdclust.simulation.argument_checks import asked_items, worker_rates
from pyro_crowdclust.simulation.two_coin_answers import answer_frame, two_coin_answers


def simulate_pairs(
    labels: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    *,
    pairs_per_worker: int,
    items: ArrayLike | None = None,
    balanced: bool = False,
    seed: int,
) -> pd.DataFrame:
    """``P(L = 1 | same) = a_m`` and ``P(L = 0 | different) = b_m``, answered about random pairs.

    The two-coin model of Luo et al. 2018, eq. 2: worker ``m`` has sensitivity ``a_m`` and
    specificity ``b_m``. Each draws pairs of distinct items uniformly, none of them twice, and
    answers each pair independently.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape ``[N]``.
    sensitivity, specificity
        One probability per worker, shape ``[M]``.
    pairs_per_worker
        Answers that each worker gives.
    items
        Positions of the items that are asked about; default all.
    balanced
        Draw as many pairs of truly the same class as of different ones, which is how the equal
        numbers of must-link and cannot-link constraints of Luo et al. 2018, section 5.2, are
        produced here. The truth is balanced and not the answers, because choosing pairs by their
        answers would change the very rates that are asked for; with equal sensitivity and
        specificity, as in that section, the answers balance too, in expectation.
    seed
        The same seed gives the same frame.

    Returns
    -------
    Columns ``left, right, worker, label``; ``M * pairs_per_worker`` rows.

    Raises
    ------
    ValueError
        Where a rate, an item or a number is out of its range, or there are too few pairs to draw
        from.

    Examples
    --------
    >>> simulate_pairs([0, 0, 1, 1], [1.0], [1.0], pairs_per_worker=6, seed=0)["label"].sum()
    np.int64(2)
    """
    sensitivity, specificity = worker_rates(sensitivity=sensitivity, specificity=specificity)
    truth, items = asked_items(labels, items)
    check_whole("pairs_per_worker", pairs_per_worker, least=1)
    if balanced and pairs_per_worker % 2:
        raise ValueError(
            f"pairs_per_worker must be even if balanced=True, but is {pairs_per_worker}: half of "
            "the pairs are of the same class and half of different ones"
        )

    # With the items sorted by class, the earlier ones of the same class as item j are the positions
    # from start[j] to j, those of another class the positions below start[j]: both are ranges.
    order = np.argsort(truth, kind="stable")
    start = np.searchsorted(truth[order], truth[order])
    position = np.arange(len(order))
    zero = np.zeros_like(position)
    if balanced:
        half = pairs_per_worker // 2
        ranges = [("same-class", start, position, half), ("different-class", zero, start, half)]
    else:
        ranges = [("distinct", zero, position, pairs_per_worker)]

    rng = np.random.default_rng(seed)
    frames = []
    for worker in range(len(sensitivity)):
        drawn = [_draw_pairs(kind, first, end, size, rng) for kind, first, end, size in ranges]
        pairs = order[rng.permutation(np.concatenate(drawn))]
        same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
        label = two_coin_answers(same, sensitivity[worker], specificity[worker], rng)
        frames.append(answer_frame(items[pairs], worker, label))
    return pd.concat(frames, ignore_index=True)


def _draw_pairs(
    kind: str,
    first: Int[np.ndarray, " item"],
    end: Int[np.ndarray, " item"],
    size: int,
    rng: np.random.Generator,
) -> Int[np.ndarray, "pair 2"]:
    """Pairs ``(i, j)`` with ``first[j] <= i < end[j]``, uniformly and without replacement."""
    cumulative = np.cumsum(end - first)
    available = int(cumulative[-1])
    if size > available:
        raise ValueError(
            f"each worker needs {size} {kind} pairs, but the items have only {available}; lower "
            "pairs_per_worker or pass more items"
        )
    drawn = rng.choice(available, size, replace=False)
    j = np.searchsorted(cumulative, drawn, side="right")
    i = end[j] - (cumulative[j] - drawn)
    return np.stack([i, j], axis=1)
