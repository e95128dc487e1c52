"""Fits to be saved, and whether two say the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from pyro_crowdclust import Fitted

from ..crowds import amortized_pair, blobs, crowd, message_passing_pair, plain_pair, quiet_fit
from ..same_fits import equal, parameters

MAKERS = {
    "plain": plain_pair,
    "message passing": message_passing_pair,
    "amortized": amortized_pair,
}
IDS = [f"item ☃ {(7 * i) % 60:02d}" for i in range(60)]
NEW = blobs(9, seed=4)[0]


@cache
def fitted(kind: str) -> Fitted:
    return quiet_fit(*MAKERS[kind](), crowd(item_ids=IDS))


def check_same(one: Fitted, other: Fitted) -> None:
    """Whether everything that can be read is the same, bit for bit."""
    assert equal(parameters(one.model, one.guide), parameters(other.model, other.guide))
    for table in ("history", "workers", "clusters"):
        pd.testing.assert_frame_equal(getattr(one, table), getattr(other, table), check_exact=True)
    for name in ("elbo", "stop_reason", "seconds", "seed", "dtype"):
        assert getattr(one, name) == getattr(other, name), name
    for name in ("probabilities", "assignments", "latent_means"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for verb in ("predict", "predict_proba"):
        assert np.array_equal(getattr(one, verb)(NEW), getattr(other, verb)(NEW)), verb
    assert one.data.item_ids.equals(other.data.item_ids)
    pd.testing.assert_frame_equal(one.data.pairs, other.data.pairs)
    ids = list(one.data.item_ids)
    assert np.array_equal(
        one.same_cluster_probability(ids[:5], ids[5:10]),
        other.same_cluster_probability(ids[:5], ids[5:10]),
    )
