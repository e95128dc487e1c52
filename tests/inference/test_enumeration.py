"""What is read from runs of a model with enumerated sites: densities of items, means of draws."""

from __future__ import annotations

import itertools
import math
from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyro_crowdclust.data import CrowdData
from pyro_crowdclust.inference.enumeration import (
    averaged,
    enumerated_inference,
    item_log_density,
)
from pyro_crowdclust.minibatches import Batch, full_batch

WEIGHTS = torch.tensor([0.2, 0.5, 0.3])
ENUMERATE = {"enumerate": "parallel"}
# Of numbers that are near, and far away, with the logarithm of their share.
SCALES = (1.0, math.log(0.8)), (10.0, math.log(0.2))


def test_densities_of_an_item_are_of_all_that_is_in_its_plate():
    """Features are in a further plate, and one number belongs to no item."""
    means, x = torch.randn(3, 4, 1), torch.randn(4, 5)
    weights = torch.randn(5, 3).log_softmax(-1)

    def model() -> None:
        pyro.sample("of nobody", dist.Normal(0.0, 1.0))
        with pyro.plate("items", 5, dim=-1):
            z = pyro.sample("z", dist.Categorical(logits=weights), infer={"enumerate": "parallel"})
            with pyro.plate("features", 4, dim=-2):
                own = means.squeeze(-1)[z, torch.arange(4).unsqueeze(-1)]
                pyro.sample("x", dist.Normal(own, 1.0), obs=x)

    trace = poutine.trace(poutine.enum(model, first_available_dim=-3)).get_trace()
    found = {names: item_log_density(trace, {"items"}, names, "z") for names in (None, ("x",))}
    for k, i in itertools.product(range(3), range(5)):
        of_x = sum(dist.Normal(means[k, f, 0], 1.0).log_prob(x[f, i]) for f in range(4))
        torch.testing.assert_close(found["x",][k, i], of_x)
        torch.testing.assert_close(found[None][k, i], of_x + weights[i, k])
    torch.testing.assert_close(item_log_density(trace, {"items"}), found[None].logsumexp(0))


@pytest.mark.parametrize("dim", [-2, -1])
def test_parameters_and_plates_inside_the_plate_of_the_items_count_for_nothing(dim):
    """Of a model whose features are in the inner or in the outer plate."""
    x, means = torch.randn(5, 4), torch.tensor([[-1.0], [0.5], [2.0]]) + torch.arange(4.0)
    by_dim = x if dim == -2 else x.mT

    def model(batch: Batch) -> None:
        with pyro.plate("items", 5, dim=dim):
            scale = pyro.param("scale", torch.tensor(2.0), constraint=dist.constraints.positive)
            z = pyro.sample("z", dist.Categorical(WEIGHTS), infer={"enumerate": "parallel"})
            with pyro.plate("features", 4, dim=-3 - dim):
                places = torch.arange(4).reshape(-1, 1) if dim == -1 else torch.arange(4)
                pyro.sample("x", dist.Normal(means[z, places], scale), obs=by_dim)

    with pyro.get_param_store().scope():
        infer = enumerated_inference(model, lambda batch: None, full_batch(CrowdData(x)))
        found = infer(full_batch(CrowdData(x))).assignments
        density = dist.Normal(means.unsqueeze(1), 2.0).log_prob(x).sum(-1)
    exact = (WEIGHTS.log().unsqueeze(1) + density).softmax(0).mT
    torch.testing.assert_close(found, exact)


@pytest.mark.parametrize("outlier_first", [False, True])
def test_clusters_are_the_site_called_z_and_others_are_summed_out(outlier_first):
    x, means = 4 * torch.randn(5), torch.tensor([-1.0, 0.5, 2.0])
    sites = {"z": dist.Categorical(WEIGHTS), "outlier": dist.Bernoulli(0.2)}

    def model(batch: Batch, called: str = "z") -> None:
        with pyro.plate("items", len(batch.items)):
            value = {}
            for name in sorted(sites, reverse=not outlier_first):
                own = called if name == "z" else name
                value[name] = pyro.sample(own, sites[name], infer={"enumerate": "parallel"})
            scale = 1 + 9 * value["outlier"]
            pyro.sample("x", dist.Normal(means[value["z"]], scale), obs=batch.features[:, 0])

    batch = full_batch(CrowdData(x.unsqueeze(1)))
    found = enumerated_inference(model, lambda batch: None, batch)(batch).assignments
    density = [dist.Normal(means, scale).log_prob(x.unsqueeze(1)).exp() for scale in (1.0, 10.0)]
    exact = WEIGHTS * (0.8 * density[0] + 0.2 * density[1])
    torch.testing.assert_close(found, exact / exact.sum(1, keepdim=True))
    other = partial(model, called="kind")
    assert enumerated_inference(other, lambda batch: None, batch) is None


@pytest.mark.parametrize("dim", [-2, -1])
def test_sites_in_plates_inside_that_of_the_items_are_summed_out_there(dim):
    """Every number of an item may be far away by itself, and no mask hides that."""
    x, means = 4 * torch.randn(5, 4), torch.tensor([-1.0, 0.5, 2.0])
    seen = torch.rand(5, 4) < 0.7
    by_dim, mask = (x, seen) if dim == -2 else (x.mT, seen.mT)

    def model(batch: Batch) -> None:
        with pyro.plate("items", 5, dim=dim):
            z = pyro.sample("z", dist.Categorical(WEIGHTS), infer=ENUMERATE)
            with pyro.plate("numbers", 4, dim=-3 - dim), poutine.mask(mask=mask):
                far = pyro.sample("far", dist.Bernoulli(0.2), infer=ENUMERATE)
                pyro.sample("x", dist.Normal(means[z], 1 + 9 * far), obs=by_dim)

    batch = full_batch(CrowdData(x))
    found = enumerated_inference(model, lambda batch: None, batch)(batch).assignments
    near, far = (dist.Normal(means, s).log_prob(x.unsqueeze(2)) + p for s, p in SCALES)
    density = (torch.logaddexp(near, far) * seen.unsqueeze(2)).sum(1)
    torch.testing.assert_close(found, (WEIGHTS.log() + density).softmax(1))


def test_chains_of_sites_are_summed_out_of_every_item():
    """Clusters of sequences; Pyro uses dimensions of the chain again and again."""
    steps, x = 5, torch.randn(4, 5)
    stay, means = torch.tensor([0.6, 0.9, 0.2]), torch.tensor([-1.0, 1.0])

    def model(batch: Batch) -> None:
        with pyro.plate("items", 4):
            z = pyro.sample("z", dist.Categorical(WEIGHTS), infer=ENUMERATE)
            h = torch.zeros(())
            for t in pyro.markov(range(steps)):
                up = torch.where(h > 0, stay[z], 1 - stay[z])
                h = pyro.sample(f"h{t}", dist.Bernoulli(up), infer=ENUMERATE)
                pyro.sample(f"x{t}", dist.Normal(means[h.long()], 1.0), obs=batch.features[:, t])

    batch = full_batch(CrowdData(x))
    found = enumerated_inference(model, lambda batch: None, batch)(batch).assignments
    terms = []
    for path in itertools.product((0, 1), repeat=steps):
        moves = torch.stack(
            [stay if a == b else 1 - stay for a, b in itertools.pairwise((0, *path))]
        )
        seen = dist.Normal(means[list(path)], 1.0).log_prob(x).sum(1)
        terms.append(moves.log().sum(0) + seen.unsqueeze(1))
    exact = WEIGHTS.log() + torch.stack(terms).logsumexp(0)
    torch.testing.assert_close(found, exact.softmax(1))


def shared_scale(batch: Batch) -> None:
    """All items are near their clusters, or all are far."""
    s = pyro.sample("s", dist.Categorical(torch.tensor([0.3, 0.7])), infer=ENUMERATE)
    with pyro.plate("items", len(batch.items)):
        z = pyro.sample("z", dist.Categorical(WEIGHTS), infer=ENUMERATE)
        scale = torch.tensor([1.0, 10.0])[s]
        pyro.sample("x", dist.Normal(1.0 * z, scale), obs=batch.features[:, 0])


def test_an_enumerated_site_that_items_share_is_refused():
    batch = full_batch(CrowdData(torch.randn(5, 1)))
    infer = enumerated_inference(shared_scale, lambda batch: None, batch)
    with pytest.raises(ValueError, match="enumerates 's' outside of the plate of the items"):
        infer(batch)


def test_a_site_that_items_share_may_be_in_the_guide():
    batch = full_batch(CrowdData(4 * torch.randn(5, 1)))

    def guide(batch: Batch) -> None:
        pyro.sample("s", dist.Categorical(torch.tensor([0.0, 1.0])), infer=ENUMERATE)

    found = enumerated_inference(shared_scale, guide, batch)(batch).assignments
    exact = WEIGHTS.log() + dist.Normal(torch.arange(3.0), 10.0).log_prob(batch.features)
    torch.testing.assert_close(found, exact.softmax(1))


def test_a_guide_may_enumerate_numbers_that_are_no_codes():
    q = torch.tensor([0.2, 0.9, 0.5])

    def part(batch: Batch) -> None:
        with pyro.plate("items", len(batch.items)):
            pyro.sample("z", dist.Bernoulli(q), infer={"enumerate": "parallel"})

    batch = full_batch(CrowdData(torch.zeros(3, 1)))
    found = enumerated_inference(part, part, batch)(batch).assignments
    torch.testing.assert_close(found, torch.stack([1 - q, q], 1))


def test_probabilities_are_averaged_over_thirty_draws():
    draws = torch.randn(40, 6, 3).log_softmax(-1)
    left = iter(draws)
    found = averaged(lambda: next(left)).logits.softmax(-1)
    torch.testing.assert_close(found, draws[:30].exp().mean(0))
    assert len(list(left)) == 10


def test_draws_that_are_alike_are_one():
    left = iter(torch.zeros(40, 6, 3))
    averaged(lambda: next(left))
    assert len(list(left)) == 38
