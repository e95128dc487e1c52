"""Workers who nearly always give the same answer, and the rates at which fits begin."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust.annotators import (
    GradedPairs,
    LapsingWorkers,
    TwoCoin,
    informative_workers,
)
from pyro_crowdclust.annotators.informative import first_rates


def answers(*shares_same: float, each: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of the workers and their labels: each has its own share of "same"."""
    numbers = [round(share * each) for share in shares_same]
    label = [label for same in numbers for label in [1.0] * same + [0.0] * (each - same)]
    worker = torch.arange(len(numbers)).repeat_interleave(each)
    return worker, torch.tensor(label)


@pytest.mark.parametrize(
    ("shares", "uninformative"),
    [
        pytest.param((0.3, 0.2, 1.0, 0.975), {2, 3}, id="always same"),
        pytest.param((0.3, 0.2, 0.5, 0.0), {3}, id="always different, beside most who are not"),
        pytest.param((0.3, 0.6, 0.0, 1.0), {2, 3}, id="both"),
        pytest.param((0.3, 0.2, 0.9, 0.92), set(), id="often same"),
        pytest.param((0.05, 0.025, 0.0, 0.05, 0.5), set(), id="records, and one who guesses"),
        pytest.param((0.1, 0.15, 0.05, 0.0), set(), id="others say it often, too"),
        pytest.param((1.0, 1.0, 1.0), set(), id="all say the same"),
        pytest.param((1.0, 1.0, 0.0), set(), id="nobody is left to compare with"),
        pytest.param((0.3,) + (1.0,) * 5, set(), id="the others have too few of the answers"),
    ],
)
def test_who_gives_one_answer_is_informative_only_if_others_do_so_too(shares, uninformative):
    found = informative_workers(*answers(*shares), len(shares))
    assert {*np.flatnonzero(~found.numpy())} == uninformative


def test_few_answers_that_are_all_the_same_may_be_chance():
    worker, label = answers(0.5, 0.5, 1.0)
    for kept, is_informative in [(9, True), (12, False)]:
        few = (worker < 2) | (torch.arange(len(worker)) < 80 + kept)
        assert bool(informative_workers(worker[few], label[few], 3)[2]) == is_informative
    # Where others say "same" of 70 %, twelve answers in a row may well be "same".
    worker, label = answers(0.7, 0.7, 1.0)
    few = (worker < 2) | (torch.arange(len(worker)) < 92)
    assert informative_workers(worker[few], label[few], 3).all()


def test_grades_and_cannot_tell_are_labels_as_others_are():
    worker, label = answers(0.5, 0.4, 1.0, 1.0)
    label[worker == 2] = 0.25
    label[worker == 3] = torch.nan
    assert informative_workers(worker, label, 4).tolist() == [True, True, False, False]


@pytest.mark.parametrize(
    "annotators",
    [TwoCoin(3, (2.0, 1.0)), GradedPairs(3, 3), LapsingWorkers(TwoCoin(3))],
    ids=lambda one: type(one).__name__,
)
def test_first_answers_of_who_is_not_informative_count_nothing(annotators):
    worker, label = answers(0.5, 0.4, 1.0)
    rates = first_rates(annotators, worker, label, (6.0, 2.0))
    trusted = annotators.with_trust((6.0, 2.0)).priors()
    assert rates.keys() == trusted.keys()
    for name, prior in trusted.items():
        torch.testing.assert_close(rates[name][:2], prior.natural_parameters[:2])
    expected = {
        name: prior.family.expected_statistics(rates[name]) for name, prior in trusted.items()
    }
    weight = annotators.log_likelihood_ratio(expected, torch.arange(3), torch.ones(3).double())
    assert weight[0] > 0.5
    assert float(weight[2]) == pytest.approx(0)
