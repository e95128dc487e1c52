from __future__ import annotations

import tracemalloc
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from sklearn import metrics as sklearn_metrics

from pyro_crowdclust.metrics import (
    adjusted_mutual_information,
    adjusted_rand_index,
    clustering_accuracy,
    clustering_report,
    clusters_in_use,
    expected_calibration_error,
    label_codes,
    normalized_mutual_information,
    purity,
)

PARTITION_SCORES = [
    clustering_accuracy,
    normalized_mutual_information,
    adjusted_mutual_information,
    adjusted_rand_index,
    purity,
]


def random_labels(seed, num_items, num_classes, num_clusters):
    rng = np.random.default_rng(seed)
    truth = rng.integers(num_classes, size=num_items)
    follows = rng.random(num_items) < 0.6
    clusters = np.where(follows, truth % num_clusters, rng.integers(num_clusters, size=num_items))
    return truth, clusters


def brute_force_accuracy(truth, clusters):
    """Best share of hits over every one-to-one map, padded with classes that no item has."""
    cluster_names = np.unique(clusters)
    class_names = [*np.unique(truth), *["nothing"] * len(cluster_names)]
    best = 0
    for classes in set(permutations(class_names, len(cluster_names))):
        name = dict(zip(cluster_names, classes, strict=True))
        best = max(best, sum(name[c] == y for c, y in zip(clusters, truth, strict=True)))
    return best / len(truth)


@pytest.mark.parametrize(("num_classes", "num_clusters"), [(3, 3), (4, 2), (2, 4), (1, 3), (3, 1)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_accuracy_equals_brute_force_over_one_to_one_maps(seed, num_classes, num_clusters):
    truth, clusters = random_labels(seed, 25, num_classes, num_clusters)
    assert clustering_accuracy(truth, clusters) == pytest.approx(
        brute_force_accuracy(truth, clusters)
    )


@pytest.mark.parametrize("num_clusters", [3, 30, 300])
def test_accuracy_of_many_clusters_is_that_of_the_whole_table(num_clusters):
    """Against one assignment; the table falls into many parts, of all shapes."""
    rng = np.random.default_rng(num_clusters)
    truth = rng.integers(num_clusters, size=400)
    clusters = np.where(rng.random(400) < 0.2, rng.integers(num_clusters, size=400), truth // 2)
    table = np.zeros((num_clusters, num_clusters), dtype=int)
    np.add.at(table, (truth, clusters), 1)
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    assert clustering_accuracy(truth, clusters) == matched / 400


@pytest.mark.parametrize("score", [purity, clustering_accuracy])
def test_many_clusters_take_no_table_of_all_of_them(score):
    every = np.arange(2000)
    tracemalloc.start()
    assert score(every, every // 2) == 0.5
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2000 * 1000


def test_accuracy_gives_each_class_one_cluster_only():
    truth = ["a"] * 6 + ["b"] * 4
    assert clustering_accuracy(truth, [0] * 3 + [1] * 3 + [2] * 4) == pytest.approx(0.7)
    assert purity(truth, [0] * 3 + [1] * 3 + [2] * 4) == 1.0


def test_accuracy_counts_the_classes_left_over_as_wrong():
    assert clustering_accuracy([0, 0, 0, 1, 1, 2], [9] * 6) == pytest.approx(0.5)


def test_accuracy_is_not_greedy():
    # Cluster 0 prefers class 0, but giving it class 1 saves more of cluster 1.
    truth = [0] * 5 + [1] * 4 + [0] * 4
    clusters = [0] * 9 + [1] * 4
    assert clustering_accuracy(truth, clusters) == pytest.approx(8 / 13)


@pytest.mark.parametrize(
    ("ours", "sklearns"),
    [
        (normalized_mutual_information, sklearn_metrics.normalized_mutual_info_score),
        (adjusted_mutual_information, sklearn_metrics.adjusted_mutual_info_score),
        (adjusted_rand_index, sklearn_metrics.adjusted_rand_score),
    ],
)
def test_scores_equal_scikit_learn(ours, sklearns):
    truth, clusters = random_labels(3, 200, 5, 7)
    names = np.array(["v", "w", "x", "y", "z"])[truth]
    assert ours(names, clusters) == pytest.approx(sklearns(truth, clusters), abs=1e-12)


def test_mutual_information_is_over_the_arithmetic_mean_of_the_entropies():
    truth, clusters = random_labels(4, 300, 4, 6)
    joint = np.histogram2d(truth, clusters, bins=(np.arange(5), np.arange(7)))[0] / 300

    def entropy(probabilities):
        probabilities = probabilities[probabilities > 0]
        return -(probabilities * np.log(probabilities)).sum()

    h_truth, h_clusters = entropy(joint.sum(1)), entropy(joint.sum(0))
    information = h_truth + h_clusters - entropy(joint.ravel())
    expected = information / ((h_truth + h_clusters) / 2)
    assert normalized_mutual_information(truth, clusters) == pytest.approx(expected, abs=1e-12)


def test_adjusted_rand_index_counts_pairs():
    truth, clusters = random_labels(5, 30, 3, 4)
    left, right = np.triu_indices(30, k=1)
    together = (truth[left] == truth[right]).astype(float)
    joined = (clusters[left] == clusters[right]).astype(float)
    index, chance = (together * joined).sum(), together.sum() * joined.sum() / len(left)
    expected = (index - chance) / ((together.sum() + joined.sum()) / 2 - chance)
    assert adjusted_rand_index(truth, clusters) == pytest.approx(expected, abs=1e-12)


def test_purity_by_hand():
    truth = ["cat", "cat", "dog", "dog", "dog", "eel"]
    assert purity(truth, [1, 1, 1, 2, 2, 2]) == pytest.approx(4 / 6)


@pytest.mark.parametrize("score", PARTITION_SCORES)
def test_equal_partitions_score_one(score):
    assert score(["x", "y", "y", "z"], [2, 0, 0, 9]) == pytest.approx(1.0)


@pytest.mark.parametrize("score", PARTITION_SCORES)
@settings(max_examples=20, derandomize=True, deadline=None)
@given(
    labels=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=30),
    shuffle=st.permutations(range(6)),
    order=st.randoms(use_true_random=False),
)
def test_scores_ignore_names_and_order(score, labels, shuffle, order):
    shuffled = list(labels)
    order.shuffle(shuffled)
    truth, clusters = zip(*labels, strict=True)
    new_truth, new_clusters = zip(*shuffled, strict=True)
    renamed = [f"cluster {shuffle[c]}" for c in new_clusters]
    assert score(new_truth, renamed) == pytest.approx(score(truth, clusters), abs=1e-9)


@pytest.mark.parametrize(
    "convert",
    [
        *(list, np.asarray, pd.Series, torch.as_tensor),
        lambda x: np.asarray(x, dtype=float),
        lambda x: torch.tensor(x, dtype=torch.bfloat16),
    ],
)
def test_labels_come_in_any_container(convert):
    assert clustering_accuracy(convert([5, 5, -1, 2]), convert([1, 1, 0, 0])) == 0.75


def test_label_codes_follow_first_appearance():
    np.testing.assert_array_equal(label_codes(["b", "a", "b", "c"]), [0, 1, 0, 2])


@pytest.mark.parametrize(("at_least", "expected"), [(0.0, 4), (0.005, 4), (0.01, 3), (0.5, 1)])
def test_clusters_in_use_counts_shares_inclusively(at_least, expected):
    assignments = ["a"] * 500 + ["b"] * 485 + ["c"] * 10 + ["d"] * 5
    assert clusters_in_use(assignments, at_least) == expected


def test_clusters_in_use_counts_one_percent_by_default():
    assert clusters_in_use([0] * 990 + [1] * 10) == 2
    assert clusters_in_use([0] * 991 + [1] * 9) == 1


@pytest.mark.parametrize("at_least", [-0.1, 1.5, float("nan")])
def test_clusters_in_use_wants_a_share(at_least):
    with pytest.raises(ValueError, match="share of the items"):
        clusters_in_use([0, 1], at_least)


def test_report_holds_every_score():
    truth, clusters = random_labels(6, 120, 4, 6)
    assert clustering_report(truth, clusters) == {
        "accuracy": clustering_accuracy(truth, clusters),
        "nmi": normalized_mutual_information(truth, clusters),
        "ami": adjusted_mutual_information(truth, clusters),
        "ari": adjusted_rand_index(truth, clusters),
        "purity": purity(truth, clusters),
        "clusters_in_use": clusters_in_use(clusters),
    }
    assert all(type(value) is float for value in clustering_report(truth, clusters).values())


@pytest.mark.parametrize("score", [*PARTITION_SCORES, clustering_report])
@pytest.mark.parametrize(
    ("truth", "clusters", "message"),
    [
        ([0, 1], [0, 1, 1], "true_labels has 2 items but assignments has 3"),
        ([], [], "true_labels is empty"),
        ([0.0, np.nan], [0, 1], "true_labels has no label .* in row 1"),
        ([0, 1], ["a", None], "assignments has no label .* in row 1"),
        (["a", np.nan, "b"], [0, 1, 1], "true_labels has no label .* in row 1"),
        ([0, 1], [0.0, 0.3], "assignments must be integers or strings, but row 1 holds 0.3"),
        (
            [0, 1, 1],
            np.array(["a", 2, 0.3], dtype=object),
            "assignments must be integers or strings, but row 2 holds 0.3",
        ),
        ([0, 1], [[0.4, 0.6], [0.5, 0.5]], "assignments must be one-dimensional"),
    ],
)
def test_bad_labels_are_refused(score, truth, clusters, message):
    with pytest.raises(ValueError, match=message):
        score(truth, clusters)


def test_calibration_error_equals_a_loop_over_bins():
    rng = np.random.default_rng(7)
    probabilities = rng.random(500)
    outcomes = rng.random(500) < probabilities**2
    expected = 0.0
    for b in range(7):
        inside = (probabilities >= b / 7) & (probabilities < (b + 1) / 7)
        gap = abs(outcomes[inside].mean() - probabilities[inside].mean())
        expected += inside.mean() * gap
    assert expected > 0.05
    assert expected_calibration_error(probabilities, outcomes, 7) == pytest.approx(expected)


def test_calibrated_probabilities_have_a_small_error_and_overconfident_ones_do_not():
    rng = np.random.default_rng(8)
    probabilities = rng.random(20_000)
    outcomes = rng.random(20_000) < probabilities
    overconfident = np.where(probabilities > 0.5, 0.99, 0.01)
    assert expected_calibration_error(probabilities, outcomes) < 0.02
    # Mean probability above one half is 3/4, so the gap is 0.99 - 0.75 on either side.
    assert expected_calibration_error(overconfident, outcomes) == pytest.approx(0.24, abs=0.02)


def test_the_last_bin_ends_at_one():
    """Of ten bins 1 shares one with .95, and not with .85."""
    assert expected_calibration_error([1.0, 0.95], [0, 1]) == pytest.approx(0.95 / 2)
    assert expected_calibration_error([1.0, 0.85], [0, 1]) == pytest.approx(1.15 / 2)
    tensor = torch.tensor([1.0, 0.85], requires_grad=True)
    assert expected_calibration_error(tensor, [0, 1]) == pytest.approx(1.15 / 2)


@pytest.mark.parametrize("edge", [7, 14, 28, 29, 57, 58])
def test_a_probability_on_an_edge_is_in_the_upper_bin(edge):
    """Also where its product with the number of bins is rounded down."""
    edge, above = edge / 100, edge / 100 + 0.005
    found = expected_calibration_error([edge, above], [1, 0], 100)
    assert found == pytest.approx(abs(1 - edge - above) / 2)


def test_calibration_error_includes_both_ends():
    assert expected_calibration_error([0.0, 1.0], [0, 1]) == 0.0
    assert expected_calibration_error(torch.tensor([0.0, 1.0]), [True, False]) == 1.0


@pytest.mark.parametrize(
    ("probabilities", "outcomes", "num_bins", "message"),
    [
        ([0.5], [0, 1], 10, "equal length"),
        ([[0.5]], [[1]], 10, "one-dimensional"),
        ([], [], 10, "empty"),
        ([0.5, np.nan], [0, 1], 10, "probabilities row 1 is nan, but must be between 0 and 1"),
        ([0.5, 1.1], [0, 1], 10, "probabilities row 1 is 1.1"),
        ([0.5, 0.5], [0, 2], 10, "outcomes must be 0 or 1, but row 1 holds 2"),
        ([0.5], [1], 0, "num_bins"),
        ([0.5], [1], 2.5, "num_bins"),
    ],
)
def test_bad_probabilities_are_refused(probabilities, outcomes, num_bins, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(probabilities, outcomes, num_bins)
