"""What answers say of components, in loops over answers."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from pyro_crowdclust import CrowdData
from pyro_crowdclust.asking.evidence import component_gain, expert_gain

RNG = np.random.default_rng(0)
NUM_ITEMS = 9
COMPONENTS = RNG.dirichlet(np.full(3, 0.3), NUM_ITEMS)
BOUND = RNG.uniform(0.3, 1.0, NUM_ITEMS)


def log_ratios(answers: pd.DataFrame, channels: np.ndarray) -> np.ndarray:
    """What each answer says for "same", given that its items may be elsewhere."""
    found = []
    for row in answers.itertuples():
        bound = BOUND[row.left] * BOUND[row.right]
        anyhow = (answers["label"] == row.label).mean()
        different, same = bound * channels[row.worker, :, row.label] + (1 - bound) * anyhow
        found.append(np.log(same / different))
    return np.array(found)


def gain_by_loops(answers: pd.DataFrame, ratio: np.ndarray, weight: np.ndarray) -> np.ndarray:
    gain, count, items = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((3, 3))
    ends = answers[["left", "right"]].to_numpy()
    for k, m in itertools.product(range(3), repeat=2):
        for (i, j), says, counts in zip(ends, ratio, weight, strict=True):
            for one, other in ((i, j), (j, i)):
                share = counts * COMPONENTS[one, k] * COMPONENTS[other, m]
                gain[k, m] += share * says
                count[k, m] += share
        # Items of k in answers about m, each once.
        for one in range(NUM_ITEMS):
            others = np.concatenate([ends[ends[:, 0] == one, 1], ends[ends[:, 1] == one, 0]])
            items[k, m] += COMPONENTS[one, k] * min(COMPONENTS[others, m].sum(), 1)
    return gain * np.minimum(1, np.minimum(items, items.T) / count)


def test_answers_about_items_that_are_not_bound_say_less():
    left = RNG.integers(0, NUM_ITEMS, 12)
    answers = pd.DataFrame(
        {
            "left": left,
            "right": (left + RNG.integers(1, NUM_ITEMS, 12)) % NUM_ITEMS,
            "worker": np.arange(12) % 2,
            "label": RNG.integers(0, 3, 12),
        }
    )
    channels = RNG.dirichlet(np.ones(3), (2, 2))
    data = CrowdData(None, answers, grades=[0, 1, 2], item_ids=range(NUM_ITEMS))
    found = component_gain(data, COMPONENTS, BOUND, channels)
    counted = data.counted_pairs
    ratio = log_ratios(counted, channels)
    np.testing.assert_allclose(found, gain_by_loops(counted, ratio, np.ones(len(counted))))
    assert np.abs(found).max() > 0.1


def test_pages_that_share_items_are_decisions_of_their_own():
    pages = {(0, 0): [[3, 1, 8], [2]], (0, 1): [[1, 2], [8, 3, 7]], (1, 2): [[5, 1], [2, 8]]}
    rows, weight = [], []
    for (worker, page), groups in pages.items():
        sizes = {item: len(group) for group in groups for item in group}
        for i, j in itertools.combinations(sorted(sizes), 2):
            same = any({i, j} <= {*group} for group in groups)
            rows.append((i, j, worker, page, int(same)))
            weight.append(1 / (max(sizes[i], sizes[j]) - same))
    answers = pd.DataFrame(rows, columns=["left", "right", "worker", "page", "label"])
    channels = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]]])
    data = CrowdData(None, answers, item_ids=range(NUM_ITEMS))
    assert data.is_sorted
    found = component_gain(data, COMPONENTS, BOUND, channels)
    ratio = log_ratios(answers, channels)
    np.testing.assert_allclose(found, gain_by_loops(answers, ratio, np.array(weight)))


def test_links_are_answers_that_are_nearly_always_right():
    must, cannot = [(0, 4), (7, 2), (3, 4)], [(1, 8), (5, 0)]
    links = pd.DataFrame([*must, *cannot], columns=["left", "right"])
    links = links.assign(worker=0, label=[1, 1, 1, 0, 0])
    data = CrowdData(np.eye(NUM_ITEMS), must_link=must, cannot_link=cannot)
    found = expert_gain(data, COMPONENTS, BOUND)
    both = BOUND[links["left"]] * BOUND[links["right"]]
    right = both * 0.99 + (1 - both) / 2
    ratio = np.log(right / (1 - right)) * np.where(links["label"], 1, -1)
    np.testing.assert_allclose(found, gain_by_loops(links, ratio, np.ones(5)))


def test_known_labels_say_which_components_are_of_one_class():
    """One label after the other, each by what the cluster's labels before it say of it."""
    known = [0, 0, 1, 1, 1, 2, -1, 0, -1]
    component = np.array([0, 0, 0, 1, 1, 1, 2, 2, 0])
    gain = expert_gain(CrowdData(np.eye(9), known=known), np.eye(3)[component], np.ones(9))

    def evidence(*those):
        counts, total = np.full(3, 0.1 / 3), 0.0
        for label, one in zip(known, component, strict=True):
            if label >= 0 and one in those:
                total += np.log(counts[label] / counts.sum())
                counts[label] += 1
        return total

    for one, other in itertools.combinations(range(3), 2):
        expected = evidence(one, other) - evidence(one) - evidence(other)
        np.testing.assert_allclose(gain[one, other], expected)
