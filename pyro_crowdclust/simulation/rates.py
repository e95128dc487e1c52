"""The true rates of workers in a crowd, computed from their answers and the true classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logit

from pyro_crowdclust.metrics import label_codes
from pyro_crowdclust.simulation.argument_checks import positions


def two_coin_rates(frame: pd.DataFrame, labels: ArrayLike) -> pd.DataFrame:
    """``weight_m = log a_m / (1 - a_m) + log b_m / (1 - b_m)``, from each worker's observed rates.

    ``a_m`` is the share of "same" among the worker's answers about pairs of the same class, and
    ``b_m`` the share of "different" among those about pairs of different classes. The weight is
    that of Luo et al. 2018, section 5.2: the evidence in an answer of this worker, in nats; 0 for a
    worker who guesses.

    Parameters
    ----------
    frame
        Answers with columns ``left, right, worker, label``; ``left`` and ``right`` are positions in
        ``labels``.
    labels
        True class of every item, integers or strings, shape ``[N]``.

    Returns
    -------
    One row per worker (the index), with columns ``sensitivity``, ``specificity``, ``weight``,
    ``same_pairs`` and ``different_pairs`` (answers that each rate rests on). A rate that rests on
    no answer is NaN, and so is its weight; a rate of exactly 0 or 1 makes the weight infinite (NaN
    where one rate is 0 and the other 1).

    Raises
    ------
    ValueError
        Where a column is missing, the frame is empty, a position is out of range or a label is not
        0 or 1.

    Examples
    --------
    >>> from pyro_crowdclust.simulation import simulate_pairs
    >>> crowd = simulate_pairs([0, 0, 1, 1], [1.0, 0.0], [1.0, 1.0], pairs_per_worker=6, seed=0)
    >>> two_coin_rates(crowd, [0, 0, 1, 1])[["sensitivity", "specificity"]].to_numpy().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    missing = [name for name in ("left", "right", "worker", "label") if name not in frame]
    if missing:
        raise ValueError(f"frame lacks the columns {missing}; it has {list(frame.columns)}")
    if frame.empty:
        raise ValueError("frame is empty: there is no answer to compare with the labels")
    truth = label_codes(labels)
    left = positions(frame["left"], len(truth), "column left")
    right = positions(frame["right"], len(truth), "column right")
    label = frame["label"].to_numpy()
    if not np.isin(label, (0, 1)).all():
        row = int(np.argmin(np.isin(label, (0, 1))))
        raise ValueError(f"column label must be 0 or 1, but row {row} holds {label[row]}")

    same = truth[left] == truth[right]
    correct = (label == same).astype(np.float64)
    by_worker = pd.DataFrame(
        {
            "worker": frame["worker"].to_numpy(),
            "sensitivity": np.where(same, correct, np.nan),
            "specificity": np.where(same, np.nan, correct),
        }
    ).groupby("worker")
    rates = by_worker.mean()
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, as documented
        rates["weight"] = logit(rates["sensitivity"]) + logit(rates["specificity"])
    # NaN, which marks pairs of the other kind, is not counted.
    counts = by_worker.count()
    rates["same_pairs"] = counts["sensitivity"]
    rates["different_pairs"] = counts["specificity"]
    return rates
