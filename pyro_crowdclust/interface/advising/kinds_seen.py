"""Whether workers who disagree with the clusters see finer or coarser kinds than these."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from pyro_crowdclust.results import Fitted

# The share by chance of what contradicts finer, or coarser, kinds occurs at most this many times.
_OF_CHANCE = 0.25


def kinds_seen(result: Fitted, workers: Bool[np.ndarray, " worker"]) -> str | None:
    """``"finer"`` or ``"coarser"`` if most answers of these workers are of such kinds; or None.

    Whoever sees finer kinds than the clusters often calls items of one cluster different, but
    hardly any of different clusters the same: these are at most a quarter of those among any of
    their answers. Whoever guesses is wrong about both.

    Parameters
    ----------
    result
        A fit with answers about pairs, or sorted pages.
    workers
        The workers, by code.
    """
    data = result.data if result.data.placements is None else result.data.as_pairs()
    answers = data.answers
    if answers is None:
        return None
    same, code = answers.label.numpy(), answers.worker.numpy()
    ends = result.assignments[answers.items.numpy()]
    together = (ends[:, 0] == ends[:, 1]).astype(float)
    number = {"finer": 0, "coarser": 0}
    asked = ~np.isnan(same) & workers[code]
    for worker in np.unique(code[asked]):
        own = asked & (code == worker)
        if kind := _kind_seen(same[own], together[own]):
            number[kind] += int(own.sum())
    most = max(number, key=lambda kind: number[kind])
    return most if number[most] > asked.sum() / 2 else None


def _kind_seen(
    same: Float[np.ndarray, " answer"], together: Float[np.ndarray, " answer"]
) -> str | None:
    """What a worker sees, from the answers "same" and the clusters of their pairs."""
    share = together.mean()
    if 0 < same.sum() < len(same) and 0 < share < 1:
        if (same * (1 - together)).sum() / same.sum() <= _OF_CHANCE * (1 - share):
            return "finer"
        if ((1 - same) * together).sum() / (1 - same).sum() <= _OF_CHANCE * share:
            return "coarser"
    return None
