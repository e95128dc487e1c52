"""Sums over z without computing all values: they are the whole sum, gradients included."""

from __future__ import annotations

from unittest import mock

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import TraceEnum_ELBO

from pyro_crowdclust.distributions import Assignment, Rows, SparseAssignment, SummedAssignment
from pyro_crowdclust.guides import AmortizedGuide
from pyro_crowdclust.minibatches import Batch, full_batch
from pyro_crowdclust.networks import AmortizedRecognition

from ..crowds import DIM, NUM_CLUSTERS, NUM_FEATURES, crowd, deep_mixture, quiet_fit

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
            return SparseAssignment(log_weights, num_summed, uniform)

        for mean, part in zip(means, loss_and_gradients(site, logits, locations), strict=True):
            mean += rest[cluster] * part
    for found, wanted in zip(means, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


def bound_and_gradients(guide: AmortizedGuide, batch: Batch) -> list[torch.Tensor]:
    """Of a guide whose latents are at their means."""
    with mock.patch.object(Batch, "noise", lambda self, value: torch.zeros_like(value)):
        bound = TraceEnum_ELBO(max_plate_nesting=1)
        loss = bound.differentiable_loss(guide.model, guide, batch)
    parameters = [*guide.points.parameters(), *guide.recognition.parameters()]
    return [loss, *torch.autograd.grad(loss, parameters)]


def test_at_the_mean_is_the_whole_sum():
    batch = full_batch(crowd()).to(None, torch.float64)
    found, expected = (
        bound_and_gradients(guide_with(num_summed).double(), batch)
        for num_summed in (None, NUM_CLUSTERS)
    )
    for some, whole in zip(found, expected, strict=True):
        torch.testing.assert_close(some, whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("left_out", [0.0, 1e-6, 0.3])
def test_the_mean_lacks_values_that_are_improbable_together(left_out):
    logits = (4 * torch.randn(50, CLUSTERS)).log_softmax(-1)
    site = SummedAssignment(logits, left_out)
    (mean,) = site.enumerate_support()
    kept = mean > 0
    assert torch.equal(mean[kept], logits.exp()[kept])
    missing = torch.where(kept, 0.0, logits.exp())
    assert bool((missing.sum(-1) <= left_out).all())
    # Nothing could have been left out beside.
    smallest_kept = torch.where(kept, mean, 1.0).amin(-1)
    assert bool((missing.sum(-1) + smallest_kept > left_out).all())
    assert bool((missing.amax(-1) <= smallest_kept).all())
    assert bool(kept.all()) == (left_out == 0.0)


def test_values_have_rows_only_where_there_is_one_for_each():
    mean = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]])
    rows = Rows.of_value(mean, torch.zeros(3, 7))
    assert rows.item.tolist() == [0, 0, 1]
    assert rows.cluster.tolist() == [0, 1, 2]
    of_items = torch.zeros(2, 7)
    assert Rows.of_value(mean[0], of_items) is None  # not enumerated
    assert Rows.of_value(torch.eye(3).unsqueeze(1), of_items) is None  # value by value
    assert Rows.of_value(torch.ones(1, 1, 1), of_items) is None  # the one value of one cluster


def test_improbable_clusters_have_no_latents():
    guide, batch = guide_with(None).double(), full_batch(crowd())
    guide.recognition.logits.bias.data = torch.tensor([0.0, -1.0, -50.0])
    decoded = []
    guide.model.emission.register_forward_hook(lambda _, args, __: decoded.append(len(args[0])))
    TraceEnum_ELBO(max_plate_nesting=1).loss(guide.model, guide, batch.to(None, torch.float64))
    assert decoded == [2 * len(batch.items)]


@pytest.mark.parametrize("uniform", [0.0, 0.3, 1.0])
def test_draws_are_of_the_rest(uniform):
    logits = (10 * torch.randn(50, CLUSTERS)).log_softmax(-1)
    site = SparseAssignment(logits, 2, torch.full((50,), uniform))
    values = site.enumerate_support()
    assert values.shape == (3, 50, CLUSTERS)
    assert bool((values.sum(0).amax(-1) == 1).all())
    assert torch.equal(
        values[:2].sum(0), torch.zeros_like(logits).scatter(-1, logits.topk(2).indices, 1.0)
    )


def guide_with(num_summed: int | None) -> AmortizedGuide:
    torch.manual_seed(0)
    model = deep_mixture()
    recognition = AmortizedRecognition((NUM_FEATURES, 5, 5), DIM, NUM_CLUSTERS)
    return AmortizedGuide(model, recognition, num_summed=num_summed)


def test_certain_items_have_the_exact_bound():
    """Where q(z) has no mass beyond two clusters, two and a draw give the bound of all three."""
    batch, losses = full_batch(crowd()).to(None, torch.float64), []
    for num_summed in (None, 1):
        guide = guide_with(num_summed)
        guide.double()
        guide.recognition.logits.bias.data = torch.tensor([0.0, -800.0, -900.0])
        with mock.patch.object(Batch, "noise", lambda self, value: torch.zeros_like(value)):
            loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(
                guide.model, guide, batch
            )
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)


def test_a_fit_learns_with_sums_over_some():
    guide = guide_with(1)
    result = quiet_fit(guide.model, guide, crowd(), epochs=30)
    elbo = result.history["elbo"]
    assert elbo[-5:].mean() > elbo[:5].mean()


def test_at_least_one_cluster_is_summed():
    with pytest.raises(ValueError, match="num_summed is 0"):
        guide_with(0)
