"""What must not matter: the names of clusters, workers and items, and who says nothing."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro.infer import Trace_ELBO
from torch import Tensor

from pyro_crowdclust.families import Beta
from pyro_crowdclust.guides import MessagePassingGuide
from pyro_crowdclust.minibatches import Batch

from ..comparisons import same
from ..problems import NUM_CLUSTERS, NUM_WORKERS, mixture_problem, normal_problem, weighted

seeds = st.integers(0, 2**31)
few_examples = settings(deadline=None, max_examples=15, derandomize=True)


def random_problem(seed: int) -> tuple[MessagePassingGuide, Batch]:
    torch.manual_seed(seed)
    guide, batch = mixture_problem()
    return guide, weighted(batch)


def elbo(guide: MessagePassingGuide, batch: Batch) -> float:
    """The ELBO, leaving natural gradients behind."""
    for parameter in guide.parameters():
        parameter.grad = None
    loss = Trace_ELBO(max_plate_nesting=1).differentiable_loss(guide.model, guide, batch)
    loss.backward()
    return -loss.item()


def gradients(guide: MessagePassingGuide) -> dict[str, Tensor]:
    return {name: q.natural_parameters.grad.clone() for name, q in guide.posteriors.items()}


def permute_posteriors(guide: MessagePassingGuide, order: list[int], names: list[str]) -> None:
    for name in names:
        posterior = guide.posteriors[name]
        posterior.set_natural_parameters(posterior.natural_parameters.detach()[order])


def reorder_items(batch: Batch, order: Tensor) -> Batch:
    """Row r of the new batch is row ``order[r]`` of the old one."""
    new_row = order.argsort()
    return dataclasses.replace(
        batch,
        features=batch.features[order],
        items=batch.items[order],
        item_weight=batch.item_weight[order],
        left=new_row[batch.left],
        right=new_row[batch.right],
    )


@few_examples
@given(seed=seeds, order=st.permutations(range(NUM_CLUSTERS)))
def test_names_of_clusters_do_not_matter(seed, order):
    guide, batch = random_problem(seed)
    before, q = elbo(guide, batch), guide.infer(batch).assignments
    slopes = gradients(guide)
    permute_posteriors(guide, order, ["weights", "components"])
    assert elbo(guide, batch) == pytest.approx(before, rel=1e-10)
    same(guide.infer(batch).assignments, q[:, order])
    for name, gradient in gradients(guide).items():
        of_clusters = name in ("weights", "components")
        same(gradient, slopes[name][order] if of_clusters else slopes[name])


@few_examples
@given(seed=seeds, order=st.permutations(range(NUM_WORKERS)))
def test_names_of_workers_do_not_matter(seed, order):
    guide, batch = random_problem(seed)
    before, q = elbo(guide, batch), guide.infer(batch).assignments
    slopes = gradients(guide)
    permute_posteriors(guide, order, ["sensitivity", "specificity"])
    new_code = torch.tensor(order).argsort()
    batch = dataclasses.replace(batch, worker=new_code[batch.worker])
    assert elbo(guide, batch) == pytest.approx(before, rel=1e-10)
    same(guide.infer(batch).assignments, q)
    for name, gradient in gradients(guide).items():
        of_workers = name in ("sensitivity", "specificity")
        same(gradient, slopes[name][order] if of_workers else slopes[name])


@few_examples
@given(seed=seeds, order=st.permutations(range(4)))
def test_order_of_items_does_not_matter(seed, order):
    """Items with answers stay in front of the one without."""
    guide, batch = random_problem(seed)
    before, q = elbo(guide, batch), guide.infer(batch).assignments
    slopes = gradients(guide)
    rows = torch.tensor([*order, 4])
    batch = reorder_items(batch, rows)
    assert elbo(guide, batch) == pytest.approx(before, rel=1e-10)
    same(guide.infer(batch).assignments, q[rows])
    for name, gradient in gradients(guide).items():
        same(gradient, slopes[name])


@few_examples
@given(
    seed=seeds,
    swapped=st.lists(st.booleans(), min_size=6, max_size=6),
    order=st.permutations(range(6)),
)
def test_order_of_answers_and_of_their_ends_does_not_matter(seed, swapped, order):
    guide, batch = random_problem(seed)
    before, q = elbo(guide, batch), guide.infer(batch).assignments
    slopes = gradients(guide)
    swap = torch.tensor(swapped)
    batch = dataclasses.replace(
        batch,
        left=torch.where(swap, batch.right, batch.left)[order],
        right=torch.where(swap, batch.left, batch.right)[order],
        worker=batch.worker[order],
        label=batch.label[order],
        pair_weight=batch.pair_weight[order],
    )
    assert elbo(guide, batch) == pytest.approx(before, rel=1e-10)
    same(guide.infer(batch).assignments, q)
    for name, gradient in gradients(guide).items():
        same(gradient, slopes[name])


@few_examples
@given(
    seed=seeds,
    yes=st.floats(0.2, 20.0),
    no=st.floats(0.2, 20.0),
    answers=st.lists(st.sampled_from([0.0, 1.0]), min_size=6, max_size=6),
)
def test_an_uninformative_worker_changes_nothing(seed, yes, no, answers):
    """Who says "same" as often of the same as of the different says nothing: alpha = 1 - beta."""
    guide, batch = random_problem(seed)
    for name, counts in (("sensitivity", (yes, no)), ("specificity", (no, yes))):
        eta = guide.posteriors[name].natural_parameters.detach().clone()
        eta[1] = Beta().natural(*torch.tensor(counts))
        guide.posteriors[name].set_natural_parameters(eta)
    informative = batch.worker == 0
    label = torch.where(informative, batch.label, torch.tensor(answers))
    with_both = guide.infer(dataclasses.replace(batch, label=label)).assignments
    kept = {
        name: getattr(batch, name)[informative]
        for name in ("left", "right", "worker", "label", "pair_weight")
    }
    same(guide.infer(dataclasses.replace(batch, **kept)).assignments, with_both)
    # The other worker must say something, or the test could not fail.
    assert (guide.infer(batch).assignments - guide.infer(_alone(batch)).assignments).abs().max() > 0


def _alone(batch: Batch) -> Batch:
    names = ("left", "right", "worker", "label", "pair_weight", "answers")
    return dataclasses.replace(batch, **{name: getattr(batch, name)[:0] for name in names})


@few_examples
@given(seed=seeds)
def test_an_inverted_worker_who_answers_the_opposite_is_the_same_worker(seed):
    """Rates alpha and beta with labels L, or 1 - alpha and 1 - beta with labels 1 - L."""
    guide, batch = random_problem(seed)
    before = guide.infer(batch).assignments
    for name in ("sensitivity", "specificity"):
        posterior = guide.posteriors[name]
        posterior.set_natural_parameters(posterior.natural_parameters.detach().flip(-1))
    flipped = dataclasses.replace(batch, label=1 - batch.label)
    same(guide.infer(flipped).assignments, before)


@few_examples
@given(seed=seeds, cut=st.integers(1, 4))
def test_splitting_a_batch_averages_to_the_whole(seed, cut):
    """Two parts of the items, each weighted by two, are on average the whole, slopes included."""
    torch.manual_seed(seed)
    guide, batch = mixture_problem()
    batch = dataclasses.replace(_alone(batch), num_paired=0)
    whole = elbo(guide, batch)
    slopes = gradients(guide)
    parts = []
    for rows in (slice(0, cut), slice(cut, 5)):
        part = dataclasses.replace(
            batch,
            features=batch.features[rows],
            items=batch.items[rows],
            item_weight=2 * batch.item_weight[rows],
        )
        parts.append((elbo(guide, part), gradients(guide)))
    assert sum(value for value, _ in parts) / 2 == pytest.approx(whole, rel=1e-10)
    for name, gradient in slopes.items():
        same(sum(each[name] for _, each in parts) / 2, gradient)


@few_examples
@given(seed=seeds, order=st.permutations(range(NUM_CLUSTERS)))
def test_names_of_clusters_do_not_matter_to_latents(seed, order):
    torch.manual_seed(seed)
    guide, batch = normal_problem()
    before = guide.infer(batch)
    permute_posteriors(guide, order, ["weights", "components"])
    after = guide.infer(batch)
    same(after.assignments, before.assignments[:, order])
    same(after.latent.flat(), before.latent.flat())
