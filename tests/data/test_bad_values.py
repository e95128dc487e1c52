"""Tensors and numbers that are none of what is asked for: one clear line each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.mixture import (
    DiagonalGaussianComponents,
    DirichletWeights,
    GaussianComponents,
    StickBreakingWeights,
)

from ..refusals import refuses

LARGE = 2**60
# Made where they are needed: the first nested tensor loads much of PyTorch.
KINDS = {
    "sparse": lambda: torch.eye(4).to_sparse(),
    "nested": lambda: torch.nested.nested_tensor(
        [torch.ones(2), torch.ones(3)], layout=torch.jagged
    ),
    "meta": lambda: torch.ones(4, 4, device="meta"),
    "complex": lambda: torch.eye(4).cfloat(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_features_that_are_no_dense_numbers(kind):
    with refuses(f"features are a tensor that is .*{kind}.*: convert it"):
        CrowdData(KINDS[kind]())


@pytest.mark.parametrize("what", ["item_ids", "known", "classes", "a column"])
def test_columns_that_are_no_dense_numbers(what):
    column = torch.tensor([0, 1, 2, 1]).to_sparse()
    labels = {"item": [0, 1], "worker": [0, 0], "label": [0, 1]}
    named = "pairs column .left." if what == "a column" else what
    with refuses(f"{named}: a tensor that is sparse"):
        if what == "a column":
            CrowdData(np.eye(4), {"left": column, "right": [1] * 4, "worker": 1, "label": 1})
        elif what == "classes":
            CrowdData(None, labels=labels, classes=column)
        else:
            CrowdData(np.eye(4), **{what: column})


@pytest.mark.parametrize("make", [lambda t: t.bfloat16(), lambda t: t.float().requires_grad_()])
def test_tensors_of_any_precision_and_with_gradients(make):
    features = make(torch.randn(4, 2))
    codes = make(torch.tensor([0, 1, 2, 3]))
    pairs = {"left": codes[:2], "right": codes[2:], "worker": codes[:2], "label": codes[:2]}
    data = CrowdData(features, pairs, item_ids=codes, known=make(torch.tensor([1, 1, -1, 0])))
    assert data.answers.left.tolist() == [0, 1]
    assert data.answers.label.tolist() == [0.0, 1.0]
    assert data.known.tolist() == [1, 1, -1, 0]
    assert data.item_positions(codes[[2]]).tolist() == [2]
    assert not data.rows(torch.arange(4)).requires_grad
    labels = CrowdData(None, labels={"item": codes, "worker": codes, "label": codes}, classes=codes)
    assert labels.num_classes == 4


@pytest.mark.parametrize(
    "known",
    [
        [LARGE, LARGE + 1, None, -1],
        (LARGE, LARGE + 1, float("nan"), -1),
        pd.array([LARGE, LARGE + 1, None, -1], dtype="Int64"),
        pd.Series([LARGE, LARGE + 1, None, -1], dtype="Int64"),
        pd.Series([LARGE, LARGE + 1, None, -1], dtype=object),
        pd.Series([-1, None, LARGE + 1, LARGE], dtype="Int64", index=[3, 2, 1, 0]),
        {0: LARGE, 1: LARGE + 1},
    ],
    ids=lambda known: type(known).__name__,
)
def test_labels_keep_all_their_digits(known):
    data = CrowdData(np.eye(4), known=known)
    assert list(data.known_ids) == [LARGE, LARGE + 1]
    assert data.known.tolist() == [0, 1, -1, -1]


def test_a_series_tells_items_by_its_index():
    labels = pd.Series(["a", "b", "c", None])
    by_id = {"item_ids": [3, 2, 1, 0]}
    for index in (pd.RangeIndex(4), pd.Index([0, 1, 2, 3])):
        data = CrowdData(np.eye(4), known=labels.set_axis(index), **by_id)
        assert data.known.tolist() == [-1, 2, 1, 0]
        data = CrowdData(np.eye(4), known=labels.set_axis(index))
        assert data.known.tolist() == [0, 1, 2, -1]
    in_order = CrowdData(np.eye(4), known=labels.to_numpy(), **by_id)
    assert in_order.known.tolist() == [0, 1, 2, -1]
    with refuses(
        r"known row 0 has the item id 0, not among .*in the order of the items pass known.to_numpy"
    ):
        CrowdData(np.eye(4), known=labels, item_ids=list("wxyz"))
    few = CrowdData(np.eye(4), known=labels[:2])
    assert few.known.tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize("value", [2.5, 3.0, "3", None, True, float("nan"), [3], torch.tensor(3)])
@pytest.mark.parametrize(
    "make",
    [
        DirichletWeights,
        StickBreakingWeights,
        lambda k: GaussianComponents(k, 2),
        lambda k: DiagonalGaussianComponents(k, 2),
    ],
)
def test_numbers_of_clusters(make, value):
    with refuses("num_clusters is .*, but must be a whole number"):
        make(value)


@pytest.mark.parametrize("make", [GaussianComponents, DiagonalGaussianComponents])
@pytest.mark.parametrize("dim", [0, -1, 2.5, "2", None])
def test_numbers_of_features(make, dim):
    with refuses("dim is .*, but (must be a whole number|a Gaussian needs at least one feature)"):
        make(2, dim)


def test_whole_numbers_of_numpy():
    assert GaussianComponents(np.int64(3), np.int32(2)).num_clusters == 3
