"""Grades that say only in which half they are: a likelihood, and what can be read of a worker."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_crowdclust import CrowdData, fit
from pyro_crowdclust.annotators import HalvedGrades
from pyro_crowdclust.diagnostics import to_arviz
from pyro_crowdclust.distributions import ConjugatePosterior
from pyro_crowdclust.guides import PartitionGuide
from pyro_crowdclust.models import AnsweredPartition
from pyro_crowdclust.partitions import FewClusters

from .random_rates import drawn_rates


@pytest.mark.parametrize("number", [3, 4, 5])
def test_answers_sum_to_one_and_grades_of_a_half_are_equal_evidence(number):
    torch.manual_seed(0)
    annotators = HalvedGrades(2, number)
    labels = [*torch.linspace(0, 1, number).tolist(), torch.nan]
    answer = annotators.answer(
        torch.eye(2, dtype=torch.float64), drawn_rates(annotators), torch.tensor([1, 1])
    )
    found = torch.stack(
        [answer.log_prob(torch.tensor([label] * 2, dtype=torch.float64)) for label in labels]
    )
    torch.testing.assert_close(found.exp().sum(0), torch.ones(2, dtype=torch.float64))
    evidence = found[:, 1] - found[:, 0]
    for half in (0, 1, 2):
        of_half = evidence[annotators.half_of == half]
        torch.testing.assert_close(of_half, of_half[:1].expand(len(of_half)))


def test_first_looks_are_the_halves():
    label = torch.tensor([0.0, 0.25, 0.5, 1.0, torch.nan], dtype=torch.float64)
    looks = HalvedGrades(1, 5).first_looks(label)
    assert looks.tolist() == [[1, 0], [1, 0], [0.5, 0.5], [0, 1], [0.5, 0.5]]


def test_shares_of_grades_are_those_of_draws():
    """All pairs look like what they are, which the shares of the looks are sure of."""
    torch.manual_seed(0)
    annotators = HalvedGrades(2, 4)
    posteriors = {name: ConjugatePosterior(prior) for name, prior in annotators.priors().items()}
    given = {name: q.natural_parameters.detach()[None] for name, q in posteriors.items()}
    looks = torch.tensor([[[1e9, -1.0], [-1.0, 1e9]]], dtype=torch.float64)
    summary = annotators.summary_of_draws(posteriors, given, looks, looks.clamp_min(0.0), 0.9)
    one, worker = torch.eye(2, dtype=torch.float64)[1:], torch.tensor([0])
    label = torch.tensor([1.0], dtype=torch.float64)
    drawn = [
        float(annotators.answer(one, drawn_rates(annotators), worker).log_prob(label).exp())
        for _ in range(4000)
    ]
    same = summary.rates["if_same"]
    assert same.mean.shape == (2, 5)
    np.testing.assert_allclose(same.mean.sum(1), 1)
    np.testing.assert_allclose(
        [same.mean[0, 3], same.sd[0, 3]], [np.mean(drawn), np.std(drawn)], rtol=0.05
    )


def test_an_export_names_the_grades_of_a_half():
    pairs = {"left": [0, 0, 1], "right": [1, 2, 2], "worker": ["a"] * 3, "label": [5, 1, None]}
    data = CrowdData(None, pairs=pairs, grades=[1, 2, 3, 4, 5])
    model = AnsweredPartition(HalvedGrades(1, 5), FewClusters())
    guide = PartitionGuide(model, data.num_items, num_draws=2)
    result = fit(model, guide, data, epochs=1, progress=False)
    posterior = to_arviz(result, num_draws=2, log_likelihood=False)["posterior"]
    assert posterior["halves_2"].dims[2:] == ("worker", "half")
    assert posterior["half"].values.tolist() == ["lower", "upper", "neither"]
    axes = "grade_lower", "grade_upper", "grade_neither"
    named = [posterior[axis].values.tolist() for axis in axes]
    assert named == [["1", "2"], ["4", "5"], ["3", "unsure"]]


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="num_grades is 2, but must be at least 3"):
        HalvedGrades(1, 2)
    pairs = {"left": [0], "right": [1], "worker": ["a"], "label": [1]}
    with pytest.raises(ValueError, match=r"1 with 4 grades.*build the model with HalvedGrades"):
        HalvedGrades(1, 4).check(CrowdData(None, pairs=pairs, grades=[1, 2, 3]))
