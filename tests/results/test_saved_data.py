"""Data in files: ids of every kind, labels and links."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData, load
from pyro_crowdclust.results.saved_data import data_fields
from pyro_crowdclust.supervision import Unsupervised
from pyro_crowdclust.training.fingerprint import digest

from ..crowds import crowd, crowd_of_all_kinds, plain_pair, quiet_fit


def test_data_with_labels_and_links(path):
    data = crowd_of_all_kinds()
    quiet_fit(*plain_pair(Unsupervised(refuses=False)), data, epochs=1).save(path)
    loaded = load(path).data
    assert digest(data_fields(loaded)) == digest(data_fields(data))
    assert torch.equal(loaded.known, data.known)
    assert torch.equal(loaded.links.left, data.links.left)
    assert torch.equal(loaded.class_labels.label, data.class_labels.label)
    assert repr(loaded) == repr(data).replace("features float64 [4]", "no features")


@pytest.mark.parametrize(
    "ids",
    [
        range(60),
        range(120, 0, -2),
        np.arange(60) * 2.5,
        pd.date_range("2026-01-01", periods=60),
        [("box", i) for i in range(60)],
        [i if i % 2 else f"i{i}" for i in range(60)],
        pd.Index([f"{i}" for i in range(60)], name="picture"),
        np.arange(60, dtype=np.uint16),
        pd.date_range("2020", periods=60, tz="Europe/Rome").to_series().dt.date,
        pd.date_range("2020", periods=60, freq="1ns", tz="Europe/Rome"),
        pd.Index([UUID(int=i) for i in range(60)]),
        pd.Index([Decimal(i) / 2 for i in range(60)]),
        pd.Index([bytes([i]) for i in range(60)]),
        pd.interval_range(0, 60),
        pd.period_range("2020-01", periods=60, freq="M"),
        pd.period_range("1950", periods=60, freq="Q-MAR").astype(object),
        [timedelta(seconds=i, microseconds=1) for i in range(60)],
        [datetime(2020, 1, 1, 0, i, fold=1) for i in range(60)],
        [("box", i) if i % 2 else i for i in range(60)],
        [(np.int64(i), "box") for i in range(60)],
    ],
    ids=["range", "numbers", "floats", "dates", "tuples", "mixed", "named", "unsigned"]
    + [
        "days",
        "zones",
        "uuids",
        "decimals",
        "bytes",
        "intervals",
        "months",
        "years",
        "times",
        "folds",
        "tuples beside numbers",
        "numbers in tuples",
    ],
)
def test_ids_of_every_kind(ids, path):
    features, pairs = crowd().features, crowd().pairs
    index = CrowdData(features, item_ids=ids).item_ids
    pairs = pairs.assign(
        left=pd.Series(list(index[pairs["left"]]), dtype=object),
        right=pd.Series(list(index[pairs["right"]]), dtype=object),
        worker=pairs["worker"].map({0: "zoë", 1: "ann", 2: "李"}),
    )
    data = CrowdData(features, pairs, item_ids=ids)
    result = quiet_fit(*plain_pair(), data, epochs=1)
    result.save(path)
    loaded = load(path)
    pd.testing.assert_index_equal(loaded.data.item_ids, data.item_ids)
    pd.testing.assert_index_equal(loaded.workers.index, result.workers.index)
    pd.testing.assert_frame_equal(loaded.data.pairs, data.pairs)
    assert load(path, data=data).data is data
