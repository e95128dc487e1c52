"""Items, features and answers in positions and codes, and back with the user's ids."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust.data import CrowdData

from .animals import IDS, crowd, features, table


def test_answers_are_positions_and_codes():
    data = crowd(page=["p2", "p1", "p2"])
    assert data.answers.left.tolist() == [0, 2, 3]
    assert data.answers.right.tolist() == [1, 0, 1]
    assert data.answers.worker.tolist() == [1, 0, 1]
    assert data.answers.page.tolist() == [1, 0, 1]
    assert data.answers.label.tolist() == [1.0, 0.0, 1.0]
    assert data.answers.left.dtype == data.answers.page.dtype == torch.int64
    assert data.answers.label.dtype == torch.float64
    assert list(data.worker_ids) == ["ada", "wu"]
    assert list(data.page_ids) == ["p1", "p2"]
    assert (data.num_items, data.num_workers, data.num_pairs, data.has_pages) == (4, 2, 3, True)


def test_without_answers():
    data = CrowdData(features())
    assert data.answers is None
    assert data.pairs is None
    assert data.annotated_items.tolist() == []
    assert (data.num_workers, data.num_pairs, data.has_pages) == (0, 0, False)
    assert list(data.item_ids) == [0, 1, 2, 3]


def test_annotated_items_are_sorted_and_unique():
    data = CrowdData(np.eye(6), table(left=[5, 3, 5], right=[3, 1, 1]))
    assert data.annotated_items.tolist() == [1, 3, 5]


@pytest.mark.parametrize("with_pages", [True, False])
def test_pairs_come_back_with_the_users_ids(with_pages):
    pages = {"page": [10, 10, 30]} if with_pages else {}
    given = table(worker=[9, 7, 9], **pages)
    pd.testing.assert_frame_equal(CrowdData(features(), given, item_ids=IDS).pairs, given)


def test_ids_of_a_data_frame_are_its_index():
    frame = pd.DataFrame(features(), index=IDS, columns=["x", "y"])
    data = CrowdData(frame, table())
    assert list(data.item_ids) == IDS
    pd.testing.assert_frame_equal(data.pairs, table())
    assert torch.equal(
        data.rows(data.item_positions(["dog", "ant"])), torch.tensor([[6.0, 7], [0, 1]]).double()
    )


def test_given_ids_go_before_those_of_a_data_frame():
    frame = pd.DataFrame(features(), index=list("efgh"))
    assert list(CrowdData(frame, item_ids=IDS).item_ids) == IDS


def test_answers_alone_define_the_items():
    data = CrowdData(None, table())
    assert list(data.item_ids) == IDS
    assert data.features is None
    pd.testing.assert_frame_equal(data.pairs, table())
    with pytest.raises(ValueError, match="no features"):
        data.rows(torch.tensor([0]))


def test_ids_alone_define_the_items():
    assert CrowdData(None, item_ids=IDS).num_items == 4


@pytest.mark.parametrize(
    ("ids", "workers"),
    [
        ([40, 10, 30, 20], [3, 1, 2]),
        ([(0, "a"), (0, "b"), (1, "a"), (1, "b")], [("x", 1), ("x", 0), ("x", 1)]),
        (["ant", 7, "cat", 8], ["wu", 3, "wu"]),
    ],
    ids=["integers", "tuples", "mixed"],
)
def test_any_hashable_id_makes_the_round_trip(ids, workers):
    given = table(left=[ids[0], ids[2], ids[3]], right=[ids[1], ids[0], ids[1]], worker=workers)
    data = CrowdData(features(), given, item_ids=ids)
    assert data.answers.left.tolist() == [0, 2, 3]
    back = data.pairs
    for column in given:
        assert back[column].tolist() == given[column].tolist()


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (np.float16, torch.float16),
        (np.float32, torch.float32),
        (np.float64, torch.float64),
        (">f4", torch.float32),
        (np.longdouble, torch.float64),
        (np.uint8, torch.float32),
        (np.uint64, torch.float32),
        (np.int64, torch.float32),
        (bool, torch.float32),
    ],
)
def test_rows_keep_the_precision_of_floats(given, returned):
    array = (np.arange(24).reshape(4, 3, 2) % 2).astype(given)
    rows = CrowdData(array).rows(torch.tensor([3, 0, 3]))
    assert rows.dtype == returned
    assert rows.double().tolist() == array[[3, 0, 3]].astype(float).tolist()


@pytest.mark.parametrize(
    ("given", "returned"),
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float64, torch.float64),
        (torch.uint8, torch.float32),
        (torch.bool, torch.float32),
    ],
)
def test_rows_of_a_tensor(given, returned):
    tensor = (torch.arange(8).reshape(4, 2) % 2).to(given)
    rows = CrowdData(tensor).rows(torch.tensor([2, 1]))
    assert rows.dtype == returned
    assert torch.equal(rows, tensor[[2, 1]].to(returned))


def test_item_positions():
    data = crowd()
    assert data.item_positions(["dog", "ant", "dog"]).tolist() == [3, 0, 3]
    assert data.item_positions([]).tolist() == []
    with pytest.raises(
        ValueError, match=r"ids row 1 is 'emu', not among the item ids \(such as 'ant'"
    ):
        data.item_positions(["dog", "emu"])


def test_item_positions_without_ids():
    data = CrowdData(features())
    assert data.item_positions(torch.tensor([3, 1])).tolist() == [3, 1]
    with pytest.raises(ValueError, match="ids row 0 is 4, not a position from 0 to 3"):
        data.item_positions([4])


@pytest.mark.parametrize("one", [3, "3", b"3", None, np.int64(3), np.array(3)])
def test_item_positions_of_an_id_in_no_list(one):
    with pytest.raises(ValueError, match=r"ids must be a flat list of .*: pass a list, even for"):
        CrowdData(features()).item_positions(one)


def test_answers_in_the_place_of_features():
    pairs = pd.DataFrame({"left": [0], "right": [1], "worker": ["a"], "label": [1]})
    with pytest.raises(ValueError, match="as pairs do: pass the table as pairs=pairs, and the fea"):
        CrowdData(pairs)
    labels = pd.DataFrame({"item": [0], "worker": ["a"], "label": ["x"]})
    with pytest.raises(ValueError, match="as labels do: pass the table as labels=labels"):
        CrowdData(labels, labels=np.eye(2))
    with pytest.raises(
        ValueError, match="about single items are labels, not pairs: pass the table as"
    ):
        CrowdData(np.eye(2), labels)
    pages = pd.DataFrame({"page": ["p"], "item": [0], "worker": ["a"], "group": ["x"]})
    with pytest.raises(
        ValueError, match="answers about single items are placements, not pairs: pass"
    ):
        CrowdData(np.eye(2), pages)


def test_some_of_the_answers_have_a_table_of_their_own():
    said = pd.DataFrame(
        {"left": [0, 1, 2], "right": [1, 2, 3], "worker": ["a"] * 3}, index=[7, 8, 9]
    )
    data = CrowdData(None, said.assign(label=[1, 0, 1]))
    some = data.with_answers(data.answers.at(torch.tensor([True, False, True])))
    assert some.pairs["right"].tolist() == [1, 3]
    labels = pd.DataFrame({"item": [0, 1, 1], "worker": ["a"] * 3, "label": list("xyx")})
    data = CrowdData(None, labels=labels.set_axis([7, 8, 9]))
    some = data.with_class_labels(data.class_labels.at(torch.tensor([True, True, False])))
    assert some.labels["label"].tolist() == ["x", "y"]


def test_data_is_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        crowd().answers = None


def test_repr():
    assert repr(crowd(page=[1, 1, 2])) == (
        "CrowdData(4 items, features float64 [2], 3 answers by 2 workers on 4 items in 1 page and "
        "1 single pair)"
    )
    assert "on 4 items in 3 pages" in repr(crowd(page=[1, 2, 3]))
    assert (
        repr(CrowdData(torch.ones(1, 2, 3, dtype=torch.float32)))
        == "CrowdData(1 item, features float32 [2, 3], no answers)"
    )
    assert repr(CrowdData(None, item_ids=IDS)) == "CrowdData(4 items, no features, no answers)"


@pytest.mark.parametrize(
    ("of", "name", "missing"),
    [
        ("pairs", "needed_answers", "no answers about pairs, .*: pass pairs to CrowdData"),
        ("placements", "needed_placements", "no sorted pages, .*: pass placements"),
        ("known", "needed_known", "no known labels, .*: pass known"),
        ("labels", "needed_class_labels", "no class labels, .*: pass labels"),
    ],
)
def test_what_is_needed_is_there_or_an_error_names_it(of, name, missing):
    tables = {
        "pairs": {"left": [0], "right": [1], "worker": ["a"], "label": [1]},
        "placements": {"page": [0, 0], "item": [0, 1], "worker": ["a"] * 2, "group": [0, 1]},
        "known": [0, None],
        "labels": {"item": [0, 1], "worker": ["a"] * 2, "label": ["x", "y"]},
    }
    data = CrowdData(np.eye(2), **{of: tables[of]})
    assert getattr(data, name) is getattr(data, name.removeprefix("needed_"))
    with pytest.raises(ValueError, match=missing):
        getattr(CrowdData(np.eye(2)), name)


def test_answers_without_pages_say_that_pages_are_needed():
    pairs = {"left": [0], "right": [1], "worker": ["a"], "label": [1]}
    assert CrowdData(np.eye(2), pairs | {"page": [7]}).answers.needed_page.tolist() == [0]
    with pytest.raises(ValueError, match="no pages of answers, .*: pass pairs with"):
        _ = CrowdData(np.eye(2), pairs).answers.needed_page
