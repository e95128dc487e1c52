"""Grades beside features: a likelihood of two rows a worker, and what it shares with two coins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.special import gammaln, logsumexp

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import GradedPairs, TwoCoin, check_annotators, expected_counts
from pyro_crowdclust.annotators.channels import channels_of
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.mixture import DirichletWeights, GaussianComponents
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.simulation import simulate_grades

from ..crowds import crowd, fit_plain
from ..registries import CLUSTERS, FEATURES
from .random_rates import drawn_rates

LABELS = torch.tensor([0.0, 1 / 3, 1.0, torch.nan])
GRADES = [1, 2, 3, 4]


def mixture(annotators: GradedPairs | TwoCoin, clusters: int = CLUSTERS, dim: int = FEATURES):
    weights, components = DirichletWeights(clusters, 1.0), GaussianComponents(clusters, dim)
    return SemiCrowdsourcedMixture(weights, components, Identity(), annotators)


def graded_items() -> tuple[np.ndarray, CrowdData]:
    """Eight items in two clouds far apart, graded by three people."""
    kinds = np.arange(8) % 2
    cuts = np.array([[-2.0, 0.0, 2.0]] * 3) + np.array([[-1.0], [0.0], [1.0]])
    sharpness = [3.0, 3.0, 0.0]
    frame = simulate_grades(kinds, sharpness, cuts, doubt=0.4, pairs_per_worker=12, seed=0)
    points = 60.0 * kinds[:, None] + np.random.default_rng(0).normal(size=(8, 1))
    return kinds, CrowdData(points, frame, grades=GRADES)


def test_likelihood_and_its_ratio_answer_by_answer():
    annotators = GradedPairs(3, num_grades=4)
    rates = drawn_rates(annotators)
    worker, same = torch.tensor([0, 2, 2, 1]), torch.rand(4)
    found = annotators.answer(same, rates, worker).log_prob(LABELS)
    ratios = annotators.log_likelihood_ratio(rates, worker, LABELS)
    for number, place in enumerate([0, 1, 3, 4]):
        if_same, if_different = (
            rates[name][worker[number], place] for name in ("if_same", "if_different")
        )
        expected = same[number] * if_same + (1 - same[number]) * if_different
        torch.testing.assert_close(found[number], expected)
        torch.testing.assert_close(ratios[number], if_same - if_different)


def test_answers_are_drawn_with_their_shares():
    annotators = GradedPairs(1, num_grades=3)
    rates = drawn_rates(annotators)
    same = torch.full((30_000,), 0.25)
    drawn = annotators.answer(same, rates, torch.zeros(30_000).long()).sample()
    shares = 0.25 * rates["if_same"][0].exp() + 0.75 * rates["if_different"][0].exp()
    found = [(drawn == level).double().mean() for level in (0.0, 0.5, 1.0)]
    found.append(drawn.isnan().double().mean())
    torch.testing.assert_close(torch.stack(found), shares, atol=0.012, rtol=0)


def test_two_grades_are_two_coins():
    data, trust = crowd(), (2.5, 1.5)
    found = []
    for annotators in (
        TwoCoin(data.num_workers, trust, trust),
        GradedPairs(data.num_workers, 2, trust, unsure=False),
    ):
        model = mixture(annotators)
        found.append(fit_plain(model, MessagePassingGuide(model), data, epochs=8))
    coins, grades = found
    np.testing.assert_allclose(grades.history["elbo"], coins.history["elbo"], rtol=1e-12)
    np.testing.assert_allclose(grades.probabilities, coins.probabilities, atol=1e-12)
    rates, table = coins.workers, grades.workers
    np.testing.assert_allclose(table["if_same_1"], rates["sensitivity"], rtol=1e-10)
    np.testing.assert_allclose(table["if_different_0_sd"], rates["specificity_sd"], rtol=1e-10)
    np.testing.assert_allclose(table[["weight", "weight_sd"]], rates[["weight", "weight_sd"]])
    ours, theirs = (channels_of(one.guide.workers()) for one in (grades, coins))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def log_joints(data: CrowdData, annotators: GradedPairs) -> np.ndarray:
    """``log p(x, L, z)`` of all z: given a partition the grades of a worker are Polya urns."""
    model, answers = mixture(annotators, 2, 1), data.answers
    family, eta = model.components.family, model.components.prior.natural_parameters[0]
    points = model.components.observe(data.all_rows())
    label, worker = answers.label.numpy(), answers.worker.numpy()
    place = np.where(np.isnan(label), 4, np.nan_to_num(label * 3).round()).astype(int)
    terms = []
    for z in map(np.array, itertools.product(range(2), repeat=data.num_items)):
        sizes = np.bincount(z, minlength=2)
        joint = gammaln(2.0) - gammaln(2.0 + len(z)) + gammaln(1.0 + sizes).sum()
        for k in range(2):
            own = torch.from_numpy(z == k)
            after = eta + family.observation_statistics(points[own]).sum(0)
            joint += float(family.log_normalizer(after) - family.log_normalizer(eta))
        joint -= len(z) / 2 * np.log(2 * np.pi)
        same = z[answers.left.numpy()] == z[answers.right.numpy()]
        for name, own in (("if_same", same), ("if_different", ~same)):
            prior = annotators.priors()[name].natural_parameters.numpy() + 1
            after = prior.copy()
            np.add.at(after, (worker[own], place[own]), 1)
            for counts, sign in ((after, 1), (prior, -1)):
                joint += sign * (gammaln(counts).sum() - gammaln(counts.sum(1)).sum())
        terms.append(joint)
    return np.array(terms)


def test_bound_is_the_evidence_of_all_partitions_where_z_is_sure():
    """But for the names of the two clusters, of which a guide takes one order."""
    kinds, data = graded_items()
    annotators = GradedPairs(3, num_grades=4)
    model = mixture(annotators, 2, 1)
    result = fit_plain(model, MessagePassingGuide(model), data, epochs=30)
    assert (result.assignments == result.assignments[0]).tolist() == (kinds == kinds[0]).tolist()
    joints = log_joints(data, annotators)
    assert result.elbo == pytest.approx(joints.max(), abs=1e-6)
    assert result.elbo < logsumexp(joints) - np.log(2) < result.elbo + 0.01


def test_counts_of_answers_are_those_of_their_grades():
    _, data = graded_items()
    answers = data.answers
    same = torch.rand(answers.num_pairs)
    counts = expected_counts(GradedPairs(3, 4), same, answers.worker, answers.label)
    shares = counts["if_same"] + counts["if_different"]
    assert shares.sum(1).tolist() == pytest.approx([12.0] * 3)
    assert counts["if_same"].sum().item() == pytest.approx(same.sum().item())
    assert shares[:, 4].sum().item() == pytest.approx(answers.label.isnan().sum().item())


def test_higher_grades_say_same_beforehand():
    priors = GradedPairs(1, num_grades=4, trust=(6.0, 2.0)).priors()
    same, different = (prior.natural_parameters[0] + 1 for prior in priors.values())
    assert same[:4].sum() == different[:4].sum() == 8
    torch.testing.assert_close(same[:4].flip(0), different[:4])
    assert (same[:4].diff() > 0).all()
    assert same[4] == different[4]


@pytest.mark.parametrize("unsure", [True, False])
def test_who_may_be_unsure_has_one_more_thing_to_say(unsure):
    annotators = GradedPairs(1, num_grades=3, unsure=unsure)
    sizes = {prior.family.size for prior in annotators.priors().values()}
    assert sizes == {annotators.outcomes.num_outcomes} == {3 + unsure}


def test_other_grades_than_those_of_the_data_are_refused():
    _, data = graded_items()
    with pytest.raises(ValueError, match="have 3 grades, but the answers have 4"):
        check_annotators(GradedPairs(3, 3), data)
    with pytest.raises(ValueError, match="some answers are .can't tell."):
        check_annotators(GradedPairs(3, 4, unsure=False), data)
    with pytest.raises(ValueError, match="num_grades is 1"):
        GradedPairs(1, num_grades=1)
