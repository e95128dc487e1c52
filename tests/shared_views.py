"""A crowd in which two workers may make the same mistakes."""

from __future__ import annotations

import numpy as np
import pandas as pd

NUM_ITEMS, FEW = 60, ("h", "i")
KINDS = np.arange(NUM_ITEMS) % 3
# What the two see: a quarter of the items in another cluster.
MISREAD = np.where(np.arange(NUM_ITEMS) % 4 == 0, (KINDS + 1) % 3, KINDS)


def crowd_of_two_views(seen: np.ndarray, number: int = 800, accuracy: float = 0.9) -> pd.DataFrame:
    """Seven workers who err independently, and two with half of the answers who see something.

    Parameters
    ----------
    seen
        The clusters that the two see; they err about one answer in thirty, each on their own.
    number
        Number of answers.
    accuracy
        That of the seven.
    """
    rng = np.random.default_rng(0)
    left = rng.integers(NUM_ITEMS, size=number)
    right = (left + rng.integers(1, NUM_ITEMS, size=number)) % NUM_ITEMS
    worker = np.where(rng.random(number) < 0.5, rng.integers(7, size=number), 7)
    worker = np.where(worker == 7, rng.integers(7, 9, size=number), worker)
    view = np.where((worker >= 7)[:, None], seen[np.stack([left, right], 1)], 0)
    same = np.where(worker >= 7, view[:, 0] == view[:, 1], KINDS[left] == KINDS[right])
    is_wrong = rng.random(number) < np.where(worker >= 7, 1 / 30, 1 - accuracy)
    names = np.array([*"abcdefg", *FEW])[worker]
    label = (same ^ is_wrong).astype(int)
    return pd.DataFrame({"left": left, "right": right, "worker": names, "label": label})
