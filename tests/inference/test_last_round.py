"""Hand-written gradients against autograd and finite differences, in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pyro_crowdclust.families import (
    Categorical,
    Gaussian,
    GaussianPotential,
    Moments,
    NormalInverseWishart,
)
from pyro_crowdclust.inference import LocalConditionals
from pyro_crowdclust.inference.last_round import last_round

from ..oracles import random_natural, random_potential

FAMILY = NormalInverseWishart(3)
LOCAL = Gaussian(3)
N, K = 4, 5


def problem(paired: int) -> tuple[LocalConditionals, tuple[Tensor, Tensor, Tensor]]:
    conditionals = LocalConditionals(
        FAMILY,
        torch.randn(K),
        FAMILY.expected_statistics(random_natural(FAMILY, K)),
        GaussianPotential(*(part.requires_grad_() for part in random_potential(N, 3))),
    )
    alone, assignments = torch.randn(paired, K).softmax(-1), torch.randn(N, K).softmax(-1)
    return conditionals, (alone, assignments, torch.randn(paired, K))


@pytest.mark.parametrize("paired", [0, 2, N])
def test_the_last_round_is_that_of_autograd(paired):
    """Autograd runs where the global parameters learn, too."""
    conditionals, arguments = problem(paired)
    globals_learn = LocalConditionals(
        FAMILY,
        conditionals.log_weights.clone().requires_grad_(),
        conditionals.components,
        conditionals.potential,
    )
    found = []
    for way in (conditionals, globals_learn):
        posteriors = way.last_round(*arguments)
        parts = [part for local in posteriors for part in (local.logits, *local.latent)]
        log_determinants = posteriors[1].log_determinant
        if log_determinants is None:
            log_determinants = torch.linalg.slogdet(posteriors[1].latent.root).logabsdet
        parts.append(log_determinants)
        torch.manual_seed(3)
        loss = sum((torch.randn(part.shape) * part).sum() for part in parts)
        found.append((*parts, *torch.autograd.grad(loss, conditionals.potential)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["log_weights", "components"])
def test_globals_that_learn_have_the_right_gradient(name):
    conditionals, arguments = problem(2)

    def logits(learned: Tensor) -> Tensor:
        rounds = replace(conditionals, **{name: learned}).last_round(*arguments)
        return torch.cat([local.logits for local in rounds])

    learned = getattr(conditionals, name).requires_grad_()
    direction = torch.randn_like(learned)
    slope = torch.randn(2 + N, K)
    if name == "components":  # which have symmetric precisions
        direction = FAMILY.expected_statistics(random_natural(FAMILY, K)) - learned.detach()
    (gradient,) = torch.autograd.grad((slope * logits(learned)).sum(), learned)
    step = 1e-6
    ahead, behind = (logits(learned.detach() + s * step * direction) for s in (1, -1))
    expected = (slope * (ahead - behind)).sum() / (2 * step)
    torch.testing.assert_close((gradient * direction).sum(), expected, rtol=1e-6, atol=1e-6)


OUTPUTS = {
    "mean alone": lambda rounds: rounds.alone.mean,
    "second moment alone": lambda rounds: rounds.alone.second,
    "root alone": lambda rounds: rounds.alone.root,
    "logits alone": lambda rounds: rounds.alone_logits,
    "mean": lambda rounds: rounds.latent.mean,
    "second moment": lambda rounds: rounds.latent.second,
    "root": lambda rounds: rounds.latent.root,
    "logits": lambda rounds: rounds.logits,
    "log determinant": lambda rounds: rounds.log_determinant,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_output_of_the_last_round_has_the_right_gradient(output):
    """One output at a time, so that the others have no gradient at all."""
    conditionals, arguments = problem(2)

    def value(*potential: Tensor) -> Tensor:
        way = conditionals.log_weights, conditionals.components, GaussianPotential(*potential)
        return OUTPUTS[output](last_round(LOCAL, *way, *arguments))

    assert torch.autograd.gradcheck(value, tuple(conditionals.potential))


def test_second_moments_are_the_expectations():
    mean, root = torch.randn(2, N, 3), torch.randn(2, N, 3, 3)
    moments = Moments.with_root(mean, root)
    expected = torch.einsum("bni,bnj->bnij", mean, mean)
    expected = expected + torch.einsum("bnik,bnjk->bnij", root, root)
    torch.testing.assert_close(moments.second, expected)
    for ours, theirs in zip(Moments.of(moments.flat()), moments, strict=True):
        torch.testing.assert_close(ours, theirs)
    ones = torch.ones(2, N, 2)
    statistics = torch.cat([moments.expected_statistics(), ones], -1)
    torch.testing.assert_close(FAMILY.observation_statistics(moments.flat()), statistics)


def test_second_moments_have_the_right_gradient():
    mean, root = torch.randn(2, 3, 2, requires_grad=True), torch.randn(2, 3, 2, 2)

    def second(mean: Tensor, root: Tensor) -> Tensor:
        return Moments.with_root(mean, root).second

    arguments = mean, root.requires_grad_()
    assert torch.autograd.gradcheck(second, arguments)
    assert torch.autograd.gradgradcheck(second, arguments)


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_softmax_without_denormals_has_the_right_gradient(scale):
    logits = (scale * torch.randn(3, 5)).requires_grad_()
    softmax = Categorical(5).expected_statistics
    torch.testing.assert_close(softmax(logits), logits.softmax(-1))
    assert torch.autograd.gradcheck(softmax, logits)
    assert torch.autograd.gradgradcheck(softmax, logits)
