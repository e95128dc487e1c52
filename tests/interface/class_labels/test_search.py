"""Which labels are held out, and how they are scored."""

import numpy as np

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.class_labels.search import mean_of_others, parts_of_seen_classes


def test_labels_of_others_are_those_of_all_others_in_the_part():
    found = np.arange(18.0).reshape(2, 3, 3)
    expected = [[(1 + 2) / 2, (3 + 5) / 2, (6 + 7) / 2], [(10 + 11) / 2, (12 + 14) / 2, 15.5]]
    np.testing.assert_allclose(mean_of_others(found), expected)
    np.testing.assert_allclose(mean_of_others(found[:, :1, :1]), [[0], [9]])


def test_a_class_that_is_held_out_as_a_whole_says_nothing():
    said = {"item": [0, 0, 1, 2, 3, 4], "worker": list("abaaaa"), "label": list("xzxyyx")}
    data = CrowdData(None, labels=said)
    parts = parts_of_seen_classes(data, folds=5, seed=0)
    kept = sorted(int(item) for _, held in parts for item in held.item)
    assert kept == [1, 2, 3, 4]  # nobody else says z
    for seen, held in parts:
        assert set(held.label.tolist()) <= set(seen.class_labels.label.tolist())
    alone = CrowdData(None, labels={"item": [0, 1], "worker": list("aa"), "label": list("xy")})
    every = [held for _, held in parts_of_seen_classes(alone, folds=2, seed=0)]
    assert sorted(int(held.item) for held in every) == [0, 1]  # all would be left out
