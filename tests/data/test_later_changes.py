"""Data, and what was fitted to them, stay the same when the user's own tables change later."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import classify, cluster
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.mixture import GaussianComponents
from pyro_crowdclust.training.fingerprint import data_digest

FRAMES = (
    lambda numbers: pd.DataFrame(numbers, columns=["x", "y"]),
    lambda numbers: pd.DataFrame({"x": numbers[:, 0], "y": numbers[:, 1]}),
    lambda numbers: pd.DataFrame({"x": numbers[:, 0], "y": [*"abab"]}),
    lambda numbers: pd.DataFrame(numbers, columns=["x", "y"]).convert_dtypes(),
)
ARRAYS = (
    np.array,
    np.asfortranarray,
    lambda numbers: numbers.astype(np.int64),
    torch.tensor,
    lambda numbers: numbers.tolist(),
    lambda numbers: np.ma.masked_equal(numbers, 0.0),
)


def change(given) -> None:
    """Write other values into a table, array or list, and into what it was made of."""
    if isinstance(given, dict):
        for part in given.values():
            change(part)
    elif isinstance(given, pd.DataFrame):
        for name in given.columns:
            given.loc[:, name] = given[name].to_numpy()[::-1].copy()
    elif isinstance(given, torch.Tensor):
        given.copy_(given.flip(0).clone())
    else:
        given[:] = given[::-1].copy()


def numbers() -> np.ndarray:
    return np.arange(8.0).reshape(4, 2)


def pairs(kind=np.array, ids=(0, 1, 2, 3)) -> dict:
    columns = [ids[0], ids[2], ids[3]], [ids[1], ids[0], ids[1]], [7, 5, 7], [1, 0, 1]
    return dict(zip(("left", "right", "worker", "label"), map(kind, columns), strict=True))


def labels(kind=np.array, ids=(0, 1, 2, 3)) -> dict:
    columns = [ids[0], ids[2], ids[3]], [7, 5, 7], [1, 0, 2]
    return dict(zip(("item", "worker", "label"), map(kind, columns), strict=True))


ARGUMENTS = {
    **{f"frame {n}": {"features": of(numbers())} for n, of in enumerate(FRAMES)},
    **{f"array {n}": {"features": of(numbers())} for n, of in enumerate(ARRAYS)},
    "array with kinds": {"features": numbers(), "kinds": {0: "count", 1: "real"}},
    "array of ids": {"features": None, "item_ids": np.array([3, 5, 9, 2])},
    "tensor of ids": {"features": None, "item_ids": torch.tensor([3, 5, 9, 2])},
    "list of ids": {"features": None, "item_ids": [*"abcd"]},
    "pairs of arrays": {"features": None, "pairs": pairs()},
    "pairs of tensors": {"features": None, "pairs": pairs(torch.tensor)},
    "pairs in a frame": {"features": None, "pairs": pd.DataFrame(pairs())},
    "pairs of lists": {"features": None, "pairs": pairs(list, "abcd")},
    "pairs in another order": {"features": None, "pairs": pd.DataFrame(pairs()).iloc[::-1]},
    "grades": {"features": None, "pairs": pairs(), "grades": np.array([0, 1])},
    "labels of arrays": {"features": None, "labels": labels()},
    "labels of tensors": {"features": None, "labels": labels(torch.tensor)},
    "labels in a frame": {"features": None, "labels": pd.DataFrame(labels(list, "abcd"))},
    "classes in an array": {"features": None, "labels": labels(), "classes": np.array([2, 0, 1])},
    "classes in a tensor": {
        "features": None,
        "labels": labels(),
        "classes": torch.tensor([2, 0, 1]),
    },
    "pages": {
        "features": None,
        "placements": {
            "page": np.array([1, 1, 2, 2]),
            "item": np.array([0, 1, 2, 3]),
            "worker": np.array([7, 7, 5, 5]),
            "group": np.array([1, 1, 1, 2]),
        },
    },
    "known in an array": {"features": numbers(), "known": np.array([1, -1, 0, 1])},
    "known in a tensor": {"features": numbers(), "known": torch.tensor([1, -1, 0, 1])},
    "links": {"features": numbers(), "must_link": np.array([[0, 1], [2, 3]])},
    "likeness": {
        "features": None,
        "pairs": pairs(),
        "likeness": {
            "left": np.array([0, 1]),
            "right": np.array([2, 3]),
            "alike": np.array([0.5, 0.1]),
        },
    },
}


@pytest.mark.parametrize("given", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.filterwarnings("ignore:.*alike:UserWarning")
def test_no_argument_is_read_again(given):
    data = CrowdData(**given)
    before = data_digest(data)
    for name, argument in given.items():
        if argument is not None and name != "kinds":
            change(argument)
    assert data_digest(data) == before


def test_ids_of_a_frame_are_not_read_again():
    ids = np.array([3, 5, 9, 2])
    data = CrowdData(pd.DataFrame(numbers(), index=ids))
    ids[:] = 0
    assert data.item_ids.tolist() == [3, 5, 9, 2]


def test_a_fit_of_clusters_stays_as_it_was():
    kind = np.arange(60) % 2
    features = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)) + 6 * kind[:, None])
    options = {"num_clusters": 2, "num_starts": 1, "epochs": 5, "progress": False}
    result = cluster(features, components=GaussianComponents, **options)
    read_now = dataclasses.replace(result)  # which computes its own values
    expected = read_now.assignments, read_now.elbo
    features.loc[:, :] = 0.0
    np.testing.assert_array_equal(result.assignments, expected[0])
    assert result.elbo == expected[1]


@pytest.mark.long
def test_a_fit_of_classes_stays_as_it_was():
    kind = np.arange(20) % 2
    features = np.random.default_rng(0).normal(size=(20, 2)) + 4 * kind[:, None]
    said = {"item": np.arange(20), "worker": ["ann", "ben"] * 10, "label": kind.copy()}
    result = classify(features, said, folds=2, epochs=2, progress=False)
    expected = dataclasses.replace(result).class_probabilities
    features[:] = said["label"][:] = 0
    pd.testing.assert_frame_equal(result.class_probabilities, expected)
