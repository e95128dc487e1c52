"""Verbs that all annotators of pairs and pages share."""

from __future__ import annotations

import pytest
import torch

from pyro_crowdclust.annotators import (
    GradedPairs,
    LapsingWorkers,
    SortedPages,
    TwoCoin,
    sites_in,
    sites_of,
)
from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.minibatches import full_batch


def test_points_of_rates_start_where_they_are_told_and_shares_at_the_priors_mean():
    habits = (6.0, 3.0, 1.0)
    of_pages = sites_of(SortedPages(2, habits=habits)).first_points(0.7)
    assert of_pages["accuracy"].tolist() == [0.7, 0.7]
    torch.testing.assert_close(of_pages["habits"], torch.tensor([[0.6, 0.3, 0.1]] * 2).double())
    of_coins = sites_of(TwoCoin(2)).first_points(0.8)
    assert {name: points.tolist() for name, points in of_coins.items()} == {
        "sensitivity": [0.8, 0.8],
        "specificity": [0.8, 0.8],
    }
    graded = GradedPairs(2, 3)
    for name, points in sites_of(graded).first_points(0.8).items():
        prior = graded.priors()[name]
        alpha = prior.family.standard(prior.natural_parameters).concentration
        torch.testing.assert_close(points, alpha / alpha.sum(-1, keepdim=True))


def test_workers_who_lapse_have_no_points():
    with pytest.raises(ValueError, match="points cannot infer on which pages workers lapse"):
        sites_of(LapsingWorkers(TwoCoin(2))).first_points(0.8)


def test_sites_are_in_a_batch_with_answers_of_their_kind():
    pairs = {"left": [0, 1], "right": [1, 2], "worker": ["a", "b"], "label": [1, 0]}
    batch = full_batch(CrowdData(torch.zeros(3, 1), pairs))
    assert sites_in(TwoCoin(2), batch) is not None
    assert sites_in(TwoCoin(2), batch.without_answers()) is None
    assert sites_in(SortedPages(2), batch) is None
    assert sites_in(None, batch) is None
