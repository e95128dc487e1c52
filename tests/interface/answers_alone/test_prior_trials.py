"""Trials of priors: how well their clusters agree with answers, and whether they hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData
from pyro_crowdclust.interface.answers_alone.pairs_alone import PairsAlone
from pyro_crowdclust.interface.answers_alone.prior_trials import PriorTrial, agreement_and_joins
from pyro_crowdclust.partitions import FewClusters


def test_halves_are_as_likely_as_their_grades_together():
    rng = np.random.default_rng(0)
    ends = rng.permutation(np.stack(np.triu_indices(12, 1), 1))[:60]
    pairs = {"left": ends[:, 0], "right": ends[:, 1], "worker": ["a"] * 60}
    label = np.where(rng.random(60) < 0.1, None, 1 + rng.integers(4, size=60))
    answers = PairsAlone(CrowdData(None, pairs=pairs | {"label": label}, grades=[1, 2, 3, 4]))
    out = torch.arange(60) < 9
    kept = answers.without(out).for_trials()
    result = kept.recipe(FewClusters()).fit(epochs=3, progress=False)
    found = answers.log_half(result, out)
    data, grade = answers.data, answers.data.answers.label[out]
    for place in range(9):
        half = [[0.0, 1 / 3], [2 / 3, 1.0]][int(grade[place] > 0.5)]
        each = torch.tensor([np.nan] if grade[place].isnan() else half, dtype=torch.float64)
        one = data.answers.items[out][place].expand(len(each), 2)
        worker = torch.zeros(len(each), dtype=torch.int64)
        log_p = result.guide.log_answer_probabilities(result.data, one, worker, each)
        torch.testing.assert_close(found[place], log_p.logsumexp(0))


def test_agreement_counts_answers_and_joined_pairs_are_counted_once():
    # Of three pairs in one cluster two were asked about; two of four answers say what it says.
    pairs = {"left": [0, 1, 0, 0], "right": [1, 0, 2, 3], "worker": list("abcd")}
    data = CrowdData(None, pairs=pairs | {"label": [1, 1, 0, 1]}, item_ids=[0, 1, 2, 3])
    result = SimpleNamespace(data=data, assignments=np.array([0, 0, 0, 1]))
    # Two of three pairs that were asked about are in one cluster, and one of three others.
    assert agreement_and_joins(result) == (pytest.approx(0.5), 1, pytest.approx(2 / 3), 2.0)
    result.assignments = np.arange(4)
    assert agreement_and_joins(result) == (pytest.approx(0.25), 0, 0.0, np.inf)


@pytest.mark.parametrize(
    ("assignments", "agreement", "share_joined", "expected"),
    [
        ([0, 0, 0, 1], 0.5, 1.0, True),
        ([0, 1, 2, 3], 0.5, 1.0, False),
        ([0, 1, 1, 2], 0.0, 1.0, False),
        ([0, 1, 2, 3], 0.5, 0.0, True),
        ([0, 0, 0, 1], 0.59, 1.0, True),
        ([0, 0, 0, 1], 0.61, 1.0, False),
    ],
    ids=["same", "nobody joined", "others joined", "nor on trial", "nearly", "contradicted"],
)
def test_a_trial_holds_in_a_fit_whose_clusters_say_as_much(
    assignments, agreement, share_joined, expected
):
    pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "a"], "label": [1, 0]}
    data = CrowdData(None, pairs=pairs, item_ids=[0, 1, 2, 3])
    result = SimpleNamespace(data=data, assignments=np.array(assignments))
    sizes = np.array([2, 1, 1])
    trial = PriorTrial(
        *("few clusters", PairsAlone(data), torch.zeros(2), sizes, 0.0),
        agreement=agreement,
        share_joined=share_joined,
    )
    assert trial.holds_in(result) == expected
