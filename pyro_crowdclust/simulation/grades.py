"""Crowds that grade how similar two items are."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pyro_crowdclust.simulation.simulated_pairs import simulate_pairs


def simulate_grades(
    labels: ArrayLike,
    sharpness: ArrayLike,
    thresholds: ArrayLike,
    *,
    doubt: ArrayLike = 0.0,
    pairs_per_worker: int,
    items: ArrayLike | None = None,
    balanced: bool = False,
    seed: int,
) -> pd.DataFrame:
    """``e ~ N(+-d_m / 2, 1)``, graded by how many of the worker's thresholds lie below e.

    Signal detection (Green and Swets 1966): worker m sees evidence e, around ``+d_m / 2`` for pairs
    that are the same and ``-d_m / 2`` for others, and cannot tell if it is within ``u_m`` of the
    median of the thresholds. Pairs are drawn as in ``simulate_pairs``.

    Parameters
    ----------
    labels
        True class of every item, integers or strings, shape ``[N]``.
    sharpness
        d of every worker, shape ``[M]``; with 0, grades are independent of the truth.
    thresholds
        Thresholds of every worker, in ascending order, shape ``[M, G - 1]``.
    doubt
        u of every worker, or one number for all.
    pairs_per_worker, items, balanced, seed
        As in ``simulate_pairs``.

    Returns
    -------
    Columns ``left, right, worker, label``, with grades from 1 to G, NaN for "can't tell".

    Raises
    ------
    ValueError
        If the thresholds do not have a row for every worker or do not ascend, the doubt is neither
        one number nor one for every worker, or a number is missing; and as ``simulate_pairs``
        does.

    Examples
    --------
    >>> frame = simulate_grades(
    ...     [0, 0, 1, 1], [9.0], [[-2.0, 0.0, 2.0]], pairs_per_worker=6, seed=0
    ... )
    >>> sorted(frame["label"])
    [1.0, 1.0, 1.0, 1.0, 4.0, 4.0]
    """
    sharp = np.asarray(sharpness, dtype=np.float64)
    cuts = np.asarray(thresholds, dtype=np.float64)
    if cuts.ndim != 2 or sharp.shape != cuts.shape[:1] or not cuts.size:
        raise ValueError(
            "thresholds must have one row and sharpness one number per worker, but their shapes "
            f"are {cuts.shape} and {sharp.shape}"
        )
    if not np.isfinite(sharp).all():
        raise ValueError(f"sharpness must be finite, but is {sharp}")
    ascends = (np.diff(cuts, axis=1) >= 0).all(1) & ~np.isnan(cuts).any(1)
    if not ascends.all():
        first = int(np.argmin(ascends))
        raise ValueError(f"thresholds of worker {first} do not ascend: {cuts[first]}")
    doubts = np.asarray(doubt, dtype=np.float64)
    if doubts.shape not in ((), sharp.shape) or not (doubts >= 0).all():
        raise ValueError(
            f"doubt must be one number, or one for each of {len(sharp)} workers, and not negative, "
            f"but is {doubts}"
        )
    right = np.ones(len(sharp))
    frame = simulate_pairs(
        labels,
        right,
        right,
        pairs_per_worker=pairs_per_worker,
        items=items,
        balanced=balanced,
        seed=seed,
    )
    rng = np.random.default_rng([seed, 1])
    worker = frame["worker"].to_numpy()
    evidence = sharp[worker] * (frame["label"] - 0.5) + rng.standard_normal(len(frame))
    grade = 1.0 + (evidence.to_numpy()[:, None] > cuts[worker]).sum(1)
    middle = np.median(cuts, axis=1)[worker]
    unsure = np.abs(evidence - middle) < np.broadcast_to(doubts, sharp.shape)[worker]
    return frame.assign(label=np.where(unsure, np.nan, grade))
