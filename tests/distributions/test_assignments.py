"""Sums over z without computing all values: they are the whole sum, gradients included."""

from __future__ import annotations

import itertools
from unittest import mock

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO, TraceEnum_ELBO
from pyro.infer.elbo import ELBO

from pyro_crowdclust import CrowdData
from pyro_crowdclust.distributions import Assignment, SampledAssignment, SparseAtMean
from pyro_crowdclust.guides import AmortizedGuide, AtMean, Enumerated, Sampled
from pyro_crowdclust.guides.assignment_sums import AssignmentSum
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.networks import AmortizedRecognition
from pyro_crowdclust.training import PlainELBO

from ..crowds import DIM, NUM_CLUSTERS, NUM_FEATURES, blobs, crowd, deep_mixture, quiet_fit
from ..problems import weighted

CLUSTERS, WEIGHT = 6, 2.5


def loss_and_gradients(make_site, logits, locations) -> list[torch.Tensor]:
    """Of a mixture with one observation and points for its locations."""

    def model():
        with pyro.plate("items", 1), pyro.poutine.scale(scale=WEIGHT):
            z = pyro.sample("z", Assignment(torch.zeros(1, CLUSTERS)))
            pyro.sample("o", dist.Normal(z @ locations, 1.0), obs=torch.tensor([0.7]))

    def guide():
        with pyro.plate("items", 1), pyro.poutine.scale(scale=WEIGHT):
            site = make_site(logits.log_softmax(-1))
            pyro.sample("z", site, infer={"enumerate": "parallel"})

    loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(model, guide)
    return [loss.detach(), *torch.autograd.grad(loss, [logits, locations])]


@pytest.mark.parametrize("num_summed", [1, 2, 4, 5])
def test_the_mean_over_draws_is_the_whole_sum(num_summed):
    logits = torch.randn(1, CLUSTERS, requires_grad=True)
    locations = torch.randn(CLUSTERS, requires_grad=True)
    expected = loss_and_gradients(Assignment, logits, locations)
    probabilities = logits.detach().softmax(-1)[0]
    rest = probabilities.clone()
    rest[probabilities.topk(num_summed).indices] = 0
    rest = rest / rest.sum()
    means = [torch.zeros_like(part) for part in expected]
    bounds = torch.cat([torch.zeros(1), rest.cumsum(0)])
    for cluster in rest.nonzero().flatten().tolist():
        middle = bounds[cluster : cluster + 2].mean().unsqueeze(0)

        def site(log_weights, uniform=middle):
            return SampledAssignment(log_weights, num_summed, uniform)

        for mean, part in zip(means, loss_and_gradients(site, logits, locations), strict=True):
            mean += rest[cluster] * part
    for found, wanted in zip(means, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def guide_with(assignments: AssignmentSum) -> AmortizedGuide:
    """The same guide at every call, but for how it sums over z."""
    torch.manual_seed(0)
    model = deep_mixture()
    recognition = AmortizedRecognition((NUM_FEATURES, 5, 5), DIM, NUM_CLUSTERS)
    torch.nn.init.normal_(recognition.moments.weight)
    return AmortizedGuide(model, recognition, assignments=assignments).double()


def same_noise(batch: Batch, value: torch.Tensor) -> torch.Tensor:
    """The same normal numbers for every tensor of a shape."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(value.shape, generator=generator, dtype=value.dtype)


def bound_and_gradients(guide: AmortizedGuide, batch: Batch, elbo: ELBO) -> list[torch.Tensor]:
    """Of a guide whose latents are drawn by the same noise at every call."""
    with mock.patch.object(Batch, "noise", same_noise):
        loss = elbo.differentiable_loss(guide.model, guide, batch)
    modules = guide.points, guide.recognition, guide.model.emission
    parameters = [parameter for module in modules for parameter in module.parameters()]
    return [loss, *torch.autograd.grad(loss, parameters)]


@pytest.mark.parametrize(
    "elbo", [PlainELBO(), Trace_ELBO(), TraceEnum_ELBO(strict_enumeration_warning=False)]
)
def test_at_the_mean_is_what_pyro_enumerates(elbo):
    batch = weighted(full_batch(crowd()).to(None, torch.float64))
    stock = TraceEnum_ELBO(max_plate_nesting=1)
    elbo.max_plate_nesting = 1
    expected = bound_and_gradients(guide_with(Enumerated()), batch, stock)
    found = bound_and_gradients(guide_with(AtMean()), batch, elbo)
    for some, whole in zip(found, expected, strict=True):
        torch.testing.assert_close(some, whole, rtol=1e-10, atol=1e-10)


def test_the_mean_over_drawn_clusters_is_what_pyro_enumerates():
    """Every cluster of an item that is not the likeliest, as often as it is drawn."""
    batch = full_batch(CrowdData(blobs(4)[0])).to(None, torch.float64)
    stock = TraceEnum_ELBO(max_plate_nesting=1)
    expected = bound_and_gradients(guide_with(Enumerated()), batch, stock)
    guide = guide_with(Sampled(1))
    probabilities = guide.infer(batch).assignments
    likeliest = probabilities.argmax(-1, keepdim=True)
    rest = probabilities.scatter(-1, likeliest, 0.0)
    rest = rest / rest.sum(-1, keepdim=True)
    means = [torch.zeros_like(part) for part in expected]
    drawn_twice = itertools.product((0, 1), repeat=len(batch.items))
    for choice in drawn_twice:
        others = rest.topk(NUM_CLUSTERS - 1).indices.sort(-1).values
        chosen = others.gather(-1, torch.tensor(choice).unsqueeze(-1))
        before = rest.cumsum(-1).gather(-1, chosen) - rest.gather(-1, chosen) / 2
        with mock.patch.object(torch.special, "ndtr", lambda noise, value=before: value):
            found = bound_and_gradients(guide, batch, stock)
        for mean, part in zip(means, found, strict=True):
            mean += rest.gather(-1, chosen).prod() * part
    for found, wanted in zip(means, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("left_out", [0.0, 1e-6, 0.3])
def test_the_mean_lacks_values_that_are_improbable_together(left_out):
    logits = (4 * torch.randn(50, CLUSTERS)).log_softmax(-1)
    mean = SparseAtMean(logits, left_out).sample().to_dense()
    kept = mean > 0
    assert torch.equal(mean[kept], logits.exp()[kept])
    missing = torch.where(kept, 0.0, logits.exp())
    assert bool((missing.sum(-1) <= left_out).all())
    # Nothing could have been left out beside.
    smallest_kept = torch.where(kept, mean, 1.0).amin(-1)
    assert bool((missing.sum(-1) + smallest_kept > left_out).all())
    assert bool((missing.amax(-1) <= smallest_kept).all())
    assert bool(kept.all()) == (left_out == 0.0)


def test_the_log_density_at_the_mean_is_minus_the_entropy():
    logits = (4 * torch.randn(50, CLUSTERS)).log_softmax(-1)
    logits[0] = torch.tensor([0.0] + [-torch.inf] * (CLUSTERS - 1))
    site = SparseAtMean(logits)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    torch.testing.assert_close(site.log_prob(site.sample()), -entropy)
    shared = Assignment(torch.randn(CLUSTERS)).expand([50])
    dense = site.sample().to_dense()
    torch.testing.assert_close(shared.log_prob(site.sample()), shared.log_prob(dense))


def test_a_sparse_mean_is_drawn_as_it_says():
    logits = torch.randn(3, CLUSTERS).log_softmax(-1)
    drawn = SparseAtMean(logits).real_draws(20_000).statistics
    assert bool((drawn.sum(-1) == 1).all())
    torch.testing.assert_close(drawn.mean(0), logits.exp(), rtol=0, atol=0.02)


def test_improbable_clusters_have_no_latents():
    guide, batch = guide_with(AtMean()), full_batch(crowd())
    guide.recognition.logits.bias.data = torch.tensor([0.0, -1.0, -50.0])
    decoded = []
    guide.model.emission.register_forward_hook(lambda _, args, __: decoded.append(len(args[0])))
    PlainELBO().loss(guide.model, guide, batch.to(None, torch.float64))
    assert decoded == [2 * len(batch.items)]


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1.0])
def test_draws_are_of_the_rest(uniform):
    logits = (10 * torch.randn(50, CLUSTERS)).log_softmax(-1)
    site = SampledAssignment(logits, 2, torch.full((50,), uniform))
    values = site.enumerate_support()
    assert values.shape == (3, 50, CLUSTERS)
    assert bool((values.sum(0).amax(-1) == 1).all())
    assert torch.equal(
        values[:2].sum(0), torch.zeros_like(logits).scatter(-1, logits.topk(2).indices, 1.0)
    )


def test_certain_items_have_the_exact_bound():
    """Where q(z) has no mass beyond two clusters, two and a draw give the bound of all three."""
    batch, losses = full_batch(crowd()).to(None, torch.float64), []
    for assignments in (Enumerated(), Sampled(1)):
        guide = guide_with(assignments)
        guide.recognition.logits.bias.data = torch.tensor([0.0, -800.0, -900.0])
        with mock.patch.object(Batch, "noise", lambda self, value: torch.zeros_like(value)):
            losses.append(TraceEnum_ELBO(max_plate_nesting=1).loss(guide.model, guide, batch))
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


@pytest.mark.long
def test_a_fit_learns_with_sums_over_some():
    guide = guide_with(Sampled(1))
    result = quiet_fit(guide.model, guide, crowd(), epochs=30)
    elbo = result.history["elbo"]
    assert elbo[-5:].mean() > elbo[:5].mean()


@pytest.mark.parametrize(("num_summed", "kind"), [(1, SampledAssignment), (2, Assignment)])
def test_the_last_of_the_others_is_not_drawn(num_summed, kind):
    """Of three clusters two and one of the others are all, as are nine."""
    batch = full_batch(crowd()).to(None, torch.float64)
    for count in (num_summed, num_summed + 7 * (num_summed - 1)):
        trace = pyro.poutine.trace(guide_with(Sampled(count))).get_trace(batch)
        assert type(trace.nodes["z"]["fn"]) is kind


def test_at_least_one_cluster_is_summed():
    with pytest.raises(ValueError, match="num_summed is 0"):
        Sampled(0)
