from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.data.repeat_weights import repeat_weights

NUM_ITEMS, NUM_CLASSES = 150, 3


def said(stays, times, num_workers=4, seed=0):
    """Codes of answers; worker 0 answers several times, each as before with this probability."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(NUM_CLASSES, size=NUM_ITEMS)
    rows = []
    for worker in range(num_workers):
        opinion = None
        for time in range(times if worker == 0 else 1):
            right = rng.random(NUM_ITEMS) < 0.7
            other = (classes + rng.integers(1, NUM_CLASSES, size=NUM_ITEMS)) % NUM_CLASSES
            label = np.where(right, classes, other)
            if opinion is not None:
                label = np.where(rng.random(NUM_ITEMS) < stays, opinion, label)
            opinion = label if time == 0 else opinion
            rows += [*zip(range(NUM_ITEMS), [worker] * NUM_ITEMS, label, strict=True)]
    return torch.tensor(np.array(rows)).T


@pytest.mark.parametrize(("stays", "low", "high"), [(0.0, 3.5, 5.0), (1.0, 0.99, 1.1)])
def test_repeats_count_as_many_answers_as_they_are_independent(stays, low, high):
    weight = repeat_weights(*said(stays, times=5), 4, NUM_CLASSES)
    together = weight[: 5 * NUM_ITEMS].reshape(5, NUM_ITEMS).sum(0)
    assert low < together.min() <= together.max() < high
    assert (weight[5 * NUM_ITEMS :] == 1).all()


def test_independent_answers_of_workers_who_are_hardly_ever_wrong_count_in_full():
    rng = np.random.default_rng(0)
    num_items, num_workers, times = 300, 5, 3
    truth = rng.integers(2, size=num_items)
    codes = np.indices((num_items, num_workers, times))[:2].reshape(2, -1)
    label = np.where(rng.random(codes.shape[1]) < 0.99, truth[codes[0]], 1 - truth[codes[0]])
    weight = repeat_weights(*map(torch.as_tensor, (*codes, label)), num_workers, 2)
    assert weight.mean() > 0.85  # .56 where rows under their prior say how often they differ


def test_nothing_depends_on_the_order_of_the_rows():
    codes = said(0.7, times=3)
    order = torch.randperm(codes.shape[1], generator=torch.Generator().manual_seed(0))
    found = repeat_weights(*codes[:, order], 4, NUM_CLASSES)
    torch.testing.assert_close(found, repeat_weights(*codes, 4, NUM_CLASSES)[order])


def test_without_repeats_or_of_one_worker_all_answers_count():
    assert repeat_weights(*said(0.0, times=1), 4, NUM_CLASSES) is None
    assert repeat_weights(*said(0.9, times=5, num_workers=1), 4, NUM_CLASSES) is None
    assert repeat_weights(*torch.zeros(3, 0, dtype=torch.int64), 4, NUM_CLASSES) is None


def test_few_repeats_count_as_one_answer_each():
    codes = said(0.0, times=1)
    again = torch.cat([codes, codes[:, :1]], dim=1)
    weight = repeat_weights(*again, 4, NUM_CLASSES)
    assert weight[[0, -1]].sum() < 1.2
    # Repeats about items that nobody else has seen show nothing, unless they differ.
    item, worker, label = codes
    for labels, are_one in (([0, 0], True), ([0, 1], False)):
        alone = (
            torch.tensor([NUM_ITEMS] * 2),
            torch.zeros(2, dtype=torch.int64),
            torch.tensor(labels),
        )
        more = [torch.cat(parts) for parts in zip((item, worker, label), alone, strict=True)]
        found = repeat_weights(*more, 4, NUM_CLASSES)[-2:]
        assert bool((found == 0.5).all()) is are_one


def test_answers_that_differ_show_how_independent_they_are_without_others():
    rng = np.random.default_rng(0)
    num_items = 400
    item = np.concatenate([np.repeat(np.arange(num_items), 2), [num_items]])
    worker = torch.tensor([0] * (2 * num_items) + [1])
    for wrong, low, high in ((0.5, 0.9, 1.0), (0.1, 0.6, 0.75), (0.0, 0.5, 0.5)):
        label = torch.from_numpy((rng.random(len(item)) < wrong).astype(int))
        weight = repeat_weights(torch.as_tensor(item), worker, label, 2, 2)
        assert low <= weight[0] <= high


def test_parts_of_labels_keep_their_weights():
    item, worker, label = said(1.0, times=3).numpy()
    table = {"item": item, "worker": worker, "label": label}
    with pytest.warns(UserWarning, match="such answers count together as one"):
        labels = CrowdData(None, labels=table).class_labels
    some = labels.at(labels.worker == 0)
    assert some.weight.max() < 0.4
    assert some.size == pytest.approx(labels.weight[worker == 0].sum().item())
    assert int(labels.is_first.sum()) == 4 * NUM_ITEMS
    matrix = labels.of_items(torch.tensor([5, 2]))
    for row, one in enumerate((5, 2)):
        own = labels.item == one
        torch.testing.assert_close(matrix.weight[matrix.item == row], labels.weight[own])
