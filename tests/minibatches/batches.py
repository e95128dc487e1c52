"""Data whose batches can be checked, and what holds for every batch of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import torch

from pyro_crowdclust.data import CrowdData


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_pairs(num_items: int, num_pairs: int, seed: int, num_pages: int = 0) -> pd.DataFrame:
    """Different items, a worker of its own per answer (so that no row repeats), random labels."""
    rng = np.random.default_rng(seed)
    left = rng.integers(num_items, size=num_pairs)
    columns = {
        "left": left,
        "right": (left + rng.integers(1, num_items, size=num_pairs)) % num_items,
        "worker": np.arange(num_pairs),
        "label": rng.integers(2, size=num_pairs),
    }
    if num_pages:
        columns["page"] = np.arange(num_pairs) % num_pages
    return pd.DataFrame(columns)


def crowd(num_items: int, pairs: pd.DataFrame | None) -> CrowdData:
    """Items whose only feature is their own position, so that features can be checked."""
    return CrowdData(np.arange(float(num_items))[:, None], pairs)


def answers_in(batch) -> list[tuple]:
    """The answers as (left, right, worker, label), in positions of the whole data."""
    left, right = batch.items[batch.left].tolist(), batch.items[batch.right].tolist()
    return list(zip(left, right, batch.worker.tolist(), batch.label.tolist(), strict=True))


def answers_of(data: CrowdData) -> list[tuple]:
    columns = (data.answers.left, data.answers.right, data.answers.worker, data.answers.label)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def check_batch(batch, data: CrowdData) -> None:
    """What holds for every batch of `crowd` data."""
    assert batch.features[:, 0].tolist() == batch.items.tolist()
    assert len(batch.items.unique()) == len(batch.items)
    ends = torch.cat([batch.left, batch.right]).unique()
    assert ends.tolist() == list(range(batch.num_paired))
    assert len(batch.item_weight) == len(batch.items)
    assert len(batch.pair_weight) == batch.num_pairs
    assert batch.item_weight.dtype == batch.pair_weight.dtype == torch.float64
    assert (batch.num_items, batch.num_workers) == (data.num_items, data.num_workers)
    if data.answers is not None:
        assert not Counter(answers_in(batch)) - Counter(answers_of(data))
