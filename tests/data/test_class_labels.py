from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust.annotators import LabelLikelihood
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.distributions import AssignmentAtMean
from pyro_crowdclust.distributions.class_labels import ItemLabels
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch, item_batches
from pyro_crowdclust.results.saved_data import data_fields, data_of


def frame(**changed) -> pd.DataFrame:
    """Five answers about three items; keywords replace columns."""
    columns = {
        "item": ["b", "a", "c", "a", "b"],
        "worker": ["wu", "ada", "wu", "wu", "ada"],
        "label": ["yes", "no", "no", "no", "maybe"],
    }
    return pd.DataFrame(columns | changed, index=["r0", "r1", "r2", "r3", "r4"])


class Rows:
    """Annotators whose rows are given."""

    num_classes = 3

    def log_answers(self, values: dict[str, torch.Tensor]) -> torch.Tensor:
        return values["rows"]


def random_labels(num_items: int, num_answers: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "item": rng.integers(num_items, size=num_answers),
            "worker": rng.integers(4, size=num_answers),
            "label": rng.integers(3, size=num_answers),
        }
    )
    return table.drop_duplicates(ignore_index=True)


def test_labels_are_positions_and_codes_and_come_back_with_the_users_ids():
    data = CrowdData(None, labels=frame())
    assert list(data.item_ids) == ["a", "b", "c"]
    assert list(data.worker_ids) == ["ada", "wu"]
    assert list(data.class_ids) == ["maybe", "no", "yes"]
    assert data.class_labels.item.tolist() == [1, 0, 2, 0, 1]
    assert data.class_labels.worker.tolist() == [1, 0, 1, 1, 0]
    assert data.class_labels.label.tolist() == [2, 1, 1, 1, 0]
    assert (data.num_labels, data.num_classes, data.num_workers) == (5, 3, 2)
    pd.testing.assert_frame_equal(data.labels, frame())
    assert repr(data) == (
        "CrowdData(3 items, no features, 5 labels of 3 classes on 3 items by 2 workers)"
    )


def test_classes_are_taken_in_the_given_order():
    data = CrowdData(None, labels=frame(), classes=["yes", "no", "maybe"])
    assert list(data.class_ids) == ["yes", "no", "maybe"]
    assert data.class_labels.label.tolist() == [0, 1, 1, 1, 2]


def test_ordered_categories_are_the_classes():
    """As those of ``classes=``: in their order, and also where nobody names them."""
    table, order = pd.DataFrame(frame()), ["yes", "maybe", "later", "no"]
    table["label"] = pd.Categorical(table["label"], categories=order, ordered=True)
    with pytest.warns(UserWarning, match="class 'later' is in no answer"):
        data = CrowdData(None, labels=table)
    assert list(data.class_ids) == order
    table["label"] = table["label"].cat.as_unordered()
    assert list(CrowdData(None, labels=table).class_ids) == ["maybe", "no", "yes"]
    assert list(CrowdData(None, labels=table, classes=["no", "yes", "maybe"]).class_ids)[0] == "no"


def test_workers_of_pairs_and_labels_share_their_ids():
    pairs = {"left": ["a"], "right": ["c"], "worker": ["bo"], "label": [1]}
    data = CrowdData(None, pairs, labels=frame())
    assert list(data.worker_ids) == ["ada", "bo", "wu"]
    assert data.answers.worker.tolist() == [1]
    assert data.class_labels.worker.tolist() == [2, 0, 2, 2, 0]
    assert "5 labels" in repr(data)
    assert "1 answer " in repr(data)


def test_an_item_without_an_answer_is_an_item():
    data = CrowdData(None, labels=frame(), item_ids=["a", "b", "c", "d"])
    matrix = full_batch(data).class_labels
    assert matrix.counts.tolist() == [2, 2, 1, 0]
    assert matrix.votes()[3].tolist() == [0, 0, 0]


def test_answers_that_contradict_each_other_pass_silently():
    table = frame(item=["a"] * 5, worker=["wu"] * 5, label=["yes", "no", "maybe", "later", "never"])
    assert CrowdData(None, labels=table).num_labels == 5


def test_repeated_answers_are_kept_with_a_warning():
    table = frame(item=["b", "a", "c", "b", "b"], label=["yes", "no", "no", "yes", "yes"])
    with pytest.warns(UserWarning, match=r"labels row 3 \(index 'r3'\): repeats an earlier answer"):
        data = CrowdData(None, labels=table)
    assert data.num_labels == 5
    # Of three labels of item b two are of one worker, which count as one.
    assert full_batch(data).class_labels.votes()[1].tolist() == [0, 2]


def test_a_class_that_nobody_chose_is_kept_with_a_warning():
    with pytest.warns(UserWarning, match=r"class 'later' is in no answer \(1 such classes\)"):
        data = CrowdData(None, labels=frame(), classes=["yes", "no", "maybe", "later"])
    assert data.num_classes == 4


def test_labels_that_say_that_nobody_could_tell_are_no_class_without_a_word():
    labels = frame(label=["no", "yes", "Can\u2019t tell", "unsure", "unsure"])
    message = r"labels that are 'Can\u2019t tell' or 'unsure' count as a class: drop their rows"
    with pytest.warns(UserWarning, match=message) as told:
        data = CrowdData(None, labels=labels)
    assert len(told) == 1
    assert data.num_classes == 4
    again = CrowdData(None, labels=labels, classes=data.class_ids)  # who names them means them
    assert again.class_ids.equals(data.class_ids)
    assert data_of(data_fields(data)).num_classes == 4


@pytest.mark.parametrize("number", [int, float])
def test_minus_one_beside_two_classes_may_stand_for_no_answer(number):
    label = [number(one) for one in (0, 1, -1, 1, -1)]
    with pytest.warns(UserWarning, match=r"labels that are -1(\.0)? count as a class"):
        CrowdData(None, labels=frame(label=label))
    CrowdData(None, labels=frame(label=label), classes=[-1, 0, 1])  # named, so that it is meant


def test_minus_one_and_one_are_two_classes():
    data = CrowdData(None, labels=frame(label=[-1, 1, -1, 1, 1]))
    assert data.class_ids.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("changed", "options", "message"),
    [
        (
            {},
            {"classes": ["yes", "no"]},
            r"labels row 4 \(index 'r4'\): label is 'maybe', not among the classes \('yes', 'no'\)",
        ),
        ({}, {"classes": ["yes", "yes"]}, "classes row 1 is 'yes', which is there already"),
        ({}, {"classes": ["yes", None]}, "classes row 1 is (nan|None), which is missing"),
        ({}, {"classes": []}, "classes are empty"),
        ({}, {"classes": 3}, "classes is 3, but must name every class .* as a list"),
        ({}, {"classes": "xy"}, "classes is 'xy', but must name every class .* as a list"),
        (
            {"label": ["no"] * 5, "item": list("abcde")},
            {},
            "all labels are 'no', but there",
        ),
        ({"label": [None, None, "", " ", np.nan]}, {}, "every label is missing: fill them in, or"),
        ({"item": ["a", None, "a", "b", "c"]}, {}, r"row 1 \(index 'r1'\): item is missing"),
        ({}, {"item_ids": ["a", "b"]}, r"labels row 2 \(index 'r2'\): item is 'c', not among"),
    ],
)
def test_bad_labels(changed, options, message):
    with pytest.raises(ValueError, match=message):
        CrowdData(None, labels=frame(**changed), **options)


@pytest.mark.parametrize("items", [[7, 8, 9, 8, 7], [7, 8, 8, 9, 10], [8, 6, 9, 7, 7]])
def test_items_numbered_in_a_row_are_found_and_others_named(items):
    data = CrowdData(None, labels=frame(item=items), item_ids=range(6, 11))
    assert (data.class_labels.item + 6).tolist() == items
    for unknown in (5, 11, -(2**63)):
        wrong = [*items[:4], unknown]
        with pytest.raises(
            ValueError, match=f"index 'r4'.: item is {unknown}, not a position|among"
        ):
            CrowdData(None, labels=frame(item=wrong), item_ids=pd.Index([6, 7, 8, 9, 10]))


def test_bad_tables():
    with pytest.raises(ValueError, match="labels have no column 'worker'"):
        CrowdData(None, labels=frame().drop(columns="worker"))
    with pytest.raises(
        ValueError, match="labels have no rows; leave labels out if there are none. To start a"
    ):
        CrowdData(np.eye(3), labels=frame()[:0])
    with pytest.raises(ValueError, match="classes are given without labels"):
        CrowdData(np.eye(3), classes=["yes", "no"])


@pytest.mark.parametrize("workers", [["ann", "ben"], [101, 102], [0, 1]], ids=str)
@pytest.mark.parametrize("ids", [None, "item", "id", "photo"])
@pytest.mark.parametrize("further", [[], ["size", "date"]], ids=len)
def test_a_column_for_every_worker_is_an_error_that_says_how_to_turn_it(workers, ids, further):
    """What the error says is what is to be done."""
    table = pd.DataFrame(
        [("x", "x"), ("y", "x"), (None, "y")], index=["r", "s", "t"], columns=workers
    )
    if ids is not None:
        table = table.rename_axis(ids).reset_index()
    table[further] = np.array([("7", "May"), ("7", "May"), ("8", None)])[:, : len(further)]
    message = f"labels have no column .*or, if {workers[0]!r}, {workers[1]!r} are workers, make"
    with pytest.raises(ValueError, match=message) as error:
        CrowdData(None, labels=table)
    code = str(error.value).split("a row of every answer: ")[-1]
    turned = CrowdData(None, labels=eval(code, {"table": table}))
    assert turned.num_labels == 5
    assert turned.item_ids.tolist() == ["r", "s", "t"]
    assert turned.worker_ids.tolist() == workers


@pytest.mark.parametrize(
    "table",
    [
        {"item": ["a", "b"], "person": ["ann", "ben"], "answer": ["x", "y"]},
        {"item": ["a", "b"], "person": ["ann", "ben"], "box": [[1], [1]], "other": [[1], [1]]},
        {"item": ["a", "b"], "worker": ["ann", "ben"], "first": ["x", "y"], "second": ["x", "y"]},
    ],
)
def test_other_tables_are_not_taken_for_a_column_for_every_worker(table):
    with pytest.raises(ValueError, match="labels have no column") as error:
        CrowdData(None, labels=table)
    assert "melt" not in str(error.value)


def test_labels_that_are_numbers_may_be_of_workers_who_skipped_items():
    table = {"item": range(3), "ann": [0, 1, 1], "ben": [1.0, None, 0.0]}
    with pytest.raises(ValueError, match=r"'ann', 'ben' are workers, .*: table\.melt\('item', "):
        CrowdData(None, labels=table)


def test_three_columns_without_names_are_to_be_named():
    with pytest.raises(ValueError, match="labels have no column .*; name the columns: pandas"):
        CrowdData(None, labels=[(0, "ann", "x"), (1, "ann", "y")])


def test_labels_that_look_like_probabilities_are_told_of():
    with pytest.warns(
        UserWarning, match="labels such as 0.2 are numbers between 0 and 1, and count"
    ):
        CrowdData(None, labels=frame(label=[0.2, 0.9, 0.2, 1.0, 0.0]))
    data = CrowdData(None, labels=frame(label=[0.5, 1.5, 0.5, 1.0, 2.0]))  # stars
    assert data.num_classes == 4


def test_labels_that_no_answers_share_are_refused_unless_classes_name_them():
    answers = pd.DataFrame({"item": range(150), "worker": "ann", "label": np.arange(150) / 200})
    with pytest.raises(ValueError, match="150 different values.*combine_soft_answers"):
        CrowdData(None, labels=answers)
    named = CrowdData(None, labels=answers, classes=answers["label"])
    assert named.num_classes == 150
    texts = answers.assign(label=[f"a tale of {number * 7919 % 10007}" for number in range(150)])
    with pytest.raises(ValueError, match="150 different values, 150 of which are given once"):
        CrowdData(None, labels=texts)
    assert CrowdData(None, labels=pd.concat([texts, texts.assign(worker="ben")])).num_classes == 150


@pytest.mark.parametrize("blank", [None, np.nan, pd.NA, "", " "], ids=repr)
def test_rows_without_a_label_are_skipped(blank):
    """Also if they name neither a worker nor an item that is known."""
    full = frame(label=["a", "b", "a", "b", "b"])
    more = pd.DataFrame({"item": ["new", None], "worker": [None, "ada"], "label": [blank, blank]})
    table = pd.concat([full[:2], more, full[2:]])
    with pytest.warns(
        UserWarning, match=r"labels row 2 \(index 0, 2 such rows\): label is missing; .* skipped"
    ) as found:
        data = CrowdData(None, labels=table)
    assert len(found) == 1
    assert Path(found[0].filename) == Path(__file__)
    assert data.labels.to_numpy().tolist() == full.to_numpy().tolist()
    with pytest.warns(UserWarning, match="rows without a label are skipped"):
        named = CrowdData(None, labels=table, classes=["b", "a"], item_ids=["new", *data.item_ids])
    assert (named.num_items, named.num_labels) == (data.num_items + 1, 5)


@pytest.mark.parametrize("num_items", [3, 5000])
def test_the_density_of_assignments_is_that_of_a_categorical(num_items):
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(num_items, 4, dtype=torch.float64, generator=generator)
    q, other = AssignmentAtMean(logits), torch.rand(num_items, 4, generator=generator).double()
    expected = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(q.probabilities, expected.probs)
    torch.testing.assert_close(q.log_prob(q.probabilities), -expected.entropy())
    torch.testing.assert_close(q.log_prob(other), (other * expected.logits).sum(-1))


def test_the_density_of_labels_is_the_sum_over_the_answers():
    data = CrowdData(None, labels=random_labels(5000, 9000, seed=4), item_ids=range(5000))
    labels = full_batch(data).class_labels
    generator = torch.Generator().manual_seed(0)
    log_answers = torch.randn(4, 3, 3, dtype=torch.float64, generator=generator)
    log_answers = log_answers.log_softmax(1).requires_grad_()
    z = torch.rand(5000, 3, dtype=torch.float64, generator=generator).requires_grad_()
    likelihood = LabelLikelihood(Rows(), {"rows": log_answers})
    evidence = likelihood.evidence(labels)
    found = ItemLabels(z, evidence, likelihood, labels).log_prob(labels.label)
    named = log_answers[labels.worker, labels.label]
    expected = torch.zeros_like(found).index_add(0, labels.item, (named * z[labels.item]).sum(1))
    torch.testing.assert_close(found, expected)
    weight = torch.rand(5000, dtype=torch.float64, generator=generator)
    for ours, theirs in zip(
        torch.autograd.grad(found @ weight, [z, log_answers]),
        torch.autograd.grad(expected @ weight, [z, log_answers]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_rows_of_the_matrix_are_the_items_asked_for():
    data = CrowdData(None, labels=random_labels(9, 40, seed=1), item_ids=range(12))
    whole = data.class_labels.of_items(torch.arange(12)).votes()
    some = torch.tensor([11, 4, 0, 8, 9])
    assert torch.equal(data.class_labels.of_items(some).votes(), whole[some])
    for first, stop in ((0, 9), (3, 7), (5, 12)):
        in_a_row = torch.arange(first, stop)
        assert torch.equal(data.class_labels.of_items(in_a_row).votes(), whole[first:stop])
    up_and_down = torch.tensor([2, 5, 3, 4, 6])
    assert torch.equal(data.class_labels.of_items(up_and_down).votes(), whole[up_and_down])
    assert data.class_labels.of_items(torch.empty(0, dtype=torch.int64)).num_items == 0


def test_minibatches_of_items_bring_all_their_labels_and_are_unbiased():
    data = CrowdData(np.eye(10), labels=random_labels(10, 40, seed=2))
    total = torch.zeros(4 * 3, dtype=torch.float64)
    sampler = MinibatchSampler(data, batch_size=5, generator=torch.Generator().manual_seed(0))
    everything = full_batch(data)
    assert everything.item_scale == 1.0
    whole = everything.class_labels
    dense = torch.bincount(whole.cell, minlength=12).double()
    for batch in sampler:
        assert batch.item_scale == 2.0
        matrix = batch.class_labels
        assert torch.equal(matrix.votes(), whole.votes()[batch.items])
        weight = batch.item_weight[matrix.item]
        total += torch.bincount(matrix.cell, weights=weight, minlength=12) / len(sampler)
    # An epoch draws every item once, so that the mean over its batches is exact.
    torch.testing.assert_close(total, dense)


def test_batches_of_items_alone_hold_labels_only_on_request():
    data = CrowdData(np.eye(10), labels=random_labels(10, 40, seed=3))
    assert all(batch.class_labels is None for batch in item_batches(data, 4))
    held = [len(batch.class_labels) for batch in item_batches(data, 4, class_labels=True)]
    assert sum(held) == data.num_labels


def test_labels_in_columns():
    data = CrowdData(np.eye(10), labels=random_labels(10, 40, seed=4))
    (batch,) = item_batches(data, 10, torch.tensor([7, 2, 3]), class_labels=True)
    worker, label, is_given = batch.class_labels.padded()
    longest = int(torch.bincount(data.class_labels.item).max())
    assert worker.shape == label.shape == is_given.shape == (longest, 3)
    for column, item in enumerate([7, 2, 3]):
        of_item = data.class_labels.item == item
        given = is_given[:, column]
        # Those that are there come first, in the order of the table.
        assert given.tolist() == [True] * int(of_item.sum()) + [False] * int((~given).sum())
        assert torch.equal(worker[given, column], data.class_labels.worker[of_item])
        assert torch.equal(label[given, column], data.class_labels.label[of_item])


def test_weights_that_are_all_one_number_are_that_number():
    batch = full_batch(CrowdData(np.eye(4)))
    weights = {"same": torch.full((4,), 2.5), "different": torch.arange(4.0)}
    scales = {
        name: dataclasses.replace(batch, item_weight=weight).item_scale
        for name, weight in weights.items()
    }
    assert scales["same"] == 2.5
    assert torch.equal(scales["different"], weights["different"])
    assert batch.pair_scale == 1.0


@pytest.mark.parametrize(
    "name", ["unknown", "N/A", "Don't know", "I don\u2019t  know", "I cannot tell", "?"]
)
def test_names_that_often_stand_for_no_answer_are_told(name):
    labels = frame(label=["no", "yes", name, "no", "yes"])
    with pytest.warns(UserWarning, match="count as a class: drop their rows if they mean"):
        CrowdData(None, labels=labels)
    CrowdData(None, labels=labels, classes=["no", "yes", name])
