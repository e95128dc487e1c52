from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch import Tensor

from pyro_crowdclust.annotators import TwoCoin, pair_messages
from pyro_crowdclust.distributions import Assignment, LatentObservation
from pyro_crowdclust.families import Categorical, Moments, NormalInverseWishart
from pyro_crowdclust.inference import (
    FixedConditionals,
    LocalConditionals,
    LocalPosterior,
    LocalSolver,
    PairCoupling,
)
from pyro_crowdclust.inference.messages import SumCoupling
from pyro_crowdclust.minibatches import full_batch

from ..comparisons import same
from ..crowds import crowd
from ..oracles import random_natural, random_potential

N, K, M, PAIRED = 5, 3, 2, 4
LEFT = torch.tensor([0, 2, 1, 3, 0, 1])
RIGHT = torch.tensor([1, 1, 2, 0, 3, 2])
WORKER = torch.tensor([0, 0, 1, 1, 0, 1])
LABEL = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
FAMILY = NormalInverseWishart(2)


def random_rates() -> dict[str, Tensor]:
    """Means of the workers' rates under random Beta posteriors."""
    return {
        name: prior.family.expected_statistics(random_natural(prior.family, M))
        for name, prior in TwoCoin(M).priors().items()
    }


def random_coupling() -> PairCoupling:
    weight = TwoCoin(M).log_likelihood_ratio(random_rates(), WORKER, LABEL)
    return PairCoupling(LEFT, RIGHT, weight, PAIRED)


def random_conditionals(observed: bool = False) -> LocalConditionals | FixedConditionals:
    """Fixed global means, and either potentials of five items or their latents themselves."""
    log_weights = torch.randn(K)
    components = FAMILY.expected_statistics(random_natural(FAMILY, K))
    if observed:
        points = Moments.point(2 * torch.randn(N, 2)).flat()
        return FixedConditionals(log_weights + FAMILY.log_likelihoods(components, points))
    return LocalConditionals(FAMILY, log_weights, components, random_potential(N, 2))


def test_inference_starts_at_what_the_network_alone_says():
    """``E[log pi] + <E[t(theta_k)], E[u(x)]>`` under the potential as a Gaussian, by item."""
    conditionals = random_conditionals()
    potential = conditionals.potential
    expected = torch.empty(N, K)
    for n in range(N):
        variance = 1 / potential.precision[n]
        mean = variance * potential.linear[n]
        second = torch.outer(mean, mean) + variance.diag()
        statistics = torch.cat([mean, second.flatten(), torch.ones(2)])
        expected[n] = conditionals.log_weights + conditionals.components @ statistics
    same(conditionals.first_logits(), expected)


def solve_alone(conditionals: LocalConditionals | FixedConditionals) -> LocalPosterior:
    alone, joined = LocalSolver().solve(conditionals)
    assert alone is joined
    return joined


def unheard(q: Tensor) -> Tensor:
    return torch.zeros(PAIRED, K)


def alternated(
    conditionals: LocalConditionals,
    rounds: int = 300,
    heard: Callable[[Tensor], Tensor] = unheard,
    step: float = 1.0,
) -> LocalPosterior:
    """Eq. 12 and 14 in turn, with a step of q(z) towards eq. 14."""
    q = conditionals.first_logits().softmax(-1)
    for _ in range(rounds):
        _, local = conditionals.last_round(q[:PAIRED], q, heard(q))
        q = torch.lerp(q, local.assignments, step)
    return local


def probability(q: Tensor, z: tuple[int, ...]) -> Tensor:
    return torch.stack([q[i, k] for i, k in enumerate(z)]).prod()


def expected_answers(q: Tensor, rates: dict[str, Tensor]) -> Tensor:
    """E_q[log p(L | z)], summed over all K^N assignments."""
    total = torch.zeros(())
    for z in itertools.product(range(K), repeat=len(q)):
        log_likelihood = torch.zeros(())
        for i, j, worker, label in zip(LEFT, RIGHT, WORKER, LABEL, strict=True):
            if z[i] == z[j]:
                log_likelihood += rates["sensitivity"][worker, 0 if label else 1]
            else:
                log_likelihood += rates["specificity"][worker, 1 if label else 0]
        total = total + probability(q, z) * log_likelihood
    return total


def expected_bound(q: Tensor, unary: Tensor, rates: dict[str, Tensor]) -> Tensor:
    """E_q[log p(z, x, L)] - E_q[log q(z)], summed over all K^N assignments."""
    total = expected_answers(q, rates)
    for z in itertools.product(range(K), repeat=len(q)):
        log_joint = sum(unary[i, k] for i, k in enumerate(z))
        log_q = sum(q[i, k].log() for i, k in enumerate(z))
        total = total + probability(q, z) * (log_joint - log_q)
    return total


def test_log_likelihood_ratio_is_same_minus_different():
    annotators, rates = TwoCoin(M), random_rates()
    ones, zeros = torch.ones(6), torch.zeros(6)
    if_same = annotators.answer(ones, rates, WORKER).log_prob(LABEL)
    if_different = annotators.answer(zeros, rates, WORKER).log_prob(LABEL)
    same(annotators.log_likelihood_ratio(rates, WORKER, LABEL), if_same - if_different)


def test_messages_are_the_derivative_of_the_brute_force_bound():
    rates = random_rates()
    q = torch.randn(N, K).softmax(-1).requires_grad_()
    (slope,) = torch.autograd.grad(expected_answers(q, rates), q)
    weight = TwoCoin(M).log_likelihood_ratio(rates, WORKER, LABEL)
    heard = PairCoupling(LEFT, RIGHT, weight, PAIRED).messages(q.detach())
    assert heard.shape == (PAIRED, K)

    # Probabilities sum to one, so only differences between clusters mean anything.
    def centred(rows: Tensor) -> Tensor:
        return rows - rows.mean(-1, keepdim=True)

    same(centred(heard), centred(slope[:PAIRED]))
    same(centred(slope[PAIRED:]), torch.zeros(N - PAIRED, K))


def test_the_potential_has_the_messages_for_its_gradient():
    """``sum_ij w_ij q_i B q_j``, pair by pair."""
    q, weight = torch.randn(N, K).softmax(-1).requires_grad_(), torch.randn(len(LEFT))
    together = torch.rand(K, K)
    together = together + together.mT
    coupling = PairCoupling(LEFT, RIGHT, weight, PAIRED, together)
    expected = sum(
        w * (q[i] @ together @ q[j]) for i, j, w in zip(LEFT, RIGHT, weight, strict=True)
    )
    found = coupling.potential(q)
    same(found, expected)
    slope, of_found = (torch.autograd.grad(total, q)[0] for total in (expected, found))
    same(of_found, slope)
    same(coupling.messages(q.detach()), slope[:PAIRED])


def test_the_gain_of_two_clusters_is_that_of_the_brute_force_bound():
    rates, q = random_rates(), torch.randn(N, K).softmax(-1)
    weight = TwoCoin(M).log_likelihood_ratio(rates, WORKER, LABEL)
    found = pair_messages.answer_gain(q, LEFT, RIGHT, weight)
    for one, other in itertools.permutations(range(K), 2):
        joined = q.clone()
        joined[:, one], joined[:, other] = q[:, one] + q[:, other], 0
        gain = expected_answers(joined, rates) - expected_answers(q, rates)
        same(found[one, other], gain)


@pytest.mark.parametrize("item", range(PAIRED))
def test_updating_one_assignment_maximizes_the_brute_force_bound(item):
    """With q* the update of one q(z_i), the bound of any other q(z_i) is KL(q(z_i) || q*) lower."""
    rates = random_rates()
    unary = random_conditionals(observed=True).own
    q = torch.randn(N, K).softmax(-1)
    weight = TwoCoin(M).log_likelihood_ratio(rates, WORKER, LABEL)
    logits = unary[:PAIRED] + PairCoupling(LEFT, RIGHT, weight, PAIRED).messages(q)
    best = logits[item].log_softmax(-1)

    def bound(row: Tensor) -> Tensor:
        return expected_bound(torch.cat([q[:item], row[None], q[item + 1 :]]), unary, rates)

    for _ in range(2):
        other = torch.randn(K).log_softmax(-1)
        divergence = Categorical(K).kl_divergence(other, best)
        same(bound(best.exp()) - bound(other.exp()), divergence)


def test_dense_and_sparse_messages_agree(monkeypatch):
    weight = torch.randn(6, requires_grad=True)
    q = torch.randn(N, K).softmax(-1).requires_grad_()
    slope = torch.randn(PAIRED, K)
    found = []
    for limit in (PAIRED, PAIRED - 1):
        monkeypatch.setattr(pair_messages, "_DENSE_LIMIT", limit)
        coupling = PairCoupling(LEFT, RIGHT, weight, PAIRED)
        with torch.no_grad():
            coupling.messages(q)  # as in all rounds but the last
        heard = coupling.messages(q)
        found.append((heard, *torch.autograd.grad((slope * heard).sum(), (weight, q))))
        assert (coupling._dense is not None) == (limit == PAIRED)
    for dense, sparse in zip(*found, strict=True):
        same(dense, sparse)


def test_items_of_several_couplings_get_the_sum():
    """The first two items are in both."""
    couplings = random_coupling(), PairCoupling(LEFT[:1], RIGHT[:1], torch.randn(1), 2)
    q = torch.randn(N, K).softmax(-1)
    expected = couplings[0].messages(q)
    expected[:2] += couplings[1].messages(q[:2])
    same(SumCoupling(*couplings).messages(q[:PAIRED]), expected)


def test_logits_are_log_densities_of_every_cluster():
    conditionals = random_conditionals()
    latent = conditionals.latent(torch.randn(N, K).softmax(-1))
    logits = conditionals.logits(latent)
    for k, one_hot in enumerate(torch.eye(K)):
        z = one_hot.expand(N, K)
        x = LatentObservation(FAMILY, conditionals.components, z, Moments.size(2))
        expected = Assignment(conditionals.log_weights).log_prob(z) + x.log_prob(latent.flat())
        same(logits[:, k] + FAMILY.log_base_measure(None), expected)


def surrogate(conditionals: LocalConditionals, q: Tensor, latent: Moments) -> Tensor:
    """The local bound with the potential <r(o), t(x)> in place of log p(o | x), item by item."""
    bound = []
    logits = conditionals.logits(latent)
    for i, potential in enumerate(conditionals.potential.natural_parameters()):
        mean, root = latent.mean[i], latent.root[i]
        covariance = root @ root.mT
        linear, quadratic = FAMILY.local.unpack(potential)
        joint = sum(q[i, k] * (logits[i, k] - q[i, k].log()) for k in range(K))
        told = linear @ mean + (quadratic * (covariance + torch.outer(mean, mean))).sum()
        entropy = torch.logdet(2 * math.pi * math.e * covariance) / 2
        bound.append(joint + told + entropy)
    return torch.stack(bound)


def test_updating_a_latent_maximizes_the_surrogate():
    conditionals = random_conditionals()
    q = torch.randn(N, K).softmax(-1)
    best = conditionals.latent(q)
    at_best = surrogate(conditionals, q, best)
    local = FAMILY.local
    for _ in range(2):
        eta = random_natural(local, N)
        other = local.moments(eta)
        best_eta = local.natural(best.mean, best.root @ best.root.mT)
        divergence = local.kl_divergence(eta, best_eta)
        same(at_best - surrogate(conditionals, q, other), divergence, 1e-9)


def test_rounds_without_answers_never_lower_the_surrogate():
    conditionals = random_conditionals()
    path = []
    for rounds in range(1, 12):
        local = alternated(conditionals, rounds)
        path.append(surrogate(conditionals, local.assignments, local.latent))
    steps = torch.stack(path).diff(dim=0)
    assert (steps > -1e-12).all()
    assert (steps[0] > 1e-6).any()


def test_observed_latents_have_nothing_to_alternate():
    conditionals = random_conditionals(observed=True)
    local = solve_alone(conditionals)
    assert local.latent is None
    same(local.logits, conditionals.own)


@pytest.mark.parametrize("damping", [0.0, 0.6])
def test_x_and_z_are_updated_once_after_the_rounds_of_messages(damping):
    conditionals, coupling = random_conditionals(), random_coupling()
    alone, local = LocalSolver(exchanges=2, damping=damping).solve(conditionals, coupling)
    first = conditionals.first_logits()
    logits = first.clone()
    for _ in range(2):
        target = first[:PAIRED] + coupling.messages(logits.softmax(-1))
        logits[:PAIRED] = damping * logits[:PAIRED] + (1 - damping) * target
    latent = conditionals.latent(logits.softmax(-1))
    expected = conditionals.logits(latent)
    expected[:PAIRED] += coupling.messages(logits.softmax(-1))
    same(local.logits, expected)
    same(local.latent.flat(), latent.flat())
    without = solve_alone(conditionals)
    same(without.latent.flat(), conditionals.latent(first.softmax(-1)).flat())
    same(without.logits, conditionals.logits(without.latent))
    same(alone.logits, without.logits[:PAIRED])
    same(alone.latent.flat(), without.latent.flat()[:PAIRED])


def assert_fixed_point(
    conditionals: LocalConditionals, local: LocalPosterior, heard: Callable[[Tensor], Tensor]
) -> None:
    """Eq. 12 and eq. 14, written out item by item."""
    q = local.assignments
    for i in range(N):
        potential = conditionals.potential.natural_parameters()[i]
        linear, quadratic = FAMILY.local.unpack(potential)
        for k in range(K):
            prior_linear, prior_quadratic = FAMILY.local.unpack(conditionals.components[k])
            linear = linear + q[i, k] * prior_linear
            quadratic = quadratic + q[i, k] * prior_quadratic
        root = local.latent.root[i]
        covariance = root @ root.mT
        same(torch.linalg.inv(covariance), -2 * quadratic, 1e-8)
        same(local.latent.mean[i], covariance @ linear, 1e-8)
    eta = conditionals.logits(local.latent)
    eta[:PAIRED] += heard(q)
    same(q, eta.softmax(-1), 1e-8)


def test_enough_rounds_without_answers_reach_the_fixed_point():
    conditionals = random_conditionals()
    assert_fixed_point(conditionals, alternated(conditionals), unheard)


def test_enough_rounds_with_answers_reach_the_fixed_point():
    conditionals, coupling = random_conditionals(), random_coupling()
    local = alternated(conditionals, heard=coupling.messages, step=0.5)
    assert_fixed_point(conditionals, local, coupling.messages)
    without = alternated(conditionals)
    # What nobody was asked about stays where it was.
    same(local.logits[PAIRED:], without.logits[PAIRED:])
    same(local.latent.flat()[PAIRED:], without.latent.flat()[PAIRED:])
    assert (local.assignments - without.assignments)[:PAIRED].abs().max() > 1e-3


def test_observed_latents_reach_the_fixed_point_by_exchanges_alone():
    conditionals, coupling = random_conditionals(observed=True), random_coupling()
    alone, local = LocalSolver(exchanges=300).solve(conditionals, coupling)
    assert local.latent is None
    unary = conditionals.own
    same(alone.logits, unary[:PAIRED])
    expected = unary.clone()
    expected[:PAIRED] += coupling.messages(local.assignments)
    same(local.assignments, expected.softmax(-1), 1e-8)


def test_the_best_neighbour_of_the_fixed_point_is_the_fixed_point():
    """No single assignment can be changed for a better brute-force bound."""
    rates = random_rates()
    conditionals = random_conditionals(observed=True)
    weight = TwoCoin(M).log_likelihood_ratio(rates, WORKER, LABEL)
    coupling = PairCoupling(LEFT, RIGHT, weight, PAIRED)
    _, local = LocalSolver(exchanges=300).solve(conditionals, coupling)
    q, unary = local.assignments, conditionals.own
    best = expected_bound(q, unary, rates)
    for item in range(N):
        other = q.clone()
        other[item] = (q[item].log() + 0.1 * torch.randn(K)).softmax(-1)
        assert expected_bound(other, unary, rates) < best


@pytest.mark.parametrize("paired", [0, PAIRED])
@pytest.mark.parametrize("labels_tell", [False, True])
def test_the_last_round_updates_x_and_then_z_of_both_sets_of_items(paired, labels_tell):
    conditionals = random_conditionals()
    if labels_tell:
        conditionals = replace(conditionals, log_weights=torch.randn(N, K))
    alone, q = torch.randn(paired, K).softmax(-1), torch.randn(N, K).softmax(-1)
    messages = torch.randn(paired, K)
    without, joined = conditionals.last_round(alone, q, messages)
    first = conditionals.first(paired)
    same(without.latent.flat(), first.latent(alone).flat())
    same(without.logits, first.logits(first.latent(alone)))
    same(joined.latent.flat(), conditionals.latent(q).flat())
    expected = conditionals.logits(conditionals.latent(q))
    expected[:paired] += messages
    same(joined.logits, expected)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_only_the_last_round_is_differentiable(damping):
    """Earlier rounds reach the answer through the assignments, which are held fixed."""
    conditionals, coupling = random_conditionals(), random_coupling()
    leaves = [part.requires_grad_() for part in conditionals.potential]
    solver = LocalSolver(damping=damping)
    for local in solver.solve(conditionals, coupling):
        own = conditionals.potential.natural_parameters()[: len(local.logits)]
        covariance = local.latent.root @ local.latent.root.mT
        fixed = (FAMILY.local.natural(local.latent.mean, covariance) - own).detach()
        again = conditionals.logits(FAMILY.local.moments(fixed + own))
        messages_heard = (local.logits - again).detach()
        found = torch.autograd.grad(local.logits.square().sum(), leaves, retain_graph=True)
        expected = torch.autograd.grad((again + messages_heard).square().sum(), leaves)
        same(found, expected, 1e-8)


def test_damping_lets_one_of_two_items_win_that_were_called_different():
    """Undamped, both move to the emptier of two clusters at once, and back, forever."""
    components = FAMILY.expected_statistics(random_natural(FAMILY)).expand(2, FAMILY.size)
    same_place = Moments.point(torch.zeros(3, 2)).flat()
    own = torch.tensor([0.3, 0.0]) + FAMILY.log_likelihoods(components, same_place)
    conditionals = FixedConditionals(own)
    # A third item, which the first is a little more like, breaks the tie between them.
    left, right = torch.tensor([0, 0]), torch.tensor([1, 2])
    coupling = PairCoupling(left, right, torch.tensor([-3.0, 0.1]), 3)

    def first_cluster(damping: float, exchanges: int) -> list[float]:
        solver = LocalSolver(exchanges=exchanges, damping=damping)
        return solver.solve(conditionals, coupling)[1].assignments[:2, 0].tolist()

    both_in, both_out = first_cluster(0.0, 100), first_cluster(0.0, 101)
    assert abs(both_in[0] - both_out[0]) > 0.5
    settled = first_cluster(0.3, 100)
    assert settled == pytest.approx(first_cluster(0.3, 101), abs=1e-8)
    assert abs(settled[0] - settled[1]) > 0.5


@pytest.mark.parametrize("wrong", [{"exchanges": 0}, {"damping": 1.0}])
def test_solver_refuses_no_rounds_and_no_motion(wrong):
    with pytest.raises(ValueError, match="at least one exchange and damping"):
        LocalSolver(**wrong)


def amortized_conditionals() -> FixedConditionals:
    return FixedConditionals(torch.randn(N, K).log_softmax(-1), random_conditionals())


def test_a_network_of_z_and_the_answers_are_all_that_z_uses():
    conditionals, coupling = amortized_conditionals(), random_coupling()
    alone, local = LocalSolver(exchanges=300).solve(conditionals, coupling)
    same(alone.logits, conditionals.own[:PAIRED])
    expected = conditionals.own.clone()
    expected[:PAIRED] += coupling.messages(local.assignments)
    same(local.assignments, expected.softmax(-1), 1e-8)
    # Eq. 12 is as ever.
    same(local.latent.flat(), conditionals.of_latents.latent(local.assignments).flat(), 1e-8)
    unheard = conditionals.of_latents.first(PAIRED).latent(alone.assignments)
    same(alone.latent.flat(), unheard.flat())


def test_gradients_flow_to_a_network_of_z_where_globals_are_fixed():
    conditionals = amortized_conditionals()
    conditionals.own.requires_grad_()
    conditionals.of_latents.components.requires_grad_()
    _, local = LocalSolver().solve(conditionals.with_fixed_globals(), random_coupling())
    assert not local.latent.mean.requires_grad
    (gradient,) = torch.autograd.grad(local.logits.sum(), conditionals.own)
    same(gradient, torch.ones(N, K))


@pytest.mark.parametrize("observed", [False, True])
def test_no_gradient_flows_to_globals_that_are_fixed(observed):
    conditionals = random_conditionals(observed)
    names = ("own",) if observed else ("log_weights", "components")
    for name in names:
        getattr(conditionals, name).requires_grad_()
    fixed, q = conditionals.with_fixed_globals(), torch.randn(N, K).softmax(-1)
    logits, of_fixed = (
        one.last_round(q[:PAIRED], q, unheard(q))[1].logits for one in (conditionals, fixed)
    )
    assert logits.requires_grad
    same(of_fixed, logits.detach())
    assert not of_fixed.requires_grad
    assert not any(getattr(fixed, name).requires_grad for name in names)


def test_a_batch_keeps_the_order_of_its_answers(monkeypatch):
    monkeypatch.setattr(pair_messages, "_DENSE_LIMIT", 0)
    batch = full_batch(crowd())
    weights, q = torch.randn(2, batch.num_pairs), torch.randn(batch.num_paired, K).softmax(-1)
    ordered = mock.Mock(wraps=pair_messages.ByReceiver.of)
    monkeypatch.setattr(pair_messages.ByReceiver, "of", ordered)
    found = [PairCoupling.of_batch(batch, weight).messages(q) for weight in weights]
    assert ordered.call_count == 1
    for weight, messages in zip(weights, found, strict=True):
        same(PairCoupling(batch.left, batch.right, weight, batch.num_paired).messages(q), messages)
