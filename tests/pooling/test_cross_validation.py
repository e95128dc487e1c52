"""Labels predicted by fits that have not seen them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.pooling.cross_validation import cross_validated, folds_of


def answers() -> pd.DataFrame:
    """Six workers of 40 items, some with one label; string ids."""
    rng = np.random.default_rng(0)
    item, worker = np.nonzero(rng.random((40, 6)) < 0.4)
    label = rng.integers(3, size=len(item))
    ids = {"item": [f"i{i:02d}" for i in item], "worker": [f"w{j}" for j in worker]}
    return pd.DataFrame(ids | {"label": np.array([*"abc"])[label]})


def test_folds_of_an_item_are_spread_and_the_same_in_any_order_of_the_table():
    table = answers()
    data = CrowdData(None, labels=table)
    labels = data.class_labels.of_items(torch.arange(data.num_items))
    folds = folds_of(labels, seed=1)
    assert np.ptp(np.bincount(folds)) <= 1
    for item in range(data.num_items):
        own = folds[labels.item == item]
        assert np.bincount(own, minlength=10).max() == -(-len(own) // 10)
    shuffled = CrowdData(
        None, labels=table.sample(frac=1, random_state=0), item_ids=data.item_ids
    ).class_labels.of_items(torch.arange(data.num_items))
    found = {
        (int(i), int(j)): fold
        for i, j, fold in zip(shuffled.item, shuffled.worker, folds_of(shuffled, 1), strict=True)
    }
    assert [found[int(i), int(j)] for i, j in zip(labels.item, labels.worker, strict=True)] == [
        *folds
    ]
    assert (folds_of(labels, seed=2) != folds).any()


class Seen:
    """Remembers which labels it was fitted to, in what it says of them."""

    def __init__(self, data: CrowdData) -> None:
        labels = data.class_labels
        self.seen = set(zip(labels.item.tolist(), labels.worker.tolist(), strict=True))
        self.probabilities = labels.of_items(torch.arange(data.num_items)).votes().numpy()

    def answer_probabilities(self, item, worker, label) -> np.ndarray:
        assert not self.seen & {*zip(item.tolist(), worker.tolist(), strict=True)}
        return np.repeat(label[:, None], 3, 1).astype(float)


def test_each_label_is_predicted_by_a_fit_without_it():
    data = CrowdData(None, labels=answers())
    labels = data.class_labels.of_items(torch.arange(data.num_items))
    fits: list[Seen] = []

    def fit(part: CrowdData) -> Seen:
        fits.append(Seen(part))
        return fits[-1]

    found = cross_validated(fit, data)
    kept = labels.has_others
    assert not kept.all()
    np.testing.assert_array_equal(found.named[:, 0], labels.label[kept])
    # The votes of the others: without the fold of the label, but with it its item keeps some.
    left = found.classes.sum(1)
    assert (left < labels.counts[labels.item[kept]].numpy()).all()
    assert (left > 0).all()
    alone = labels.item[~kept], labels.worker[~kept]
    only = {*zip(*(part.tolist() for part in alone), strict=True)}
    assert all(only <= fitted.seen for fitted in fits)
    assert len(fits) == 10


@pytest.mark.filterwarnings("ignore:labels row")  # these are no copies
def test_labels_under_a_single_name_are_those_of_many_people():
    """So that the others about the item stay, in whatever order the rows are."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"item": np.tile(np.arange(40), 4), "label": rng.integers(2, size=160)})
    data = CrowdData(None, labels=table.assign(worker="all"))
    left = []

    class Others:
        def __init__(self, part: CrowdData) -> None:
            matrix = part.class_labels.of_items(torch.arange(40))
            left.append(matrix.counts.numpy())
            self.probabilities = matrix.votes().numpy()

        def answer_probabilities(self, item, worker, label) -> np.ndarray:
            return np.repeat(label[:, None], 2, 1).astype(float)

    found = cross_validated(Others, data)
    labels = data.class_labels.of_items(torch.arange(40))
    np.testing.assert_array_equal(found.named[:, 0], labels.label)
    others = labels.votes()[labels.item]
    others[torch.arange(160), labels.label] -= 1
    np.testing.assert_array_equal(found.classes, others)
    assert np.min(left) == 3
    mixed = CrowdData(None, labels=table.assign(worker="all").sample(frac=1, random_state=0))
    of_mixed = mixed.class_labels.of_items(torch.arange(40))
    assert _by_label(of_mixed) == _by_label(labels)


def _by_label(labels) -> list[tuple[int, int, int]]:
    parts = labels.item, labels.label, torch.from_numpy(folds_of(labels, seed=1))
    return sorted(zip(*(part.tolist() for part in parts), strict=True))
