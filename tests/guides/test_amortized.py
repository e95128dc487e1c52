"""SCDC: Pyro's enumerating ELBO of the amortized guide is the sum over z written out."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from pyro import poutine
from torch import nn

from pyro_crowdclust import CrowdData
from pyro_crowdclust.annotators import TwoCoin
from pyro_crowdclust.families import Moments
from pyro_crowdclust.guides import AmortizedGuide, AtMean, Enumerated
from pyro_crowdclust.inference import RecognitionTerm
from pyro_crowdclust.minibatches import MinibatchSampler, full_batch
from pyro_crowdclust.mixture import Ownership
from pyro_crowdclust.starts import MixtureStart

from ..amortized_twin import (
    NUM_ITEMS,
    STOCK,
    answers,
    answers_term,
    bernoulli_emission,
    elbo,
    items_term,
    latent,
    log_answer,
    log_prior,
    normal_emission,
    numpy_of,
    probabilities,
    problem,
)
from ..crowds import added_to_loss, crowd
from ..problems import (
    DIM,
    NUM_CLUSTERS,
    NUM_FEATURES,
    normal_problem,
    some_batch,
    weighted,
    without_answers,
)


@pytest.mark.parametrize("make_emission", [normal_emission, bernoulli_emission])
@pytest.mark.parametrize("change", [lambda batch: batch, weighted, without_answers])
@pytest.mark.parametrize("assignments", [AtMean(), Enumerated()], ids=["at mean", "enumerated"])
def test_elbo_is_the_explicit_sum_over_all_clusters(make_emission, change, assignments):
    guide, batch = problem(make_emission, assignments=assignments)
    batch = change(batch)
    torch.manual_seed(3)
    # The clusters of an item have their noise in common.
    noise = torch.randn(NUM_ITEMS, DIM).expand(NUM_CLUSTERS, -1, -1).numpy()
    expected = items_term(guide, batch, noise) + answers_term(guide, batch) + log_prior(guide)
    torch.manual_seed(3)
    assert elbo(guide, batch) == pytest.approx(expected, rel=1e-10)


def test_answers_term_is_the_expectation_over_all_assignments():
    guide, batch = problem()
    q, expected = probabilities(guide, batch), 0.0
    for z in itertools.product(range(NUM_CLUSTERS), repeat=4):
        probability = math.prod(q[i, k] for i, k in enumerate(z))
        expected += probability * sum(
            log_answer(guide, worker, label, same=z[i] == z[j])
            for i, j, worker, label, _ in answers(batch)
        )
    guide_trace = poutine.trace(guide).get_trace(batch)
    trace = poutine.trace(poutine.replay(guide.model, trace=guide_trace)).get_trace(batch)
    trace.compute_log_prob()
    assert trace.nodes["label"]["log_prob_sum"].item() == pytest.approx(expected, rel=1e-10)
    assert answers_term(guide, batch) == pytest.approx(expected, rel=1e-10)


def test_clusters_that_own_components_are_refused():
    guide, _ = problem()
    guide.model.ownership = Ownership(NUM_CLUSTERS)
    with pytest.raises(ValueError, match="cannot learn which components are one cluster"):
        AmortizedGuide(guide.model, guide.recognition)


def test_an_enumerated_z_cannot_be_compared_pair_by_pair():
    """Without its own site for agreement, a guide must not get a wrong bound in silence."""
    guide, batch = problem(assignments=Enumerated())
    without = poutine.block(guide, hide=["same"])
    with pytest.raises(ValueError, match="the guide must sample the site 'same'"):
        STOCK.loss(guide.model, without, batch)


def test_maximum_a_posteriori_adds_the_log_prior():
    torch.manual_seed(1)
    posterior, batch = problem()
    torch.manual_seed(1)
    likelihood, _ = problem(maximum_a_posteriori=False)
    torch.manual_seed(2)
    with_prior = elbo(posterior, batch)
    torch.manual_seed(2)
    without = elbo(likelihood, batch)
    assert with_prior - without == pytest.approx(log_prior(posterior), rel=1e-9)


def test_gradients_are_those_of_the_sum():
    """Along a random direction of every parameter, by autograd and by central differences."""
    guide, batch = problem()
    batch = weighted(batch)
    parameters = [*guide.points.parameters(), *guide.recognition.parameters()]
    parameters += guide.model.emission.parameters()
    directions = [torch.randn_like(parameter) for parameter in parameters]

    def at(step: float) -> float:
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter += step * direction
            torch.manual_seed(5)
            value = elbo(guide, batch)
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter -= step * direction
        return value

    numeric = (at(1e-6) - at(-1e-6)) / 2e-6
    torch.manual_seed(5)
    loss = STOCK.differentiable_loss(guide.model, guide, batch)
    loss.backward()
    ours = -sum((p.grad * d).sum().item() for p, d in zip(parameters, directions, strict=True))
    assert ours == pytest.approx(numeric, rel=1e-5)


@pytest.mark.parametrize("size", ["whole pages", "single pairs"])
def test_minibatches_average_to_the_full_bound(size):
    """An epoch that draws every block and every item once; without spread x has no noise."""
    data = crowd(num_items=60)
    pairs = data.pairs
    if size == "single pairs":
        pairs = pairs.iloc[::15].assign(page=range(len(pairs.iloc[::15])))
    # The parts of the items without answers are of one size only if it divides their number.
    num_paired = len(CrowdData(None, pairs).item_ids)
    data = CrowdData(data.features[: num_paired + 18], pairs)
    guide, _ = problem(scale=1e-12)
    guide.model.annotators = TwoCoin(data.num_workers, (2.0, 1.0), (1.5, 0.7))
    guide = AmortizedGuide(guide.model, guide.recognition)
    num_blocks = 6
    sampler = MinibatchSampler(
        data,
        batch_size=(data.num_items - len(data.annotated_items)) // num_blocks,
        answers_per_step=data.num_pairs // num_blocks,
        generator=torch.Generator().manual_seed(0),
    )
    batches = list(sampler)
    assert len(batches) == num_blocks
    whole = full_batch(data)
    drawn = torch.cat([batch.items[batch.num_paired :] for batch in batches])
    assert drawn.sort().values.tolist() == whole.items[whole.num_paired :].sort().values.tolist()
    assert sum(batch.num_pairs for batch in batches) == data.num_pairs
    average = np.mean([elbo(guide, batch) for batch in batches])
    assert average == pytest.approx(elbo(guide, whole), rel=1e-9)


def test_an_amortized_fit_learns():
    """On clear clouds, from a start that knows the partition, the bound goes up."""
    guide, batch = problem()
    optimizer = torch.optim.Adam([*guide.parameters()], lr=0.05)
    bound = STOCK
    before = np.mean([elbo(guide, batch) for _ in range(5)])
    for _ in range(25):
        optimizer.zero_grad()
        bound.differentiable_loss(guide.model, guide, batch).backward()
        optimizer.step()
    assert np.mean([elbo(guide, batch) for _ in range(5)]) > before + 1


def test_points_start_where_a_partition_puts_the_posterior():
    """Means of weights and locations, modes of covariances; in closed form."""
    guide, _ = problem()
    x, partition = np.random.default_rng(0).normal(size=(9, DIM)), torch.rand(9, 3).softmax(-1)
    guide.start_at(MixtureStart(Moments.point(torch.tensor(x)).flat(), partition, 2.0))
    prior = guide.model.components.prior
    location, kappa, scale, degrees = (
        part[0].numpy() for part in prior.family.standard(prior.natural_parameters)
    )
    weights = guide.points["weights"].value().detach()
    expected = 0.8 + 2 * partition.sum(0)
    torch.testing.assert_close(weights, expected / expected.sum())
    means, covariances = guide.points["components"].value()
    for k, r in enumerate(2 * partition.numpy().T):
        count, center = r.sum(), np.average(x, axis=0, weights=r)
        mean = (kappa * location + count * center) / (kappa + count)
        np.testing.assert_allclose(means[k].detach(), mean)
        away = [location - mean, *(x - mean)]
        spread = scale + np.einsum("n,ni,nj->ij", [kappa, *r], away, away)
        mode = spread / (degrees + count + DIM + 1)
        np.testing.assert_allclose(covariances[k].detach(), mode, atol=1e-12)


@pytest.mark.parametrize("make", [problem, normal_problem], ids=["amortized", "message passing"])
def test_a_network_learns_a_partition_that_it_is_given(make):
    """Where it can see it; the mixture, which stands where the partition puts it, stays there."""
    guide, _ = make()
    clusters = torch.arange(24) // 8
    partition, features = torch.eye(3)[clusters], 3.0 * torch.eye(NUM_FEATURES)[clusters]
    features = features + 0.1 * torch.randn_like(features)
    latents = Moments.point(3.0 * torch.eye(3)[clusters, :DIM]).flat()
    guide.start_at(MixtureStart(latents, partition, 1.0))
    before = {name: parameter.clone() for name, parameter in guide.named_parameters()}
    guide.start_at_partition(features, partition, torch.Generator().manual_seed(0), steps=100)
    found = guide.infer(without_answers(some_batch(features))).assignments
    assert (found * partition).sum(1).mean() > 0.7
    moved = {name for name, p in guide.named_parameters() if not torch.equal(p, before[name])}
    assert moved
    assert all(name.startswith("recognition.") for name in moved)


def test_an_emptied_cluster_has_no_weight_and_no_items():
    guide, batch = problem()
    weights = guide.points["weights"].value().detach().clone()
    components = [part.detach().clone() for part in guide.points["components"].value()]
    q = guide.infer(batch).assignments
    guide.empty(1)
    q[:, 1], weights[1] = 0, 1e-6
    found = guide.infer(batch).assignments
    torch.testing.assert_close(found, q / q.sum(1, keepdim=True))
    torch.testing.assert_close(guide.points["weights"].value().detach(), weights / weights.sum())
    for part, before in zip(guide.points["components"].value(), components, strict=True):
        assert torch.equal(part, before)


def has_gradient(*modules: nn.Module) -> bool:
    gradients = [p.grad for module in modules for p in module.parameters() if p.grad is not None]
    return any(gradient.abs().max() > 1e-9 for gradient in gradients)


@pytest.mark.parametrize(
    ("make", "options"),
    [(problem, {}), (normal_problem, {}), (normal_problem, {"full_gradient": True})],
    ids=["amortized", "message passing", "full gradient"],
)
def test_the_recognition_term_reaches_the_recognition_network_alone(make, options):
    guide, batch = make(recognition_term=RecognitionTerm(2.0), **options)
    added_to_loss(guide, batch).backward()
    assert has_gradient(guide.recognition)
    assert not has_gradient(guide.model)
    assert not has_gradient(guide.points if make is problem else guide.posteriors)


def test_the_recognition_term_is_the_answers_under_message_free_assignments():
    guide, batch = problem(recognition_term=RecognitionTerm(7.0))
    batch = weighted(batch)
    loss = added_to_loss(guide, batch)
    expected = answers_term(guide, batch)
    # The term leaves out what does not depend on q: the log-likelihood of "different" for all.
    expected -= sum(
        weight * log_answer(guide, worker, label, same=False)
        for _, _, worker, label, weight in answers(batch)
    )
    assert loss.item() == pytest.approx(-7 * expected, rel=1e-10)


def test_the_weight_of_the_recognition_term_follows_the_epoch():
    term = RecognitionTerm(lambda epoch: max(8.0 * 0.5**epoch, 1.0))
    guide, batch = problem(recognition_term=term)
    losses = []
    for epoch in (0, 1, 2.0, 10):
        guide.set_epoch(epoch)
        losses.append(added_to_loss(guide, batch).item())
    assert [loss / losses[-1] for loss in losses] == pytest.approx([8, 4, 2, 1])
    assert added_to_loss(guide, without_answers(batch)) == 0


def test_answers_do_not_change_what_the_networks_infer():
    guide, batch = problem()
    inferred, alone = guide.infer(batch), guide.infer(without_answers(batch))
    assert torch.equal(inferred.logits, alone.logits)
    np.testing.assert_allclose(inferred.assignments, probabilities(guide, batch), rtol=1e-12)
    for i, k in enumerate(inferred.assignments.argmax(-1).tolist()):
        mean, scale = latent(guide, batch.features, k)
        np.testing.assert_allclose(numpy_of(inferred.latent.mean[i]), mean[i], rtol=1e-12)
        root = numpy_of(inferred.latent.root[i])
        np.testing.assert_allclose(root, np.diag(scale[i]), rtol=1e-12)


def test_the_order_of_items_does_not_matter():
    guide, batch = problem(scale=1e-12)
    order = torch.randperm(4).tolist() + [4]
    place = torch.tensor(order).argsort()
    turned = dataclasses.replace(
        batch,
        features=batch.features[order],
        left=place[batch.left],
        right=place[batch.right],
    )
    assert elbo(guide, turned) == pytest.approx(elbo(guide, batch), rel=1e-9)
