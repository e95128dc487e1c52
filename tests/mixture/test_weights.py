from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from pyro_crowdclust import CrowdData
from pyro_crowdclust.emissions import Identity
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import full_batch
from pyro_crowdclust.mixture import (
    DirichletWeights,
    GaussianComponents,
    StickBreakingWeights,
    Weights,
)
from pyro_crowdclust.models import SemiCrowdsourcedMixture
from pyro_crowdclust.starts import MixtureStart

from ..comparisons import same
from ..crowds import fit_plain
from ..mixture_parts import CLUSTERS, WEIGHTS, mixture
from ..oracles import random_natural

every_weights = pytest.mark.parametrize("make", WEIGHTS.values(), ids=WEIGHTS.keys())


def random_posterior(weights: Weights) -> Tensor:
    """The posterior of some expected counts."""
    counts = 20 * torch.rand(weights.num_clusters)
    return weights.prior.natural_parameters + weights.count_statistics(counts)


@every_weights
def test_log_weights_are_those_of_the_drawn_probabilities(make):
    weights = make()
    value = weights.prior.family.sample(random_posterior(weights))
    probabilities = weights.probabilities(value)
    assert probabilities.sum().item() == pytest.approx(1)
    statistics = weights.prior.family.sufficient_statistics(value)
    same(weights.log_weights(statistics), probabilities.log())
    same(weights.from_probabilities(probabilities), value, 1e-9)


@every_weights
def test_mean_is_that_of_many_draws(make):
    weights = make()
    eta = random_posterior(weights)
    draws = [weights.probabilities(weights.prior.family.sample(eta)) for _ in range(4000)]
    draws = torch.stack(draws)
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - weights.mean(eta)).abs() < 6 * error).all()
    assert weights.mean(eta).sum().item() == pytest.approx(1)


@every_weights
def test_count_statistics_are_the_transpose_of_log_weights(make):
    """``<count_statistics(N), t> = sum_k N_k log pi_k``, whatever t: the likelihood of z."""
    weights = make()
    counts, statistics = torch.rand(CLUSTERS), torch.randn_like(weights.prior.natural_parameters)
    ours = (weights.count_statistics(counts) * statistics).sum()
    same(ours, (counts * weights.log_weights(statistics)).sum())
    same(weights.counts(weights.count_statistics(counts)), counts)


@pytest.mark.parametrize("discount", [0.0, 0.4])
def test_expected_log_weights_of_sticks(discount):
    """``E[log pi_k] = E[log beta_k] + sum_{l<k} E[log(1 - beta_l)]``, by digamma."""
    weights = StickBreakingWeights(4, 1.5, discount)
    gamma = 0.2 + 5 * torch.rand(3, 2)
    statistics = weights.prior.family.expected_statistics(gamma - 1)
    total = torch.digamma(gamma.sum(-1))
    log_stick, log_rest = (torch.digamma(part) - total for part in gamma.unbind(-1))
    expected = [(log_stick[k] if k < 3 else 0.0) + log_rest[:k].sum() for k in range(4)]
    same(weights.log_weights(statistics), torch.stack([torch.as_tensor(e) for e in expected]))
    sticks = gamma[:, 0] / gamma.sum(-1)
    means = [(sticks[k] if k < 3 else 1.0) * torch.prod(1 - sticks[:k]).item() for k in range(4)]
    same(weights.mean(gamma - 1), torch.tensor(means))


@pytest.mark.parametrize(("eta", "discount"), [(2.0, 0.0), (0.7, 0.3)])
def test_a_natural_step_is_the_update_of_the_sticks(eta, discount):
    """gamma_1k = 1 - d + sum_n phi_nk, gamma_2k = eta + k d + sum_n sum_{l>k} phi_nl."""
    weights = StickBreakingWeights(4, eta, discount)
    model = SemiCrowdsourcedMixture(weights, GaussianComponents(4, 2), Identity())
    guide = MessagePassingGuide(model)
    data = CrowdData(3 * torch.randn(30, 2))
    guide.start_at(
        MixtureStart(model.components.observe(data.features), torch.rand(30, 4).softmax(-1), 1.0)
    )
    phi = guide.infer(full_batch(data)).assignments
    result = fit_plain(model, guide, data, epochs=1, initialize=None)
    successes, failures = result.guide.posteriors["weights"].standard()
    for k in range(3):
        assert successes[k].item() == pytest.approx(1 - discount + phi[:, k].sum().item())
        later = phi[:, k + 1 :].sum().item()
        assert failures[k].item() == pytest.approx(eta + (k + 1) * discount + later)


def test_sticks_of_clusters_that_have_no_weight():
    """Where nothing is left to break, no stick is NaN."""
    probabilities = torch.tensor([0.5, 0.5, 0.0, 0.0])
    weights = StickBreakingWeights(4)
    sticks = weights.from_probabilities(probabilities)
    same(sticks, torch.tensor([0.5, 1.0, 0.0]))
    same(weights.probabilities(sticks), probabilities)


def test_one_uniform_stick_is_a_uniform_dirichlet():
    """Beta(1, 1) and Dir(1, 1) are one prior of two weights, so all of the fit is the same."""
    data = CrowdData(torch.cat([torch.randn(20, 2), torch.randn(15, 2) + 2]))
    results = []
    for weights in (DirichletWeights(2, 1.0), StickBreakingWeights(2, 1.0)):
        model = SemiCrowdsourcedMixture(weights, GaussianComponents(2, 2), Identity())
        results.append(fit_plain(model, MessagePassingGuide(model), data, epochs=6))
    dirichlet, sticks = results
    assert sticks.elbo == pytest.approx(dirichlet.elbo, rel=1e-10)
    ours, theirs = (torch.as_tensor(result.probabilities.max(1)) for result in results)
    same(ours, theirs, 1e-8)


def test_more_concentration_and_more_discount_give_more_clusters():
    """Of the prior: the expected share of the first cluster falls."""
    tried = [StickBreakingWeights(50, *one) for one in [(0.5, 0.0), (2.0, 0.0), (2.0, 0.5)]]
    first = [weights.mean(weights.prior.natural_parameters)[0] for weights in tried]
    assert first[0] > first[1] > first[2]


@every_weights
@pytest.mark.parametrize(("first", "second"), [*itertools.permutations(range(CLUSTERS), 2)][::3])
def test_merged_and_emptied_posteriors_are_those_of_their_counts(make, first, second):
    weights = make()
    prior, counts = weights.prior.natural_parameters, 20 * torch.rand(CLUSTERS)
    eta = prior + weights.count_statistics(counts)
    same(weights.posterior_counts(eta), counts)

    joined = counts.clone()
    joined[first] += joined[second]
    joined[second] = 0
    same(weights.merged(eta, first, second), prior + weights.count_statistics(joined))
    left = counts.clone()
    left[first] = 0
    same(weights.emptied(eta, first), prior + weights.count_statistics(left))


def test_sticks_like_large_clusters_first_and_empty_ones_last():
    weights, counts = StickBreakingWeights(6), torch.tensor([0.0, 1.0, 30.0, 0.0, 5.0, 12.0])
    prior = weights.prior.natural_parameters

    def evidence(order: Tensor) -> float:
        eta = prior + weights.count_statistics(counts[order])
        return float(weights.prior.family.log_normalizer(eta).sum())

    preferred = weights.preferred_order(counts)
    assert preferred.tolist() == [2, 5, 4, 1, 0, 3]
    orders = map(torch.tensor, itertools.permutations(range(6)))
    assert evidence(preferred) == pytest.approx(max(map(evidence, orders)))


@pytest.mark.parametrize("name", ["merge", "empty"])
def test_moves_in_a_guide_with_sticks(name):
    model = mixture("stick-breaking", "poisson")
    guide = MessagePassingGuide(model)
    features = torch.poisson(5 * torch.rand(20, 3))
    q = torch.rand(20, CLUSTERS).softmax(-1)
    observed = model.components.observe(features)
    guide.start_at(MixtureStart(observed, q, 1.0))
    if name == "merge":
        empty = guide.merge(0, 2)
        kept = 2 - empty
        assert q[:, kept].sum() >= q[:, empty].sum()
        q[:, kept] += q[:, empty]
    else:
        empty = 1
        guide.empty(empty)
    q[:, empty] = 0
    expected = MessagePassingGuide(model)
    expected.start_at(MixtureStart(observed, q, 1.0))
    for site, posterior in guide.posteriors.items():
        same(posterior.natural_parameters, expected.posteriors[site].natural_parameters)


@pytest.mark.parametrize(
    ("concentration", "discount"), [(1.0, 1.0), (1.0, -0.1), (-0.3, 0.3), (0.0, 0.0)]
)
def test_sticks_outside_their_range(concentration, discount):
    with pytest.raises(ValueError, match="need 0 <= discount < 1 and concentration > -discount"):
        StickBreakingWeights(3, concentration, discount)


@every_weights
def test_posteriors_far_from_any_counts_can_still_be_moved(make):
    """With the second term of eq. 17 sticks need not agree on counts."""
    weights = make()
    plate = weights.prior.natural_parameters.shape[:-1]
    eta = random_natural(weights.prior.family, *plate) + 5
    assert weights.prior.family.in_domain(weights.emptied(eta, 1)).all()
