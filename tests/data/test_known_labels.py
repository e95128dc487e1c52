from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.known_labels import Links, count_contradictions

IDS = ["ant", "bee", "cat", "dog"]


def crowd(**given) -> CrowdData:
    return CrowdData(np.eye(4), item_ids=IDS, **given)


@pytest.mark.parametrize(
    ("known", "codes", "labels"),
    [
        ([3, None, -1, 7], [0, -1, -1, 1], [3, 7]),
        ([1.0, np.nan, 0.0, 1.0], [1, -1, 0, 1], [0, 1]),
        (np.array([2, -1, 2, 0]), [1, -1, 1, 0], [0, 2]),
        (torch.tensor([-1, -1, 5, 4]), [-1, -1, 1, 0], [4, 5]),
        (["wing", None, "fur", "fur"], [1, -1, 0, 0], ["fur", "wing"]),
        (["wing", np.nan, -1, "fur"], [1, -1, -1, 0], ["fur", "wing"]),
        (["wing", "", " ", "fur"], [1, -1, -1, 0], ["fur", "wing"]),
        ([True, False, None, True], [1, 0, -1, 1], [False, True]),
        (pd.Series(["b", None, "a", "b"], IDS, dtype="category"), [1, -1, 0, 1], ["a", "b"]),
        (pd.Series([1, pd.NA, 0, 1], IDS, dtype="Int64"), [1, -1, 0, 1], [0, 1]),
        (pd.Series({"dog": "fur", "ant": "six legs"}), [1, -1, -1, 0], ["fur", "six legs"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_labels_of_every_kind(known, codes, labels):
    data = crowd(known=known)
    assert data.known.tolist() == codes
    assert data.known.dtype == torch.int64
    assert list(data.known_ids) == labels
    assert data.num_known_classes == len(labels)


@pytest.mark.parametrize(
    "known", [None, [None] * 4, {}, pd.Categorical([np.nan] * 4, categories=["cat", "dog"])]
)
def test_no_label_known(known):
    """Labels of which none is known are no supervision, whatever their classes might be."""
    data = crowd(known=known)
    assert data.known is None
    assert data.num_known_classes == 0
    assert str(data) == str(crowd())


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([1, 2], "2 labels for 4 items"),
        (np.eye(4), "shape \\(4, 4\\): pass a flat array with one label"),
        ([1, -2, 0, 0], "known row 1 .* label is -2, negative"),
        ([1, 0.5, 0, 0], "known row 1 .* label is 0.5, not a whole number"),
        (
            pd.Series({"ant": 1, "cow": 2}),
            "known row 1 has the item id 'cow', not among the item ids",
        ),
        (pd.Series([1, 2], index=["ant", "ant"]), "labels item 'ant' more than once"),
        (
            pd.DataFrame({"item": ["ant", "bee"], "label": [1, 2]}),
            r"\['item', 'label'\], but must .*table.set_index\('item'\)\['label'\]",
        ),
        ([[1], [2], [3], [4]], "flat list of strings or integers"),
        (3, "2 labels|1 label for 4 items"),
    ],
)
def test_labels_that_are_rejected(known, message):
    with pytest.raises(ValueError, match=message):
        crowd(known=known)


def test_links_are_positions():
    data = crowd(
        must_link={"left": ["ant"], "right": ["bee"]},
        cannot_link={"left": ["dog", "ant"], "right": ["ant", "cat"]},
    )
    assert data.links.left.tolist() == [0, 3, 0]
    assert data.links.right.tolist() == [1, 0, 2]
    assert data.links.must.tolist() == [True, False, False]
    assert data.links.num_links == 3
    assert data.num_contradictions == 0
    assert crowd().links is None


@pytest.mark.parametrize("make", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_links_may_be_pairs(make):
    links = CrowdData(np.eye(4), must_link=make([(0, 1), (2, 3)])).links
    assert links.left.tolist() == [0, 2]
    assert links.right.tolist() == [1, 3]
    with pytest.raises(ValueError, match="must_link have no column 'left'"):
        CrowdData(np.eye(4), must_link=make([(0, 1, 2)]))
    with pytest.raises(ValueError, match="must_link have no rows; leave must_link out"):
        CrowdData(np.eye(4), must_link=make([]))


@pytest.mark.parametrize("name", ["must_link", "cannot_link"])
@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (["cow"], ["ant"], "row 0 .*: left is 'cow', not among"),
        (["ant"], ["ant"], "row 0 .*: left is 'ant', an item paired with itself"),
        ([None], ["ant"], "row 0 .*: left is missing"),
        ([], [], "have no rows"),
    ],
)
def test_links_that_are_rejected(name, left, right, message):
    with pytest.raises(ValueError, match=f"{name}.* {message}"):
        crowd(**{name: {"left": left, "right": right}})


def test_repeated_links_are_kept_with_a_warning():
    with pytest.warns(UserWarning, match="must_link row 1 .* repeats an earlier link"):
        data = crowd(must_link={"left": ["ant", "bee"], "right": ["bee", "ant"]})
    assert data.links.num_links == 2


def test_contradictions_are_counted_and_warned_of():
    must = {"left": ["ant", "bee"], "right": ["bee", "cat"]}
    with pytest.warns(UserWarning, match="1 contradiction among"):
        data = crowd(must_link=must, cannot_link={"left": ["ant"], "right": ["cat"]})
    assert data.num_contradictions == 1
    assert data.links.num_links == 3
    with pytest.warns(UserWarning, match="2 contradictions among"):
        crowd(
            must_link=must,
            known=["wing", None, "fur", "fur"],
            cannot_link={"left": ["dog"], "right": ["cat"]},
        )


def test_links_that_agree_are_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = crowd(
            known=["wing", "wing", "fur", None],
            must_link={"left": ["ant"], "right": ["bee"]},
            cannot_link={"left": ["ant"], "right": ["cat"]},
        )
    assert data.num_contradictions == 0


def test_contradictions_against_every_assignment():
    """No contradiction means that some assignment keeps every link and label, and conversely."""
    generator = torch.Generator().manual_seed(0)
    seen = set()
    every = torch.cartesian_prod(*[torch.arange(5)] * 5)
    for _ in range(60):
        ends = torch.stack([torch.randperm(5, generator=generator)[:2] for _ in range(4)])
        must = torch.rand(4, generator=generator) < 0.6
        known = torch.randint(-1, 2, (5,), generator=generator)
        same = every[:, ends[:, 0]] == every[:, ends[:, 1]]
        kept = (same == must).all(1)
        labelled = known >= 0
        kept &= (every[:, labelled] == known[labelled]).all(1)
        possible = bool(kept.any())
        links = Links(ends[:, 0], ends[:, 1], must)
        assert (count_contradictions(links, known) == 0) == possible
        seen.add(possible)
    assert seen == {True, False}


def test_repr():
    with_links = crowd(known=[0, 0, 1, None], must_link={"left": ["ant"], "right": ["bee"]})
    assert repr(with_links).endswith("no answers, 3 known labels of 2 kinds, 1 link)")
